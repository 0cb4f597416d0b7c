package dataset

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/warehouse"
)

// estate is stores of some namespaces in a folder, and an API server that knows which
// of these are there.
type estate struct {
	*testing.T
	root   string
	stores *warehouse.Warehouse
	server client.Client
}

func newEstate(t *testing.T, namespaces ...string) *estate {
	t.Helper()
	e := &estate{T: t, root: t.TempDir()}
	scheme := runtime.NewScheme()
	e.must(errors.Join(corev1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)))
	e.server = fake.NewClientBuilder().WithScheme(scheme).Build()
	for _, name := range namespaces {
		e.must(e.server.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	}
	var err error
	e.stores, err = warehouse.Open(warehouse.Options{Folder: e.root})
	e.must(err)
	return e
}

func (e *estate) must(err error) {
	e.Helper()
	if err != nil {
		e.Fatal(err)
	}
}

// dataset makes a dataset with one commit, and returns what moves its heads.
func (e *estate) dataset(namespace, name string) *data.Dataset {
	e.Helper()
	object := &v1alpha1.Dataset{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	e.must(e.server.Create(e.Context(), object))
	store, err := e.stores.Store(e.Context(), namespace)
	e.must(err)
	d := store.Dataset(&Heads{Client: e.server, Namespace: namespace, Name: name})
	dir := e.TempDir()
	e.must(os.WriteFile(filepath.Join(dir, "file"), []byte(namespace+name), 0o600))
	session, err := d.Begin(e.Context(), "main", data.SessionOptions{})
	e.must(err)
	e.must(session.Add(e.Context(), data.Folder(dir), data.AddOptions{}))
	_, err = session.Commit(e.Context(), data.CommitOptions{Message: "x"})
	e.must(err)
	e.must(session.Close(e.Context()))
	return d
}

// age makes everything in the store of a namespace older.
func (e *estate) age(namespace string, by time.Duration) {
	e.Helper()
	e.must(filepath.WalkDir(filepath.Join(e.root, namespace), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		then := info.ModTime().Add(-by)
		return os.Chtimes(path, then, then)
	}))
}

// packs counts those of a namespace.
func (e *estate) packs(namespace string) int {
	e.Helper()
	found, err := filepath.Glob(filepath.Join(e.root, namespace, "packs", "*", "*"))
	e.must(err)
	return len(found)
}

func (e *estate) pass() string {
	e.Helper()
	var said bytes.Buffer
	log := slog.New(slog.NewTextHandler(&said, nil))
	(&Caretaker{Stores: e.stores, Client: e.server}).pass(e.Context(), log)
	return said.String()
}

func TestCollectionsByNamespace(t *testing.T) {
	e := newEstate(t, "ada", "bob")
	kept := e.dataset("ada", "kept")
	e.dataset("ada", "goes")
	e.dataset("bob", "kept")
	e.must(e.server.Delete(t.Context(), &v1alpha1.Dataset{ObjectMeta: metav1.ObjectMeta{Namespace: "ada", Name: "goes"}}))
	before := e.packs("ada")
	e.pass()
	if e.packs("ada") != before {
		t.Error("what was stored today went")
	}
	e.age("ada", KeeperGrace+time.Hour)
	e.age("bob", KeeperGrace+time.Hour)
	others := e.packs("bob")
	if said := e.pass(); e.packs("ada") >= before || e.packs("bob") != others || !strings.Contains(said, "namespace=ada") || strings.Contains(said, "namespace=bob") {
		t.Errorf("%d packs of %d, of the other %d of %d: %s", e.packs("ada"), before, e.packs("bob"), others, said)
	}
	if _, err := kept.At(t.Context(), "main"); err != nil {
		t.Error(err)
	}
}

// TestALeaseKeepsWhatItPins, whoever has it.
func TestALeaseKeepsWhatItPins(t *testing.T) {
	e := newEstate(t, "ada")
	d := e.dataset("ada", "goes")
	c, err := d.Resolve(t.Context(), "main")
	e.must(err)
	e.must(e.server.Delete(t.Context(), &v1alpha1.Dataset{ObjectMeta: metav1.ObjectMeta{Namespace: "ada", Name: "goes"}}))
	e.age("ada", KeeperGrace+time.Hour)
	store, err := e.stores.Store(t.Context(), "ada")
	e.must(err)
	lease, err := store.Pin(t.Context(), c.ID)
	e.must(err)
	before := e.packs("ada")
	e.pass()
	if e.packs("ada") != before {
		t.Error("what a lease pins went")
	}
	e.must(lease.Release(t.Context()))
	e.pass()
	if e.packs("ada") != 0 {
		t.Errorf("%d packs stayed", e.packs("ada"))
	}
}

// TestANamespaceThatIsGone keeps its data for a while, and as if it had never gone
// where it comes back.
func TestANamespaceThatIsGone(t *testing.T) {
	e := newEstate(t, "ada", "bob")
	e.dataset("ada", "one")
	back := e.dataset("bob", "one")
	gone := func(name string) {
		t.Helper()
		e.must(e.server.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	}
	gone("ada")
	gone("bob")
	e.must(e.server.Delete(t.Context(), &v1alpha1.Dataset{ObjectMeta: metav1.ObjectMeta{Namespace: "ada", Name: "one"}}))
	for _, name := range []string{"ada", "bob"} {
		e.age(name, 30*24*time.Hour)
	}
	e.pass() // notes it
	for _, name := range []string{"ada", "bob"} {
		e.age(name, AbandonedGrace-time.Hour)
	}
	e.pass()
	if e.packs("ada") == 0 || e.packs("bob") == 0 {
		t.Fatal("data went before its time")
	}
	e.must(e.server.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "bob"}}))
	for _, name := range []string{"ada", "bob"} {
		e.age(name, 2*time.Hour)
	}
	if said := e.pass(); e.packs("ada") != 0 || e.packs("bob") == 0 {
		t.Errorf("%d and %d packs: %s", e.packs("ada"), e.packs("bob"), said)
	}
	if _, err := back.At(t.Context(), "main"); err != nil {
		t.Error(err)
	}
	names, err := e.stores.Namespaces(t.Context())
	if err != nil || !slices.Equal(names, []string{"bob"}) {
		t.Errorf("%v %v", names, err)
	}
}

// blind is an API server that does not answer.
type blind struct{ client.Reader }

func (blind) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errors.New("the server is away")
}

// TestNothingGoesUnasked: who cannot ask which namespaces there are removes nothing,
// and goes on with the next.
func TestNothingGoesUnasked(t *testing.T) {
	e := newEstate(t, "ada")
	e.dataset("ada", "one")
	e.age("ada", 100*24*time.Hour)
	before := e.packs("ada")
	var said bytes.Buffer
	alarms, ring := make(chan time.Duration), make(chan time.Time)
	c := &Caretaker{Stores: e.stores, Client: blind{e.server}, Log: slog.New(slog.NewTextHandler(&said, nil)), After: func(d time.Duration) <-chan time.Time {
		select {
		case alarms <- d:
		case <-t.Context().Done():
		}
		return ring
	}}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Start(ctx) }()
	if first := <-alarms; first != KeeperDelay {
		t.Errorf("first after %v", first)
	}
	ring <- time.Time{}
	if next := <-alarms; next != KeeperEvery {
		t.Errorf("the next after %v", next)
	}
	cancel()
	if err := <-ended; err != nil || e.packs("ada") != before || !strings.Contains(said.String(), "the server is away") {
		t.Errorf("%d packs of %d, %v: %s", e.packs("ada"), before, err, said.String())
	}
}
