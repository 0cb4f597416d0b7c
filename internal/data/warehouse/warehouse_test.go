package warehouse

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/muster-dev/muster/internal/bucket"
	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/backend"
	"github.com/muster-dev/muster/internal/data/bale"
	"github.com/muster-dev/muster/internal/data/pack"
	"github.com/muster-dev/muster/internal/data/ref"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// put makes a commit of one file in the store of a namespace.
func put(t *testing.T, w *Warehouse, namespace, text string, heads ref.Heads) {
	t.Helper()
	store, err := w.Store(t.Context(), namespace)
	must(t, err)
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "file"), []byte(text), 0o600))
	session, err := store.Dataset(heads).Begin(t.Context(), "main", data.SessionOptions{})
	must(t, err)
	must(t, session.Add(t.Context(), data.Folder(dir), data.AddOptions{}))
	_, err = session.Commit(t.Context(), data.CommitOptions{Message: "x"})
	must(t, err)
	must(t, session.Close(t.Context()))
}

func TestNamespacesShareNothing(t *testing.T) {
	root := t.TempDir()
	w, err := Open(Options{Folder: root})
	must(t, err)
	all, err := w.Namespaces(t.Context())
	if err != nil || len(all) > 0 {
		t.Errorf("%v %v", all, err)
	}
	ada, bob := &ref.Memory{}, &ref.Memory{}
	put(t, w, "ada", "the same", ada)
	put(t, w, "bob", "the same", bob)
	_, err = w.Objects("empty") // asked for, and nothing was put
	must(t, err)
	again, err := Open(Options{Folder: root})
	must(t, err)
	all, err = again.Namespaces(t.Context())
	slices.Sort(all)
	if err != nil || !slices.Equal(all, []string{"ada", "bob"}) {
		t.Errorf("%v %v", all, err)
	}
	store, err := again.Store(t.Context(), "bob")
	must(t, err)
	if _, err := store.Dataset(bob).At(t.Context(), "main"); err != nil {
		t.Error(err)
	}
	if _, err := store.Dataset(ada).At(t.Context(), "main"); err == nil {
		t.Error("what is ada's is found in the store of bob")
	}
	// What nobody needs of one goes, and nothing of the other.
	report, err := w.Collect(t.Context(), "ada", data.CollectOptions{Heads: []ref.Heads{ada}})
	if err != nil || report.Kept == 0 {
		t.Errorf("%+v %v", report, err)
	}
	if _, err := store.Dataset(bob).At(t.Context(), "main"); err != nil {
		t.Error(err)
	}
}

func TestWhatIsNoNamespace(t *testing.T) {
	w, err := Open(Options{Folder: t.TempDir()})
	must(t, err)
	for _, name := range []string{"", "..", "a/b", "A", ".incoming", "a.b", string(make([]byte, 64))} {
		if _, err := w.Objects(name); err == nil {
			t.Errorf("%q is taken for a namespace", name)
		}
		if _, err := w.Store(t.Context(), name); err == nil {
			t.Errorf("%q is taken for a namespace", name)
		}
	}
	if _, err := Open(Options{Bucket: bucket.Options{Endpoint: "https://s3.test", Bucket: "b"}, Prefix: "../x"}); err == nil {
		t.Error("a prefix that leads up is taken")
	}
}

func TestQuota(t *testing.T) {
	now := time.Now()
	w, err := Open(Options{Folder: t.TempDir(), Quota: 100, Now: func() time.Time { return now }})
	must(t, err)
	const key = "packs/00/00000000000000000000000000000000"
	objects, err := w.Objects("ada")
	must(t, err)
	must(t, objects.Put(t.Context(), key, make([]byte, 60)))
	must(t, w.Reserve(t.Context(), "ada", 40))
	if err := w.Reserve(t.Context(), "ada", 1); !errors.Is(err, ErrQuota) {
		t.Error(err)
	}
	must(t, w.Reserve(t.Context(), "bob", 100))
	// What was reserved and never came is not counted for ever, nor what went.
	must(t, objects.Delete(t.Context(), key))
	now = now.Add(recountFull + time.Second)
	must(t, w.Reserve(t.Context(), "ada", 100))
	// What has come in parts counts while it is there.
	must(t, objects.Put(t.Context(), Uploads+"part", make([]byte, 70)))
	now = now.Add(recount + time.Second)
	if err := w.Reserve(t.Context(), "ada", 31); !errors.Is(err, ErrQuota) {
		t.Error(err)
	}
	must(t, w.Reserve(t.Context(), "ada", 30))
	free, err := Open(Options{Folder: t.TempDir()})
	must(t, err)
	must(t, free.Reserve(t.Context(), "ada", 1<<60))
}

