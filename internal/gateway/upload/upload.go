package upload

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/zeebo/blake3"
	"golang.org/x/sync/errgroup"

	"github.com/muster-dev/muster/internal/data/backend"
	"github.com/muster-dev/muster/internal/data/warehouse"
)

const (
	// MaxParts is the largest number of parts in an upload.
	MaxParts = 10_000
	// uploadsLast is the time for which the store keeps an incomplete upload after its
	// last part.
	uploadsLast = 7 * 24 * time.Hour
	// partsLast is the time for which the store keeps parts of an ended upload.
	partsLast = 24 * time.Hour
	// SweepEvery is the interval of the gateway's sweeps.
	SweepEvery = time.Hour
	// together is the number of objects of an upload that the store reads or removes
	// concurrently.
	together = 16
)

// The objects of an upload are ID.json, its description; ID.p00001, the note of part 1;
// and ID.NAME, the bytes of a part under a random name.
const (
	described = ".json"
	numbered  = ".p"
)

// Upload is a file in parts.
type Upload struct {
	ID        string    `json:"-"`
	Namespace string    `json:"namespace"`
	Dataset   string    `json:"dataset"`
	Branch    string    `json:"branch"`
	Path      string    `json:"path"`
	User      string    `json:"user"`
	Begun     time.Time `json:"begun"`
}

// Key returns the S3 key of the complete file.
func (u *Upload) Key() string { return u.Branch + "/" + u.Path }

// Part is one part of an upload.
type Part struct {
	Number int       `json:"number"`
	Tag    string    `json:"tag"`
	Size   int64     `json:"size"`
	Stored time.Time `json:"stored"`
	// Bytes is the key of the object with the part's bytes.
	Bytes string `json:"bytes"`
}

// Body is the stream of a part's content.
type Body interface {
	io.Reader
	// End returns an error if the body, read to its end, differs from its announced size
	// or checksum.
	End() error
	// Wrong stops all reads, also those of a store that has answered early. It returns
	// the error of the body, or nil.
	Wrong() error
}

// Store keeps uploads in the store of their namespace's data, so that any gateway process
// can continue one. Acknowledged writes are durable.
type Store struct{ Objects backend.Streamer }

func descriptionOf(id string) string { return warehouse.Uploads + id + described }

func noteOf(id string, number int) string {
	return fmt.Sprintf("%s%s%s%05d", warehouse.Uploads, id, numbered, number)
}

// Begin creates an upload and returns its ID.
func (u Store) Begin(ctx context.Context, of Upload) (string, error) {
	id := rand.Text()
	if err := u.note(ctx, descriptionOf(id), of); err != nil {
		return "", fmt.Errorf("beginning an upload: %w", err)
	}
	return id, nil
}

func (u Store) note(ctx context.Context, key string, what any) error {
	said, err := json.Marshal(what)
	if err != nil {
		return err
	}
	return u.Objects.Put(ctx, key, said)
}

// read reads a note. The error wraps [fs.ErrNotExist] for a missing note.
func (u Store) read(ctx context.Context, key string, into any) error {
	said, err := backend.Read(ctx, u.Objects, key)
	if err != nil {
		return err
	}
	return json.Unmarshal(said, into)
}

// Find returns an upload. The error wraps [fs.ErrNotExist] for a missing upload.
func (u Store) Find(ctx context.Context, id string) (Upload, error) {
	if id == "" || strings.Trim(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") != "" {
		return Upload{}, fmt.Errorf("upload %q: %w", id, fs.ErrNotExist)
	}
	found := Upload{ID: strings.Clone(id)}
	if err := u.read(ctx, descriptionOf(id), &found); err != nil {
		return Upload{}, fmt.Errorf("reading upload %s: %w", id, err)
	}
	return found, nil
}

