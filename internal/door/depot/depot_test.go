package depot

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/muster-dev/muster/internal/door/shelf"
	"github.com/muster-dev/muster/internal/environment/source"
)

// rig is a depot in a folder, and somebody's code.
type rig struct {
	*testing.T
	depot *Depot
	dir   string
	mine  *source.Store
}

func newRig(t *testing.T, o Options) *rig {
	t.Helper()
	r := &rig{T: t, dir: t.TempDir()}
	s, err := shelf.OpenFolder(r.dir)
	r.must(err)
	o.Shelf = s
	r.depot = New(o)
	r.mine, err = source.Open(filepath.Join(t.TempDir(), "code"))
	r.must(err)
	return r
}

func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// code is a snapshot of files of mine.
func (r *rig) code(files map[string]string) *source.Parcel {
	r.Helper()
	dir := r.TempDir()
	for name, text := range files {
		r.must(os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		r.must(os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	result, err := r.mine.Snapshot(r.Context(), dir, source.Options{})
	r.must(err)
	p, err := r.mine.Parcel(result.Digest)
	r.must(err)
	return p
}

// parcel is what is sent of a snapshot: its list and some contents.
func (r *rig) parcel(p *source.Parcel, hashes ...string) *bytes.Buffer {
	r.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	add := func(name string, data []byte) {
		r.must(w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Size: int64(len(data)), Mode: 0o600}))
		_, err := w.Write(data)
		r.must(err)
	}
	add(source.ListName, p.Encoded())
	for _, hash := range hashes {
		in, err := r.mine.Open(hash)
		r.must(err)
		data, err := io.ReadAll(in)
		r.must(errors.Join(err, in.Close()))
		add(source.ContentPrefix+hash, data)
	}
	r.must(w.Close())
	return &out
}

func hashes(p *source.Parcel) []string {
	var out []string
	for _, c := range p.Contents() {
		out = append(out, c.Hash)
	}
	return out
}

// send sends hashes, and checks how many are missing after that.
func (r *rig) send(namespace string, p *source.Parcel, missing int, hashes ...string) []string {
	r.Helper()
	got, err := r.depot.Receive(r.Context(), namespace, p.Digest(), r.parcel(p, hashes...))
	r.must(err)
	if len(got) != missing {
		r.Errorf("%d contents are missing, want %d", len(got), missing)
	}
	return got
}

func (r *rig) has(namespace string, p *source.Parcel, want bool) {
	r.Helper()
	got, err := r.depot.Has(r.Context(), namespace, p.Digest())
	r.must(err)
	if got != want {
		r.Errorf("has it: %v, want %v", got, want)
	}
}

// age makes everything on the shelf older.
func (r *rig) age(by time.Duration) {
	r.Helper()
	r.must(filepath.WalkDir(r.dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		at := info.ModTime().Add(-by)
		return os.Chtimes(path, at, at)
	}))
	clear(r.depot.known) // as another replica would see it
}

func TestOnlyWhatIsMissingIsSent(t *testing.T) {
	r := newRig(t, Options{})
	p := r.code(map[string]string{"train.py": "print(1)", "lib/a.py": "a", "lib/empty": "", "lib/b.py": strings.Repeat("b", small+1)})
	r.has("ada", p, false)
	r.send("ada", p, 4)
	missing := r.send("ada", p, 3, hashes(p)[0])
	r.has("ada", p, false)
	r.send("ada", p, 0, missing...)
	r.has("ada", p, true)
	// A change sends one content.
	changed := r.code(map[string]string{"train.py": "print(2)", "lib/a.py": "a", "lib/empty": "", "lib/b.py": strings.Repeat("b", small+1)})
	r.send("ada", changed, 0, r.send("ada", changed, 1)...)
	// Another namespace learns nothing of it.
	r.has("bob", p, false)
	r.send("bob", p, 4)
	// What was put is what comes out.
	var out bytes.Buffer
	r.must(r.depot.Write(t.Context(), "ada", p, &out))
	dst := filepath.Join(t.TempDir(), "code")
	r.must(source.Unpack(t.Context(), &out, p.Digest(), dst, source.Limits{}))
	if text, err := os.ReadFile(filepath.Join(dst, "train.py")); err != nil || string(text) != "print(1)" {
		t.Errorf("%q %v", text, err)
	}
}

