package reading

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/backend"
	"github.com/muster-dev/muster/internal/data/cache"
	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/ref"
	"github.com/muster-dev/muster/internal/dataset"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// world is an API with datasets, a store, a cache and a reader that runs.
type world struct {
	*testing.T
	client.Client
	bytes  *backend.Memory
	store  *data.Store
	dir    string
	reader *Reader
	stop   func()
	// away is why the store cannot be opened.
	// fixed is why nothing can be mounted.
	mu          sync.Mutex
	away, fixed error
	// other is the store of all other namespaces than vision.
	other *data.Store
	// nodes is how much is kept on nodes, where there is no cache.
	nodes int64
}

func newWorld(t *testing.T, limit int64) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	must(t, errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)))
	w := &world{T: t, bytes: &backend.Memory{}, dir: filepath.Join(t.TempDir(), "cache")}
	w.Client = fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.TrainingJob{}).WithObjects(
		&v1alpha1.Dataset{ObjectMeta: metav1.ObjectMeta{Namespace: "vision", Name: "digits"}},
		&v1alpha1.Dataset{ObjectMeta: metav1.ObjectMeta{Namespace: "vision", Name: "empty"}},
	).Build()
	var err error
	w.store, err = w.open()
	must(t, err)
	t.Cleanup(func() { must(t, w.store.Close()) })
	w.run(limit)
	t.Cleanup(func() { w.stop() })
	return w
}

// aged has packs and commits be an hour old, which makes them ripe for collections.
type aged struct{ backend.Backend }

// List implements [backend.Backend].
func (a aged) List(ctx context.Context, prefix string, see func(backend.Info) error) error {
	return a.Backend.List(ctx, prefix, func(i backend.Info) error {
		if !strings.HasPrefix(i.Key, "leases/") && !strings.HasPrefix(i.Key, "condemned/") {
			i.Stored = i.Stored.Add(-time.Hour)
		}
		return see(i)
	})
}

func (w *world) open() (*data.Store, error) {
	return data.Open(context.Background(), data.Options{Backend: aged{w.bytes}, Workers: 2})
}

// scope is the default of [Options.Scope].
func scope(namespace string) string { return namespace }

// nowhere is the limit of a cache that is none.
const nowhere = -1

// run starts a reader, as a Muster that starts does.
func (w *world) run(limit int64) {
	w.Helper()
	c, err := cache.Open(cache.Options{Dir: w.dir, Limit: limit, InUse: InUse(w.Client, scope)})
	must(w.T, err)
	mountable := func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.fixed
	}
	if limit == nowhere {
		c = nil
	}
	store, err := w.open()
	must(w.T, err)
	w.reader = New(Options{Client: w.Client, Cache: c, Backoff: time.Millisecond, Mountable: mountable, NodeCache: w.nodes, Store: func(_ context.Context, namespace string) (*data.Store, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if namespace != "vision" {
			return w.other, w.away
		}
		return store, w.away
	}})
	ctx, cancel := context.WithCancel(w.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.reader.Run(ctx) }()
	w.stop = sync.OnceFunc(func() {
		cancel()
		if err := errors.Join(<-ended, store.Close()); err != nil {
			w.Error(err)
		}
	})
}

// put puts files into a branch of the dataset.
func (w *world) put(branch string, files map[string]string) string {
	w.Helper()
	src := w.TempDir()
	for name, content := range files {
		at := filepath.Join(src, name)
		must(w.T, errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(content), 0o644)))
	}
	d := w.store.Dataset(&dataset.Heads{Client: w.Client, Namespace: "vision", Name: "digits"})
	r, err := d.Put(w.Context(), branch, data.Folder(src), data.PutOptions{})
	must(w.T, err)
	return r.Commit.ID.String()
}

func newJob(name string, reads ...v1alpha1.JobData) *v1alpha1.TrainingJob {
	return &v1alpha1.TrainingJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: "vision", Name: name, UID: types.UID("uid-" + name)},
		Spec:       v1alpha1.TrainingJobSpec{Data: reads},
	}
}

// until asks again whenever there is news, until the answer is of a phase.
func (w *world) until(job *v1alpha1.TrainingJob, phase Phase) State {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), 20*time.Second)
	defer cancel()
	for {
		state := w.reader.Ensure(job)
		if state.Phase == phase {
			return state
		}
		select {
		case <-w.reader.Changes():
		case <-ctx.Done():
			w.Fatalf("it is %+v instead of %s", state, phase)
		}
	}
}

