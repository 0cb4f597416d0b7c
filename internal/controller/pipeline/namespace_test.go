package pipeline

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/environment"
	"github.com/muster-dev/muster/internal/environment/source"
)

// errOthers is what a store of a namespace says to a run of another namespace.
var errOthers = errors.New("no snapshot of this namespace")

// tenants has the code of one namespace, and notes for which namespace each interface is
// asked.
type tenants struct {
	has string

	mu    sync.Mutex
	asked map[string]map[string]bool // namespaces by interface
}

func (s *tenants) hear(what, namespace string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asked == nil {
		s.asked = map[string]map[string]bool{}
	}
	if s.asked[what] == nil {
		s.asked[what] = map[string]bool{}
	}
	s.asked[what][namespace] = true
	if namespace != s.has {
		return errOthers
	}
	return nil
}

func (s *tenants) code(what, owner string) error {
	namespace, _, _ := strings.Cut(owner, "/")
	return s.hear("Sources."+what, namespace)
}

func (s *tenants) Ensure(owner, _ string) source.State {
	if err := s.code("Ensure", owner); err != nil {
		return source.State{Phase: source.Failed, Message: err.Error()}
	}
	return source.State{Phase: source.Ready, Digest: "sha256:c"}
}

func (s *tenants) Has(owner, _ string) (bool, error) { return s.code("Has", owner) == nil, nil }

func (s *tenants) Contains(owner, _, _ string) (bool, error) {
	err := s.code("Contains", owner)
	return err == nil, err
}

func (s *tenants) Files(owner, digest string) (map[string]string, error) {
	return map[string]string{"s.py": digest}, s.code("Files", owner)
}

func (s *tenants) EnsureFor(_ *v1alpha1.PipelineRun, _ []v1alpha1.Role, q environment.Request) environment.State {
	if err := s.hear("Environments", q.Namespace); err != nil {
		return environment.State{Phase: environment.Failed, Message: err.Error()}
	}
	return environment.State{Phase: environment.Ready, Path: q.Path}
}

// TestNamespaces: each store and each program is asked for by the namespace of the run, and
// what the store of another namespace has is no code of the run.
func TestNamespaces(t *testing.T) {
	for _, c := range []struct{ code, says string }{
		{`{snapshot: "sha256:c"}`, "the snapshot sha256:c is not stored here"},
		{`{url: "https://git.example.com/s.py"}`, errOthers.Error()},
	} {
		for _, has := range []string{space, "other"} {
			t.Run(fmt.Sprintf("%s of %s", c.code, has), func(t *testing.T) {
				r, s, folder := newRig(t, nil), &tenants{has: has}, t.TempDir()
				r.must(os.Mkdir(filepath.Join(folder, "bin"), 0o700))
				r.must(os.WriteFile(filepath.Join(folder, "bin", "python"), []byte("#!/bin/sh\n"), 0o700))
				r.machine.Sources, r.machine.Environments, r.machine.Images = s, s, mapped(folder)
				open := r.machine.Store
				r.machine.Store = func(ctx context.Context, namespace string) (*data.Store, error) {
					_ = s.hear("Store", namespace)
					return open(ctx, namespace)
				}
				r.machine.Run = func(_ context.Context, namespace string, _ ...string) (string, error) {
					return `{"looked": ["the stage's Python"]}`, s.hear("Run", namespace)
				}
				r.put("texts", map[string]string{"a": "1"})
				r.apply(`
metadata: {name: words}
spec:
  stages:
  - name: count
    input: {dataset: texts}
    code: ` + c.code + `
    environment: {image: "spark:1"}
    spark: {script: s.py}
`)
				run := r.finish("words")
				says := c.says
				if has == space {
					says = "looks in the stage's Python"
				}
				if run.Status.Phase != v1alpha1.RunFailed || !strings.Contains(run.Status.Message, says) {
					t.Errorf("%s: %s; want %q", run.Status.Phase, run.Status.Message, says)
				}
				for what, namespaces := range s.asked {
					if diff := cmp.Diff([]string{space}, slices.Collect(maps.Keys(namespaces))); diff != "" {
						t.Errorf("%s is asked for %s", what, diff)
					}
				}
				want := []string{"Environments", "Run", "Sources.Contains", "Sources.Files", "Store"}
				for _, what := range want {
					if has == space && len(s.asked[what]) == 0 {
						t.Errorf("%s is not asked", what)
					}
				}
			})
		}
	}
}