// see calls show for each object of all uploads, with the upload's ID and the rest of
// the object's name.
func (u Store) see(ctx context.Context, show func(id, rest string, i backend.Info) error) error {
	err := u.Objects.List(ctx, warehouse.Uploads, func(i backend.Info) error {
		name := strings.TrimPrefix(i.Key, warehouse.Uploads)
		// Objects in folders do not belong to uploads.
		if at := strings.IndexByte(name, '.'); at > 0 && !strings.Contains(name, "/") {
			return show(name[:at], name[at:], i)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("listing uploads: %w", err)
	}
	return nil
}

// All returns the uploads of a dataset, in the order of their keys.
func (u Store) All(ctx context.Context, namespace, dataset string) ([]Upload, error) {
	var ids []string
	err := u.see(ctx, func(id, rest string, _ backend.Info) error {
		if rest == described {
			ids = append(ids, id)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var found []Upload
	for _, id := range ids {
		one, err := u.Find(ctx, id)
		switch {
		case errors.Is(err, fs.ErrNotExist): // ended meanwhile
		case err != nil:
			return nil, err
		case one.Namespace == namespace && one.Dataset == dataset:
			found = append(found, one)
		}
	}
	slices.SortFunc(found, func(a, b Upload) int {
		return strings.Compare(a.Key()+"\x00"+a.ID, b.Key()+"\x00"+b.ID)
	})
	return found, nil
}

// Put stores a part of size bytes, and replaces a part with the same number. The part is
// durable when Put returns.
func (u Store) Put(ctx context.Context, id string, number int, size int64, body Body) (Part, error) {
	before := Part{}
	if err := u.read(ctx, noteOf(id, number), &before); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Part{}, fmt.Errorf("keeping part %d: %w", number, err)
	}
	hash := blake3.New()
	p := Part{Number: number, Size: size, Stored: time.Now(), Bytes: warehouse.Uploads + id + "." + rand.Text()}
	if err := u.Objects.PutFrom(ctx, p.Bytes, size, io.TeeReader(body, hash)); err != nil {
		return Part{}, fmt.Errorf("keeping part %d: %w", number, errors.Join(body.Wrong(), err))
	}
	ctx = context.WithoutCancel(ctx) // the bytes are stored
	if err := body.End(); err != nil {
		return Part{}, fmt.Errorf("keeping part %d: %w", number, errors.Join(err, u.Objects.Delete(ctx, p.Bytes)))
	}
	p.Tag = fmt.Sprintf("%x", hash.Sum(nil))
	if err := u.note(ctx, noteOf(id, number), p); err != nil {
		// The note may have been written all the same, so the bytes stay. The sweep
		// removes them with the upload.
		return Part{}, fmt.Errorf("keeping part %d: %w", number, err)
	}
	if before.Bytes != "" {
		_ = u.Objects.Delete(ctx, before.Bytes) // else the sweep removes it with the upload
	}
	return p, nil
}

// Named returns the stored parts with these numbers, in the order of the numbers.
func (u Store) Named(ctx context.Context, id string, numbers []int) ([]Part, error) {
	found := make([]Part, len(numbers))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(together)
	for i, number := range numbers {
		group.Go(func() error {
			err := u.read(ctx, noteOf(id, number), &found[i])
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, fmt.Errorf("reading the parts of an upload: %w", err)
	}
	return slices.DeleteFunc(found, func(p Part) bool { return p.Bytes == "" }), nil
}

// Parts returns all stored parts, in the order of their numbers.
func (u Store) Parts(ctx context.Context, id string) ([]Part, error) {
	var numbers []int
	err := u.see(ctx, func(of, rest string, _ backend.Info) error {
		number := 0
		if n, err := fmt.Sscanf(rest, numbered+"%05d", &number); of == id && n == 1 && err == nil {
			numbers = append(numbers, number)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.Sort(numbers)
	return u.Named(ctx, id, numbers)
}

// End ends an upload. The sweep removes its remaining parts.
func (u Store) End(ctx context.Context, id string) error {
	if err := u.Objects.Delete(ctx, descriptionOf(id)); err != nil {
		return fmt.Errorf("ending upload %s: %w", id, err)
	}
	return nil
}

// Clear removes parts of an upload that has ended.
func (u Store) Clear(ctx context.Context, id string, parts []Part) error {
	var keys []string
	for _, p := range parts {
		keys = append(keys, noteOf(id, p.Number), p.Bytes)
	}
	return u.remove(ctx, keys)
}

func (u Store) remove(ctx context.Context, keys []string) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(together)
	for _, key := range keys {
		group.Go(func() error { return u.Objects.Delete(ctx, key) })
	}
	return group.Wait()
}

// Sweep removes uploads whose last part is older than uploadsLast, and remaining parts of
// ended uploads.
func (u Store) Sweep(ctx context.Context, now time.Time) error {
	type seen struct {
		last time.Time
		open bool
		keys []string
	}
	all := map[string]*seen{}
	err := u.see(ctx, func(id, rest string, i backend.Info) error {
		if all[id] == nil {
			all[id] = &seen{}
		}
		s := all[id]
		if i.Stored.After(s.last) {
			s.last = i.Stored
		}
		s.open = s.open || rest == described
		s.keys = append(s.keys, i.Key)
		return nil
	})
	if err != nil {
		return err // an object that the listing missed may be younger
	}
	for id, s := range all {
		if age := now.Sub(s.last); age > uploadsLast || age > partsLast && !s.open {
			if failed := u.remove(ctx, s.keys); failed != nil {
				err = errors.Join(err, fmt.Errorf("removing upload %s: %w", id, failed))
			}
		}
	}
	return err
}