// rests waits until nobody works on requests: whoever has made one ready tells before it
// is done with it.
func (w *world) rests() {
	w.Helper()
	works := func() bool {
		w.reader.mu.Lock()
		defer w.reader.mu.Unlock()
		for _, q := range w.reader.requests {
			if q.working {
				return true
			}
		}
		return false
	}
	ctx, cancel := context.WithTimeout(w.Context(), 20*time.Second)
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for works() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			w.Fatal("somebody still works on a request")
		}
	}
}

func TestJobsRead(t *testing.T) {
	w := newWorld(t, 1<<30)
	first := w.put("main", map[string]string{"train/a": "A", "train/b": "BB", "test/c": "CCC"})
	job := newJob("one",
		v1alpha1.JobData{Dataset: "digits", Mount: "/data"},
		v1alpha1.JobData{Dataset: "digits", Branch: "main", Path: "/train/", Mount: "/train"},
		v1alpha1.JobData{Dataset: "digits", Version: first[:10], Path: "t*/[ac]", Mount: "/some"})
	state := w.until(job, Ready)
	var keys []string
	for i := range state.Data {
		keys = append(keys, state.Data[i].Key)
		state.Data[i].Key = ""
	}
	c := v1alpha1.DatasetCommit(first)
	if diff := cmp.Diff([]v1alpha1.JobDataStatus{
		{Mount: "/data", Dataset: "digits", Version: "main", Commit: c, Files: 3, Bytes: 6},
		{Mount: "/train", Dataset: "digits", Version: "main", Path: "/train/", Commit: c, Files: 2, Bytes: 3},
		{Mount: "/some", Dataset: "digits", Version: first[:10], Path: "t*/[ac]", Commit: c, Files: 2, Bytes: 4},
	}, state.Data); diff != "" {
		t.Error(diff)
	}
	for i, want := range []string{"test/c", "b", "train/a"} {
		folder, err := w.reader.Folder(t.Context(), "vision", keys[i], first, state.Data[i].Path)
		must(t, err)
		if _, err := os.Stat(filepath.Join(folder, want)); err != nil {
			t.Error(err)
		}
	}
	if state := w.reader.Ensure(newJob("nothing")); state.Phase != Ready {
		t.Errorf("a job that reads nothing: %+v", state)
	}
}

// TestWhatAJobReadsStays: once its status says which commit it reads, that is it,
// wherever the branch goes and whatever is collected, until it has finished.
func TestWhatAJobReadsStays(t *testing.T) {
	w := newWorld(t, 1<<30)
	first := w.put("main", map[string]string{"a": "A"})
	job := newJob("one", v1alpha1.JobData{Dataset: "digits", Mount: "/data"})
	must(t, w.Create(t.Context(), job.DeepCopy()))
	job.Status.Data = w.until(job, Ready).Data
	d := w.store.Dataset(&dataset.Heads{Client: w.Client, Namespace: "vision", Name: "digits"})
	w.put("other", map[string]string{"b": "B"})
	must(t, d.Reset(t.Context(), "main", "other"))
	collect := func() {
		t.Helper()
		_, err := w.store.Collect(t.Context(), data.CollectOptions{Heads: []ref.Heads{dataset.Everything{Client: w.Client}}})
		must(t, err)
	}
	there := func() bool {
		id, err := digest.Parse(first)
		must(t, err)
		_, err = w.store.Dataset(&ref.Memory{}).At(t.Context(), id.String())
		return err == nil
	}
	// 1. The status does not say it yet, and the reader holds a lease.
	collect()
	if !there() {
		t.Fatal("a commit was collected that a request holds")
	}
	// 2. The reader is gone, and the status says it.
	w.stop()
	said := &v1alpha1.TrainingJob{}
	must(t, w.Get(t.Context(), client.ObjectKeyFromObject(job), said))
	said.Status.Data, said.Status.Phase = job.Status.Data, v1alpha1.JobSuspended
	must(t, w.Status().Update(t.Context(), said))
	collect()
	if !there() {
		t.Fatal("a commit was collected that a job names")
	}
	w.run(1 << 30)
	if now := w.until(job, Ready); string(now.Data[0].Commit) != first {
		t.Errorf("after a restart it reads %s", now.Data[0].Commit)
	}
	w.stop()
	// 3. It has finished.
	said.Status.Phase = v1alpha1.JobFailed
	must(t, w.Status().Update(t.Context(), said))
	collect()
	collect()
	if there() {
		t.Error("it is kept for a job that has finished")
	}
}