func TestWhatIsNotTaken(t *testing.T) {
	r := newRig(t, Options{Quota: 10, Limits: source.Limits{MaxBytes: 100}})
	p := r.code(map[string]string{"train.py": "print(1)"})
	other := r.code(map[string]string{"x.py": "123456789"})
	large := r.code(map[string]string{"x.py": strings.Repeat("x", 101)})
	forged := r.parcel(p, hashes(p)...)
	forged = bytes.NewBuffer(bytes.Replace(forged.Bytes(), []byte("print(1)"), []byte("print(2)"), 1))
	cut := r.parcel(p, hashes(p)...)
	cut.Truncate(cut.Len() - 1024 - 512)
	for name, tt := range map[string]struct {
		digest string
		sent   *bytes.Buffer
		want   error
	}{
		"nothing":            {p.Digest(), &bytes.Buffer{}, ErrInvalid},
		"no digest":          {"sha256:../..", r.parcel(p), ErrInvalid},
		"another's list":     {p.Digest(), r.parcel(other), ErrInvalid},
		"a forged content":   {p.Digest(), forged, ErrInvalid},
		"cut off":            {p.Digest(), cut, ErrInvalid},
		"too large":          {large.Digest(), r.parcel(large), source.ErrTooLarge},
		"a content at first": {p.Digest(), bytes.NewBuffer(r.parcel(p, hashes(p)...).Bytes()[1024+512:]), ErrInvalid},
	} {
		if _, err := r.depot.Receive(t.Context(), "ada", tt.digest, tt.sent); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
		r.has("ada", p, false)
	}
	r.send("ada", p, 0, hashes(p)...)
	if _, err := r.depot.Receive(t.Context(), "ada", other.Digest(), r.parcel(other, hashes(other)...)); !errors.Is(err, ErrQuota) || !strings.Contains(err.Error(), "namespace ada keeps 8 B") {
		t.Errorf("beyond the quota: %v", err)
	}
	r.send("bob", other, 0, hashes(other)...) // each has their own
}

func TestWhatIsDamagedIsMendedByTheNextRun(t *testing.T) {
	r := newRig(t, Options{})
	p := r.code(map[string]string{"train.py": "print(1)", "a": "a"})
	r.send("ada", p, 0, hashes(p)...)
	path := filepath.Join(r.dir, filepath.FromSlash(key("ada", blobs, hashes(p)[0])))
	text, err := os.ReadFile(path)
	r.must(err)
	r.must(os.WriteFile(path, bytes.Repeat([]byte("?"), len(text)), 0o600))
	if err := r.depot.Write(t.Context(), "ada", p, io.Discard); !errors.Is(err, source.ErrDamaged) {
		t.Fatalf("%v, want that it is damaged", err)
	}
	r.has("ada", p, false)
	r.send("ada", p, 0, r.send("ada", p, 1)...)
	r.must(r.depot.Write(t.Context(), "ada", p, io.Discard))
}

func TestADamagedListIsMendedByTheNextRun(t *testing.T) {
	r := newRig(t, Options{})
	p := r.code(map[string]string{"train.py": "print(1)"})
	r.send("ada", p, 0, hashes(p)...)
	r.must(os.WriteFile(filepath.Join(r.dir, filepath.FromSlash(key("ada", trees, hashOf(p.Digest())))), []byte("{}"), 0o600))
	later := New(r.depot.opts) // which has not seen it yet
	if _, err := later.Has(t.Context(), "ada", p.Digest()); !errors.Is(err, source.ErrDamaged) {
		t.Fatalf("%v, want that it is damaged", err)
	}
	r.depot = later
	r.has("ada", p, false)
	r.send("ada", p, 0)
	r.has("ada", p, true)
}

// mute is a shelf that does not answer.
type mute struct{ shelf.Shelf }

var errMute = errors.New("no route to the bucket")

func (mute) Get(context.Context, string) (io.ReadCloser, error) { return nil, errMute }

func TestAShelfThatDoesNotAnswerSaysNothingOfTheCode(t *testing.T) {
	r := newRig(t, Options{})
	p := r.code(map[string]string{"train.py": "print(1)"})
	r.send("ada", p, 0, hashes(p)...)
	there := r.sources(r.depot.opts)
	r.depot.opts.Shelf = mute{r.depot.opts.Shelf}
	if _, err := r.contains(r.sources(r.depot.opts), "ada/job", p.Digest()); !errors.Is(err, source.ErrAway) || !errors.Is(err, errMute) {
		t.Errorf("of one that does not answer: %v", err)
	}
	if has, err := r.contains(there, "ada/job", p.Digest()); !has || err != nil {
		t.Errorf("of one that does: %v %v", has, err)
	}
	if _, err := r.contains(there, "bob/job", p.Digest()); !errors.Is(err, ErrNotStored) || errors.Is(err, source.ErrAway) {
		t.Errorf("of one that has none: %v", err)
	}
	if has, err := there.Has("bob/job", p.Digest()); has || err != nil {
		t.Errorf("has one that has none: %v %v", has, err)
	}
}

// sources look at a shelf for as long as the test runs.
func (r *rig) sources(o Options) *Sources {
	s := New(o).Sources()
	ctx, cancel := context.WithCancel(r.Context())
	done := make(chan error, 1)
	go func() { done <- s.Start(ctx) }()
	r.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			r.Error(err)
		}
	})
	return s
}

// contains asks, and once more when it is told to.
func (r *rig) contains(s *Sources, owner, digest string) (bool, error) {
	r.Helper()
	if has, err := s.Contains(owner, digest, "train.py"); !errors.Is(err, source.ErrAsked) {
		r.Fatalf("before the shelf was asked: %v %v", has, err)
	}
	<-s.Changes()
	return s.Contains(owner, digest, "train.py")
}

