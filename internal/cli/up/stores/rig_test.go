package stores

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
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/prune/reference"
	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/ref"
	"github.com/muster-dev/muster/internal/environment/source"
)

const day = 24 * time.Hour

// rig is a data folder with stores, and somebody's code.
type rig struct {
	*testing.T
	home   string
	stores *Stores
	mine   *source.Store
	// ahead is how far the clock of the stores is ahead.
	ahead atomic.Int64
}

func newRig(t *testing.T, o Options) *rig {
	t.Helper()
	r := &rig{T: t, home: t.TempDir()}
	r.mine = openSource(t, filepath.Join(t.TempDir(), "code"))
	r.open(o)
	return r
}

func (r *rig) open(o Options) {
	r.Helper()
	o.Home, o.Now = r.home, func() time.Time { return time.Now().Add(time.Duration(r.ahead.Load())) }
	var err error
	r.stores, err = Open(o)
	must(r.T, err)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func openSource(t *testing.T, dir string) *source.Store {
	t.Helper()
	s, err := source.Open(dir)
	must(t, err)
	return s
}

// snapshot stores a folder with one file.
func snapshot(t *testing.T, s *source.Store, text string) *source.Parcel {
	t.Helper()
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "lib"), 0o755))
	must(t, os.WriteFile(filepath.Join(dir, "lib", "train.py"), []byte(text), 0o644))
	result, err := s.Snapshot(t.Context(), dir, source.Options{})
	must(t, err)
	p, err := s.Parcel(result.Digest)
	must(t, err)
	return p
}

// send uploads a snapshot of mine for a namespace, as the door does.
func (r *rig) send(namespace string, p *source.Parcel) error {
	r.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	add := func(name string, content []byte) {
		must(r.T, w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Size: int64(len(content)), Mode: 0o600}))
		_, err := w.Write(content)
		must(r.T, err)
	}
	add(source.ListName, p.Encoded())
	for _, c := range p.Contents() {
		in, err := r.mine.Open(c.Hash)
		must(r.T, err)
		content, err := io.ReadAll(in)
		must(r.T, errors.Join(err, in.Close()))
		add(source.ContentPrefix+c.Hash, content)
	}
	must(r.T, w.Close())
	missing, err := r.stores.DoorOptions(nil, nil, nil, nil).Code.Receive(r.Context(), namespace, p.Digest(), &out)
	if err == nil && len(missing) > 0 {
		err = fmt.Errorf("%d contents are missing", len(missing))
	}
	return err
}

// code says whether a namespace gets a snapshot, by each way to it. All have to agree.
func (r *rig) code(namespace string, p *source.Parcel) bool {
	r.Helper()
	ways := map[string]func() error{
		"checkout": func() error {
			dst := filepath.Join(r.TempDir(), "out")
			if err := r.stores.Code().Checkout(r.Context(), namespace, p.Digest(), dst); err != nil {
				return err
			}
			_, err := os.Stat(filepath.Join(dst, "lib", "train.py"))
			return err
		},
		"a part": func() error { _, err := r.stores.Code().Part(namespace, p.Digest(), "lib"); return err },
		"checkout of a part": func() error {
			return r.stores.Code().CheckoutPart(r.Context(), namespace, p.Digest(), "lib", filepath.Join(r.TempDir(), "out"))
		},
		"the door": func() error {
			_, err := r.stores.DoorOptions(nil, nil, nil, nil).Code.Parcel(r.Context(), namespace, p.Digest())
			return err
		},
	}
	gets, first := false, true
	for name, way := range ways {
		err := way()
		if err != nil && !errors.Is(err, source.ErrNotStored) {
			r.Errorf("%s of %s for %s: %v", name, p.Digest(), namespace, err)
		}
		if !first && gets != (err == nil) {
			r.Errorf("%s of %s for %s: %v, others say otherwise", name, p.Digest(), namespace, err)
		}
		gets, first = err == nil, false
	}
	return gets
}

// put commits one file to the store of a namespace.
func put(t *testing.T, s *data.Store, text string) string {
	t.Helper()
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "file"), []byte(text), 0o600))
	session, err := s.Dataset(&ref.Memory{}).Begin(t.Context(), "main", data.SessionOptions{})
	must(t, err)
	must(t, session.Add(t.Context(), data.Folder(dir), data.AddOptions{}))
	made, err := session.Commit(t.Context(), data.CommitOptions{Message: "x"})
	must(t, errors.Join(err, session.Close(t.Context())))
	return made.Commit.ID.String()
}

// reads says whether a store has a commit.
func reads(t *testing.T, s *data.Store, commit string) bool {
	t.Helper()
	_, err := s.Dataset(&ref.Memory{}).At(t.Context(), commit)
	return err == nil
}

func (r *rig) store(namespace string) *data.Store {
	r.Helper()
	s, err := r.stores.Store(r.Context(), namespace)
	must(r.T, err)
	return s
}

// keeper prunes with jobs that name code, by namespace.
func (r *rig) keeper(named map[string][]string) *Keeper {
	var jobs []runtime.Object
	for namespace, digests := range named {
		for i, digest := range digests {
			o := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"codeSnapshot": digest}}}
			o.SetAPIVersion(v1alpha1.GroupVersion.String())
			o.SetKind("TrainingJob")
			o.SetNamespace(namespace)
			o.SetName(fmt.Sprint("job-", i))
			jobs = append(jobs, o)
		}
	}
	kind := v1alpha1.GroupVersion.WithResource
	server := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
		kind("pipelines"): "PipelineList", kind("pipelineruns"): "PipelineRunList", kind("trainingjobs"): "TrainingJobList",
		kind("gangs"): "GangList", {Version: "v1", Resource: "pods"}: "PodList",
	}, jobs...)
	return &Keeper{
		Stores: r.stores, References: reference.Reader{Server: server, Home: r.home},
		Environments: filepath.Join(r.home, "environments"), KeepEnvironments: 14 * day,
	}
}

// files are all files below a folder, with their contents.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	must(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return ignoreMissing(err)
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		found[name] = string(text)
		return err
	}))
	return found
}

// run runs a part until the test ends.
func run(t *testing.T, part func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- part(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