func TestWhatIsMissing(t *testing.T) {
	w := newWorld(t, 1000)
	w.fixed = errors.New("there is no /dev/fuse")
	w.put("main", map[string]string{"a": "A", "large/x": strings.Repeat("x", 2000)})
	for name, tt := range map[string]struct {
		reads v1alpha1.JobData
		says  string
	}{
		"the dataset": {v1alpha1.JobData{Dataset: "words"}, "there is no dataset words in namespace vision: make it and put data into it (muster data create words, muster data put)"},
		"any data":    {v1alpha1.JobData{Dataset: "empty"}, "dataset empty has no data yet: put some into it (muster data put PATH empty)"},
		"the branch":  {v1alpha1.JobData{Dataset: "digits", Branch: "next"}, "dataset digits has no branch, tag or commit next; it has main"},
		"one before":  {v1alpha1.JobData{Dataset: "digits", Version: "main~3"}, "dataset digits has no branch, tag or commit main~3; it has main"},
		"the path":    {v1alpha1.JobData{Dataset: "digits", Path: "/trian"}, "nothing in digits@main is or matches /trian (commit "},
		"any match":   {v1alpha1.JobData{Dataset: "digits", Path: "/*.png"}, "nothing in digits@main is or matches /*.png (commit "},
		"room":        {v1alpha1.JobData{Dataset: "digits"}, "digits@main: fetching it: 2.0 kB do not fit into the machine's cache of data, which may have 1.0 kB: read a part of it"},
	} {
		t.Run(name, func(t *testing.T) {
			tt.reads.Mount = "/data"
			state := w.until(newJob("job-"+tt.reads.Dataset+name, tt.reads), Failed)
			if !strings.Contains(state.Message, tt.says) {
				t.Errorf("%q", state.Message)
			}
			for _, d := range state.Data {
				if len(d.Commit) != 64 {
					t.Errorf("the API takes no status with %+v", d)
				}
			}
		})
	}
	w.until(newJob("small", v1alpha1.JobData{Dataset: "digits", Path: "a", Mount: "/data"}), Ready)
}

// TestReadAsItIsAskedFor: where the job says so, and where it says nothing and it can
// never fit.
func TestReadAsItIsAskedFor(t *testing.T) {
	w := newWorld(t, 1000)
	c := v1alpha1.DatasetCommit(w.put("main", map[string]string{"a": "A", "large/x": strings.Repeat("x", 2000), "large/y": strings.Repeat("y", 3000)}))
	yes, no := true, false
	reads := func(lazy *bool, path string) v1alpha1.JobData {
		return v1alpha1.JobData{Dataset: "digits", Path: path, Mount: "/data", Lazy: lazy}
	}
	for name, tt := range map[string]struct {
		reads v1alpha1.JobData
		files int64
		bytes int64
	}{
		"said":            {reads(&yes, ""), 3, 5001},
		"said, and small": {reads(&yes, "a"), 1, 1},
		"too much":        {reads(nil, "/large/"), 2, 5000},
	} {
		t.Run(name, func(t *testing.T) {
			want := v1alpha1.JobDataStatus{Mount: "/data", Dataset: "digits", Version: "main", Path: tt.reads.Path, Commit: c, Files: tt.files, Bytes: tt.bytes, Lazy: true}
			job := newJob("job-"+name, tt.reads)
			state := w.until(job, Ready)
			if diff := cmp.Diff([]v1alpha1.JobDataStatus{want}, state.Data); diff != "" {
				t.Error(diff)
			}
			if folders, err := os.ReadDir(w.dir); err != nil || len(folders) > 0 {
				t.Errorf("%d folders were fetched, %v", len(folders), err)
			}
		})
	}
	for name, tt := range map[string]struct {
		reads v1alpha1.JobData
		fixed error
		says  string
	}{
		"never":         {reads(&no, "/large"), nil, "digits@main:/large: fetching it: 5.0 kB do not fit"},
		"a pattern":     {reads(&yes, "/large/*"), nil, "/large/* is a pattern, and a mount shows a folder or a file"},
		"missing":       {reads(&yes, "/lrge"), nil, "nothing in digits@main is or matches /lrge"},
		"no mounts":     {reads(&yes, "a"), errors.New("there is no /dev/fuse"), "digits@main:/a: there is no /dev/fuse"},
		"nor so":        {reads(nil, ""), errors.New("there is no /dev/fuse"), "5.0 kB do not fit into the machine's cache of data, which may have 1.0 kB: read a part of it (path), or give the cache more room; nor can it be read as it is asked for: there is no /dev/fuse"},
		"nor a pattern": {reads(nil, "/large/*"), nil, "nor can it be read as it is asked for: /large/* is a pattern"},
	} {
		t.Run(name, func(t *testing.T) {
			w.mu.Lock()
			w.fixed = tt.fixed
			w.mu.Unlock()
			if state := w.until(newJob("job-"+name, tt.reads), Failed); !strings.Contains(state.Message, tt.says) {
				t.Errorf("%q", state.Message)
			}
		})
	}
}

