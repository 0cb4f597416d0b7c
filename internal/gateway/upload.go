package gateway

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/zeebo/blake3"
)

const (
	// maxParts is how many parts an upload has at most.
	maxParts = 10_000
	// uploadsLast is how long an upload that nobody completes is kept after its last
	// part.
	uploadsLast = 7 * 24 * time.Hour
	// sweepEvery is how often the gateway looks for what is over.
	sweepEvery = time.Minute
	// description is the file that says what an upload is to be; parts are beside it,
	// incoming is what their names begin with while they come.
	description = "upload.json"
	incoming    = ".incoming-"
)

// upload is a file that comes in parts.
type upload struct {
	ID        string    `json:"-"`
	Namespace string    `json:"namespace"`
	Dataset   string    `json:"dataset"`
	Branch    string    `json:"branch"`
	Path      string    `json:"path"`
	User      string    `json:"user"`
	Begun     time.Time `json:"begun"`
}

// key is the object's.
func (u *upload) key() string { return u.Branch + "/" + u.Path }

// part is one part of an upload.
type part struct {
	number int
	tag    string
	size   int64
	stored time.Time
	file   string
}

// uploads are kept in a folder, each in one of its own. What is acknowledged of them is
// durable.
type uploads struct{ root string }

func openUploads(root string) (*uploads, error) {
	if err := os.MkdirAll(root, 0o700); err != nil {
		return nil, fmt.Errorf("making a folder for uploads: %w", err)
	}
	u := &uploads{root: root}
	return u, u.sweep(time.Now())
}

// sweep removes uploads that nobody completes, and what was cut off on its way.
func (u *uploads) sweep(now time.Time) error {
	folders, err := os.ReadDir(u.root)
	for _, f := range folders {
		dir := filepath.Join(u.root, f.Name())
		info, failed := f.Info() // of the folder: the time of its last new name
		if failed == nil && now.Sub(info.ModTime()) > uploadsLast {
			failed = os.RemoveAll(dir)
		}
		if !errors.Is(failed, fs.ErrNotExist) {
			err = errors.Join(err, failed)
		}
	}
	return err
}

// begin makes an upload.
func (u *uploads) begin(of upload) (string, error) {
	id := rand.Text()
	said, err := json.Marshal(of)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(u.root, id)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", fmt.Errorf("beginning an upload: %w", err)
	}
	if _, _, err := write(dir, description, strings.NewReader(string(said))); err != nil {
		return "", fmt.Errorf("beginning an upload: %w", errors.Join(err, os.RemoveAll(dir)))
	}
	return id, syncFolder(u.root)
}

// find is an upload; the error wraps [fs.ErrNotExist] where there is none.
func (u *uploads) find(id string) (upload, error) {
	if id == "" || strings.Trim(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") != "" {
		return upload{}, fmt.Errorf("upload %q: %w", id, fs.ErrNotExist)
	}
	said, err := os.ReadFile(filepath.Join(u.root, id, description))
	if err != nil {
		return upload{}, fmt.Errorf("reading upload %s: %w", id, err)
	}
	found := upload{ID: strings.Clone(id)}
	if err := json.Unmarshal(said, &found); err != nil {
		return upload{}, fmt.Errorf("reading upload %s: %w", id, err)
	}
	return found, nil
}

// all are the uploads of a dataset, in the order of their keys.
func (u *uploads) all(name placeName) ([]upload, error) {
	folders, err := os.ReadDir(u.root)
	if err != nil {
		return nil, fmt.Errorf("listing uploads: %w", err)
	}
	var found []upload
	for _, f := range folders {
		one, err := u.find(f.Name())
		switch {
		case errors.Is(err, fs.ErrNotExist): // over meanwhile, or beginning
		case err != nil:
			return nil, err
		case placeName{one.Namespace, one.Dataset} == name:
			found = append(found, one)
		}
	}
	slices.SortFunc(found, func(a, b upload) int {
		return strings.Compare(a.key()+"\x00"+a.ID, b.key()+"\x00"+b.ID)
	})
	return found, nil
}

// put keeps a part in place of one that has its number. It is durable then.
func (u *uploads) put(id string, number int, body io.Reader) (part, error) {
	dir := filepath.Join(u.root, id)
	hash := blake3.New()
	temp, size, err := write(dir, "", io.TeeReader(body, hash))
	if err != nil {
		return part{}, err
	}
	p := part{number: number, size: size, tag: fmt.Sprintf("%x", hash.Sum(nil))}
	p.file = filepath.Join(dir, fmt.Sprintf("%05d.%s", number, p.tag))
	old, err := filepath.Glob(filepath.Join(dir, fmt.Sprintf("%05d.*", number)))
	if err == nil {
		err = os.Rename(temp, p.file)
	}
	for _, o := range old {
		if err == nil && o != p.file {
			err = os.Remove(o)
		}
	}
	if err == nil {
		err = syncFolder(dir)
	}
	if err != nil {
		return part{}, fmt.Errorf("keeping part %d: %w", number, err)
	}
	return p, nil
}

// parts are those that are there, in their order.
func (u *uploads) parts(id string) ([]part, error) {
	files, err := os.ReadDir(filepath.Join(u.root, id))
	if err != nil {
		return nil, fmt.Errorf("listing parts: %w", err)
	}
	var found []part
	for _, f := range files {
		p := part{file: filepath.Join(u.root, id, f.Name())}
		if n, err := fmt.Sscanf(f.Name(), "%05d.%64s", &p.number, &p.tag); n != 2 || err != nil {
			continue
		}
		info, err := f.Info()
		if err != nil {
			return nil, fmt.Errorf("listing parts: %w", err)
		}
		p.size, p.stored = info.Size(), info.ModTime()
		found = append(found, p)
	}
	return found, nil
}

// end removes an upload.
func (u *uploads) end(id string) error {
	dir := filepath.Join(u.root, id)
	// Without its description it is none any more, whatever is left of it.
	if err := os.Remove(filepath.Join(dir, description)); err != nil {
		return fmt.Errorf("ending upload %s: %w", id, err)
	}
	return os.RemoveAll(dir)
}

// write writes a file, durably, and gives it its name if it is to have one at once.
func write(dir, name string, body io.Reader) (path string, size int64, err error) {
	f, err := os.CreateTemp(dir, incoming)
	if err != nil {
		return "", 0, err
	}
	size, err = io.Copy(f, body)
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	path = f.Name()
	if err == nil && name != "" {
		path = filepath.Join(dir, name)
		err = os.Rename(f.Name(), path)
	}
	if err == nil && name != "" {
		err = syncFolder(dir)
	}
	if err != nil {
		return "", 0, errors.Join(err, os.Remove(f.Name()))
	}
	return path, size, nil
}

func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// joined reads files one after another.
type joined struct {
	ctx   context.Context // io.Reader has no place for one
	parts []part
	open  *os.File
}

// Read implements io.Reader.
func (j *joined) Read(p []byte) (int, error) {
	for {
		if err := j.ctx.Err(); err != nil {
			return 0, err
		}
		if j.open == nil {
			if len(j.parts) == 0 {
				return 0, io.EOF
			}
			f, err := os.Open(j.parts[0].file)
			if err != nil {
				return 0, err
			}
			j.open, j.parts = f, j.parts[1:]
		}
		n, err := j.open.Read(p)
		if !errors.Is(err, io.EOF) {
			return n, err
		}
		err = j.open.Close()
		if j.open = nil; n > 0 || err != nil {
			return n, err
		}
	}
}