// TestAbandoned: since when a namespace is gone is written down, and forgotten once
// it is back.
func TestAbandoned(t *testing.T) {
	root := t.TempDir()
	w, err := Open(Options{Folder: root})
	must(t, err)
	put(t, w, "ada", "x", &ref.Memory{})
	since := func(want time.Duration) {
		t.Helper()
		got, err := w.Abandon(t.Context(), "ada")
		if err != nil || got < want || got > want+time.Minute {
			t.Errorf("gone for %v, want %v: %v", got, want, err)
		}
	}
	since(0)
	before := time.Now().Add(-50*time.Hour - time.Second) // files tell the time of the last tick
	must(t, os.Chtimes(filepath.Join(root, "ada", abandonedKey), before, before))
	since(50 * time.Hour)
	must(t, w.Claim(t.Context(), "ada"))
	must(t, w.Claim(t.Context(), "ada"))
	since(0)
	must(t, w.Clear(t.Context(), "ada"))
	objects, err := w.Objects("ada")
	must(t, err)
	left := 0
	must(t, objects.List(t.Context(), "packs/", func(backend.Info) error { left++; return nil }))
	if left == 0 {
		t.Error("data went with the note")
	}
}

// TestStoresThatNobodyAsksFor are forgotten, and work on for who has them.
func TestStoresThatNobodyAsksFor(t *testing.T) {
	now := time.Now()
	w, err := Open(Options{Folder: t.TempDir(), Now: func() time.Time { return now }})
	must(t, err)
	first, err := w.Store(context.Background(), "ada")
	must(t, err)
	if again, err := w.Store(t.Context(), "ada"); again != first || err != nil {
		t.Errorf("another store for the same namespace: %v", err)
	}
	heads := &ref.Memory{}
	put(t, w, "ada", "x", heads)
	now = now.Add(idle + time.Minute)
	if again, err := w.Store(t.Context(), "ada"); again == first || err != nil {
		t.Errorf("a store that nobody asked for is still there: %v", err)
	}
	if _, err := first.Dataset(heads).At(t.Context(), "main"); err != nil {
		t.Error(err)
	}
}

// TestSmallPacksAreFound: the objects of a namespace are found wherever packs lie.
func TestSmallPacksAreFound(t *testing.T) {
	root := t.TempDir()
	w, err := Open(Options{Folder: root})
	must(t, err)
	heads := &ref.Memory{}
	put(t, w, "ada", "small", heads)
	objects, err := w.Objects("ada")
	must(t, err)
	var packs []backend.Info
	must(t, objects.List(t.Context(), pack.Prefix, func(i backend.Info) error { packs = append(packs, i); return nil }))
	whole := func(pack.Record, []byte) error { return nil } // others look
	one, _, err := bale.Make(t.Context(), bale.Of(objects), packs, whole)
	must(t, err)
	_, err = bale.Of(objects).DeleteLoose(t.Context(), packs[0].Key, one, whole)
	must(t, err)
	again, err := Open(Options{Folder: root})
	must(t, err)
	objects, err = again.Objects("ada")
	must(t, err)
	if _, err := backend.Read(t.Context(), objects, packs[0].Key); err != nil {
		t.Errorf("what is in a bale: %v", err)
	}
}

// TestBounded: a part of this program that writes without Reserve stops at the quota.
func TestBounded(t *testing.T) {
	now := time.Now()
	w, err := Open(Options{Folder: t.TempDir(), Quota: 4000, Now: func() time.Time { return now }})
	must(t, err)
	write := func(namespace string, n int) error {
		store, err := w.Bounded(t.Context(), namespace)
		must(t, err)
		dir := t.TempDir()
		must(t, os.WriteFile(filepath.Join(dir, "file"), []byte(rand.Text()+strings.Repeat("x", n)), 0o600))
		session, err := store.Dataset(&ref.Memory{}).Begin(t.Context(), "main", data.SessionOptions{})
		must(t, err)
		err = session.Add(t.Context(), data.Folder(dir), data.AddOptions{})
		if err == nil {
			_, err = session.Commit(t.Context(), data.CommitOptions{Message: "x"})
		}
		return errors.Join(err, session.Close(t.Context()))
	}
	must(t, write("ada", 10))
	objects, err := w.Objects("ada")
	must(t, err)
	must(t, objects.Put(t.Context(), "packs/00/00000000000000000000000000000000", make([]byte, 4000)))
	now = now.Add(recountWriter + time.Second)
	if err := write("ada", 10); !errors.Is(err, ErrQuota) {
		t.Errorf("a namespace that keeps its quota writes: %v", err)
	}
	must(t, write("bob", 10))
	full := errors.New("the disk is full")
	w, err = Open(Options{Folder: t.TempDir(), Room: func(int64) error { return full }})
	must(t, err)
	if err := w.Reserve(t.Context(), "ada", 1); !errors.Is(err, full) {
		t.Error(err)
	}
	if err := write("ada", 10); !errors.Is(err, full) {
		t.Error(err)
	}
}