// TestWhatPasses is tried again; a job that changes its mind reads what it says now.
func TestWhatPasses(t *testing.T) {
	w := newWorld(t, 1<<30)
	w.put("main", map[string]string{"a": "A"})
	w.away = errors.New("the disk is away")
	job := newJob("one", v1alpha1.JobData{Dataset: "digits", Mount: "/data"})
	for !strings.Contains(w.reader.Ensure(job).Message, "the disk is away; trying again") {
		<-w.reader.Changes()
	}
	job.Spec.Data[0].Mount = "/other"
	w.reader.Ensure(job)
	w.mu.Lock()
	w.away = nil
	w.mu.Unlock()
	if state := w.until(job, Ready); state.Data[0].Mount != "/other" {
		t.Errorf("%+v", state)
	}
}

// TestFull: a job waits for room that others have, and gets it once they have ended.
func TestFull(t *testing.T) {
	w := newWorld(t, 3000)
	for i := range 2 {
		w.put(fmt.Sprint("b", i), map[string]string{"x": strings.Repeat(fmt.Sprint(i), 2000)})
	}
	first := newJob("first", v1alpha1.JobData{Dataset: "digits", Branch: "b0", Mount: "/data"})
	first.Status.Data = w.until(first, Ready).Data
	must(t, w.Create(t.Context(), first.DeepCopy()))
	must(t, w.Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "vision", Name: "first-worker-0"}, Spec: corev1.PodSpec{Volumes: []corev1.Volume{{
		Name: "data", VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: v1alpha1.DataDriver, VolumeAttributes: map[string]string{"key": first.Status.Data[0].Key}}},
	}}}}))
	second := newJob("second", v1alpha1.JobData{Dataset: "digits", Branch: "b1", Mount: "/data"})
	must(t, w.Create(t.Context(), second.DeepCopy()))
	for !strings.Contains(w.reader.Ensure(second).Message, "no room for 2.0 kB: the machine's cache of data may have 3.0 kB, and 2.0 kB of it are in use; trying again") {
		<-w.reader.Changes()
	}
	// The job has finished, but its pod has not.
	done := &v1alpha1.TrainingJob{}
	must(t, w.Get(t.Context(), client.ObjectKeyFromObject(first), done))
	done.Status.Phase = v1alpha1.JobSucceeded
	must(t, w.Status().Update(t.Context(), done))
	w.reader.forget(t.Context())
	used, err := InUse(w.Client, scope)(t.Context())
	must(t, err)
	if diff := cmp.Diff(map[string]bool{cache.Scoped("vision", first.Status.Data[0].Key): true}, used); diff != "" {
		t.Error(diff)
	}
	must(t, w.Delete(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "vision", Name: "first-worker-0"}}))
	w.until(second, Ready)
}

// TestForgotten: the requests of jobs that are gone hold nothing.
func TestForgotten(t *testing.T) {
	w := newWorld(t, 1<<30)
	w.put("main", map[string]string{"a": "A"})
	gone := newJob("gone", v1alpha1.JobData{Dataset: "digits", Mount: "/data"})
	stays := newJob("stays", v1alpha1.JobData{Dataset: "digits", Mount: "/data"})
	must(t, w.Create(t.Context(), stays.DeepCopy()))
	w.until(gone, Ready)
	w.until(stays, Ready)
	w.rests()
	w.reader.forget(t.Context())
	leases := 0
	must(t, w.bytes.List(t.Context(), "leases/", func(backend.Info) error { leases++; return nil }))
	if leases != 1 || len(w.reader.requests) != 1 {
		t.Errorf("%d leases and %d requests are left", leases, len(w.reader.requests))
	}
	w.stop()
	must(t, w.bytes.List(t.Context(), "leases/", func(i backend.Info) error { t.Error("left:", i.Key); return nil }))
}

// TestFolderAnew: what a pod names is fetched where it is not here any more.
func TestFolderAnew(t *testing.T) {
	w := newWorld(t, 1<<30)
	commit := w.put("main", map[string]string{"a": "A"})
	state := w.until(newJob("one", v1alpha1.JobData{Dataset: "digits", Mount: "/data"}), Ready)
	w.stop()
	must(t, os.RemoveAll(w.dir))
	w.run(1 << 30)
	folder, err := w.reader.Folder(t.Context(), "vision", state.Data[0].Key, commit, "")
	must(t, err)
	if text, err := os.ReadFile(filepath.Join(folder, "a")); string(text) != "A" || err != nil {
		t.Errorf("%q %v", text, err)
	}
	if _, err := w.reader.Folder(t.Context(), "vision", "", "main", ""); !errors.Is(err, errNone) {
		t.Errorf("a branch is no commit: %v", err)
	}
}