// stuck is a shelf that answers once it is let go.
type stuck struct {
	shelf.Shelf
	asked, free chan struct{}
}

func (s stuck) Get(ctx context.Context, key string) (io.ReadCloser, error) {
	s.asked <- struct{}{}
	<-s.free
	return s.Shelf.Get(ctx, key)
}

// Who asks never waits for the shelf, which is asked once for all, and hears when
// it has answered.
func TestAskingDoesNotWaitForTheShelf(t *testing.T) {
	r := newRig(t, Options{})
	p := r.code(map[string]string{"train.py": "print(1)"})
	r.send("ada", p, 0, hashes(p)...)
	slow := stuck{r.depot.opts.Shelf, make(chan struct{}, 9), make(chan struct{})}
	r.depot.opts.Shelf = slow
	s := r.sources(r.depot.opts)
	for _, owner := range []string{"ada/1", "ada/2", "ada/1"} {
		if has, err := s.Has(owner, p.Digest()); has || !errors.Is(err, source.ErrAsked) {
			t.Fatalf("%s: %v %v", owner, has, err)
		}
	}
	<-slow.asked
	if has, err := s.Has("ada/3", p.Digest()); has || !errors.Is(err, source.ErrAsked) {
		t.Errorf("while it is asked: %v %v", has, err)
	}
	close(slow.free)
	<-s.Changes()
	for _, owner := range []string{"ada/1", "ada/3", "ada/4"} {
		if has, err := s.Has(owner, p.Digest()); !has || err != nil {
			t.Errorf("%s, once it has answered: %v %v", owner, has, err)
		}
	}
	if len(slow.asked) > 0 {
		t.Error("it was asked more than once")
	}
}

// far is a shelf on which nothing can be read unless several contents are asked
// for at once.
type far struct {
	shelf.Shelf
	mu    sync.Mutex
	asked int
	met   chan struct{}
}

func (f *far) Get(ctx context.Context, key string) (io.ReadCloser, error) {
	if strings.Contains(key, "/"+blobs+"/") {
		f.mu.Lock()
		if f.asked++; f.asked == 3 {
			close(f.met)
		}
		f.mu.Unlock()
		select {
		case <-f.met:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return f.Shelf.Get(ctx, key)
}

func TestContentsAreReadAhead(t *testing.T) {
	r := newRig(t, Options{})
	files := map[string]string{"large": strings.Repeat("l", small+1)}
	for i := range 3 * atOnce {
		files[fmt.Sprintf("f%02d", i)] = fmt.Sprint("content ", i)
	}
	p := r.code(files)
	r.send("ada", p, 0, hashes(p)...)
	r.depot.opts.Shelf = &far{Shelf: r.depot.opts.Shelf, met: make(chan struct{})}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var out bytes.Buffer
	r.must(r.depot.Write(ctx, "ada", p, &out))
	r.must(source.Unpack(ctx, &out, p.Digest(), filepath.Join(t.TempDir(), "code"), source.Limits{}))
	// Who stops listening leaves nothing behind: Write returns once all is given up.
	if err := r.depot.Write(ctx, "ada", p, failing{}); !errors.Is(err, errDeaf) {
		t.Errorf("to nobody: %v", err)
	}
}

var errDeaf = errors.New("nobody listens")

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errDeaf }

func TestPrune(t *testing.T) {
	const day = 24 * time.Hour
	r := newRig(t, Options{Retention: 14 * day})
	shared := "in both"
	old := r.code(map[string]string{"a": shared, "b": "of the old one alone"})
	kept := r.code(map[string]string{"a": shared, "c": "of the one that a job names"})
	for _, p := range []*source.Parcel{old, kept} {
		r.send("ada", p, 0, hashes(p)...)
	}
	nobody := func(string, string) bool { return false }
	prune := func(refers func(string, string) bool, snapshots, contents int) {
		t.Helper()
		got, err := r.depot.Prune(t.Context(), refers)
		r.must(err)
		if got.Snapshots != snapshots || got.Contents != contents {
			t.Errorf("removed %+v, want %d snapshots and %d contents", got, snapshots, contents)
		}
	}
	prune(nobody, 0, 0)
	r.age(8 * day)
	// Contents this old are not counted on any more: they are sent again.
	fresh := r.code(map[string]string{"a": shared})
	r.send("ada", fresh, 0, r.send("ada", fresh, 1)...)
	r.age(8 * day)
	prune(func(namespace, digest string) bool { return namespace == "ada" && digest == kept.Digest() }, 1, 1)
	r.has("ada", old, false)
	r.has("ada", kept, true)
	r.has("ada", fresh, true) // which counts as use
	r.age(8 * day)
	prune(nobody, 0, 0) // a job named it, or somebody asked for it
	r.age(8 * day)
	prune(nobody, 2, 2)
	var left []string
	r.must(r.depot.opts.Shelf.List(context.Background(), "code/", func(i shelf.Info) error {
		left = append(left, i.Key)
		return nil
	}))
	if len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
}
