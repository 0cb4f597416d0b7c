package upload

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/muster-dev/muster/internal/data/backend"
	"github.com/muster-dev/muster/internal/data/warehouse"
)

// sound is a body without errors.
type sound struct{ io.Reader }

func (sound) End() error   { return nil }
func (sound) Wrong() error { return nil }

// TestSweep removes incomplete uploads after a long time, and the parts of ended ones
// sooner.
func TestSweep(t *testing.T) {
	for name, c := range map[string]struct {
		over bool
		age  time.Duration
		left int
	}{
		"young":                   {false, uploadsLast - time.Hour, 3},
		"old":                     {false, uploadsLast + time.Hour, 0},
		"over for a short time":   {true, partsLast - time.Hour, 2},
		"over for more than that": {true, partsLast + time.Hour, 0},
	} {
		t.Run(name, func(t *testing.T) {
			u, ctx := Store{&backend.Memory{}}, t.Context()
			id := beginWith(t, u)
			if c.over {
				if err := u.End(ctx, id); err != nil {
					t.Fatal(err)
				}
			}
			if err := u.Sweep(ctx, time.Now().Add(c.age)); err != nil {
				t.Error(err)
			}
			if _, err := u.Find(ctx, id); (err == nil) != (c.left == 3) || err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the upload: %v", err)
			}
			if left := u.count(t); left != c.left {
				t.Errorf("%d objects are left, want %d", left, c.left)
			}
		})
	}
}

// beginWith begins an upload with one part.
func beginWith(t *testing.T, u Store) string {
	t.Helper()
	id, err := u.Begin(t.Context(), Upload{Namespace: "n", Dataset: "d", Branch: "main", Path: "a"})
	if err == nil {
		_, err = u.Put(t.Context(), id, 1, 3, sound{strings.NewReader("one")})
	}
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// count returns the number of objects of all uploads.
func (u Store) count(t *testing.T) int {
	t.Helper()
	n := 0
	if err := u.Objects.List(t.Context(), warehouse.Uploads, func(backend.Info) error { n++; return nil }); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestStrangeObjects puts other objects beside uploads. The sweep keeps them.
func TestStrangeObjects(t *testing.T) {
	dir := t.TempDir()
	folder, err := backend.OpenFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	u := Store{folder}
	if err := os.MkdirAll(filepath.Join(dir, "uploads/OLD"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"upload.json": "{}", ".incoming-1": "", "00001.tag": "one"} {
		if err := os.WriteFile(filepath.Join(dir, "uploads/OLD", name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := u.Sweep(t.Context(), time.Now().Add(2*uploadsLast)); err != nil {
		t.Error(err)
	}
	if all, err := u.All(t.Context(), "", ""); len(all) != 0 || err != nil {
		t.Error(all, err)
	}
	if left := u.count(t); left != 3 {
		t.Errorf("%d objects are left of 3", left)
	}
}

// breaking is a backend whose listings and puts fail.
type breaking struct {
	backend.Streamer
	// shows is the number of objects that a listing shows before it fails.
	shows int
	// noted is the error of puts that have succeeded.
	noted error
	// stored is called once bytes are stored.
	stored func()
}

// List implements [backend.Backend].
func (b *breaking) List(ctx context.Context, prefix string, see func(backend.Info) error) error {
	shown := 0
	return b.Streamer.List(ctx, prefix, func(i backend.Info) error {
		if shown++; shown > b.shows {
			return errors.New("the listing broke off")
		}
		return see(i)
	})
}

// Put implements [backend.Backend].
func (b *breaking) Put(ctx context.Context, key string, content []byte) error {
	return errors.Join(b.Streamer.Put(ctx, key, content), b.noted)
}

// PutFrom implements [backend.Streamer].
func (b *breaking) PutFrom(ctx context.Context, key string, size int64, from io.Reader) error {
	err := b.Streamer.PutFrom(ctx, key, size, from)
	if b.stored != nil {
		b.stored()
	}
	return err
}

// TestSweepThatSeesHalf checks that a sweep removes nothing after a partial listing: an
// object that it did not see may be new.
func TestSweepThatSeesHalf(t *testing.T) {
	there := &backend.Memory{}
	beginWith(t, Store{there})
	u := Store{&breaking{Streamer: there, shows: 2}}
	if err := u.Sweep(t.Context(), time.Now().Add(2*uploadsLast)); err == nil {
		t.Error("it says nothing of the listing that broke off")
	}
	if left := (Store{there}).count(t); left != 3 {
		t.Errorf("%d objects are left of 3", left)
	}
}

// TestPartWithoutAnswer puts a part whose note is stored although its put returns an
// error. The note's bytes must exist.
func TestPartWithoutAnswer(t *testing.T) {
	there, ctx := Store{&backend.Memory{}}, t.Context()
	id := beginWith(t, there)
	u := Store{&breaking{Streamer: there.Objects, noted: errors.New("no answer came")}}
	if _, err := u.Put(ctx, id, 1, 3, sound{strings.NewReader("two")}); err == nil {
		t.Error("the part was acknowledged")
	}
	parts, err := there.Parts(ctx, id)
	if err != nil || len(parts) != 1 {
		t.Fatal(parts, err)
	}
	content, err := backend.Read(ctx, there.Objects, parts[0].Bytes)
	if err != nil || string(content) != "two" {
		t.Errorf("%q, %v", content, err)
	}
}

// TestPartAtTheEnd ends the gateway's context after a part's bytes are stored. Put must
// still store the note.
func TestPartAtTheEnd(t *testing.T) {
	there := Store{&backend.Memory{}}
	id := beginWith(t, there)
	ctx, end := context.WithCancel(t.Context())
	u := Store{&breaking{Streamer: there.Objects, stored: end}}
	if _, err := u.Put(ctx, id, 2, 3, sound{strings.NewReader("two")}); err != nil {
		t.Error(err)
	}
	parts, err := there.Parts(t.Context(), id)
	if err != nil || len(parts) != 2 {
		t.Errorf("%v, %v", parts, err)
	}
}