// TestNamespaces: a pod finds what the store of its own namespace has, and nothing that
// was fetched for another namespace.
func TestNamespaces(t *testing.T) {
	w := newWorld(t, 1<<30)
	empty, err := data.Open(t.Context(), data.Options{Backend: &backend.Memory{}, Workers: 2})
	must(t, err)
	t.Cleanup(func() { must(t, empty.Close()) })
	w.other = empty
	commit := w.put("main", map[string]string{"a": "A"})
	key := w.until(newJob("one", v1alpha1.JobData{Dataset: "digits", Mount: "/data"}), Ready).Data[0].Key
	ours, err := w.reader.Folder(t.Context(), "vision", key, commit, "")
	must(t, err)
	for _, named := range []string{key, cache.Scoped("vision", key), ""} {
		folder, err := w.reader.Folder(t.Context(), "speech", named, commit, "")
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a pod of another namespace that names the key %q: %s, %v", named, folder, err)
		}
	}
	// The same commit in both stores: each namespace has files of its own.
	w.other = w.store
	theirs, err := w.reader.Folder(t.Context(), "speech", key, commit, "")
	must(t, err)
	if theirs == ours {
		t.Errorf("two namespaces share %s", ours)
	}
	// A Muster of one user has one scope for all.
	w.reader.o.Scope = func(string) string { return "" }
	first, err := w.reader.Folder(t.Context(), "vision", key, commit, "")
	must(t, err)
	second, err := w.reader.Folder(t.Context(), "speech", key, commit, "")
	must(t, err)
	if first != second {
		t.Errorf("the one user's namespaces have %s and %s", first, second)
	}
}

// TestWithoutACache: what is read is resolved, measured and kept, and nothing of it is
// fetched; what is missing fails all the same.
func TestWithoutACache(t *testing.T) {
	w := newWorld(t, nowhere)
	first := w.put("main", map[string]string{"train/a": "A", "train/b": "BB"})
	state := w.until(newJob("one", v1alpha1.JobData{Dataset: "digits", Path: "/train", Mount: "/data"}), Ready)
	view, err := w.store.Dataset(&ref.Memory{}).At(t.Context(), first)
	must(t, err)
	if diff := cmp.Diff([]v1alpha1.JobDataStatus{{
		Mount: "/data", Dataset: "digits", Version: "main", Path: "/train", Commit: v1alpha1.DatasetCommit(first), Files: 2, Bytes: 3, Key: cache.Key(view, "/train"),
	}}, state.Data); diff != "" {
		t.Error(diff)
	}
	_, err = w.store.Collect(t.Context(), data.CollectOptions{Heads: []ref.Heads{&ref.Memory{}}})
	must(t, err)
	if _, err := w.store.Dataset(&ref.Memory{}).At(t.Context(), first); err != nil {
		t.Errorf("it was not kept: %v", err)
	}
	failed := w.until(newJob("two", v1alpha1.JobData{Dataset: "digits", Path: "/nothing", Mount: "/data"}), Failed)
	if !strings.Contains(failed.Message, "nothing in digits@main is or matches /nothing") {
		t.Errorf("%q", failed.Message)
	}
}

// TestMoreThanANodeKeeps: where that is known, it is read as it is asked for, unless the
// job says otherwise.
func TestMoreThanANodeKeeps(t *testing.T) {
	w := newWorld(t, nowhere)
	w.put("main", map[string]string{"small": strings.Repeat("a", 1000), "large/a": strings.Repeat("a", 600), "large/b": strings.Repeat("b", 500)})
	w.stop()
	w.nodes = 1000
	w.run(nowhere)
	fetched := false
	for name, tt := range map[string]struct {
		path string
		lazy bool
	}{"as much": {"/small", false}, "more": {"/large", true}} {
		state := w.until(newJob(name, v1alpha1.JobData{Dataset: "digits", Path: tt.path, Mount: "/data"}), Ready)
		if len(state.Data) != 1 || state.Data[0].Lazy != tt.lazy {
			t.Errorf("%s: %+v", name, state.Data)
		}
	}
	failed := w.until(newJob("never", v1alpha1.JobData{Dataset: "digits", Path: "/large", Mount: "/data", Lazy: &fetched}), Failed)
	if !strings.Contains(failed.Message, "1.1 kB do not fit") {
		t.Errorf("%q", failed.Message)
	}
}
