package pipeline

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/data/commit"
)

// conflicting has every second write of a status come too late, beginning with the first
// or the second, as it does for whoever reads from a cache that is behind.
func (r *rig) conflicting(first int) {
	writes := first
	r.runs.client = interceptor.NewClient(r.server.(client.WithWatch), interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, part string, o client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			if writes++; writes%2 == 0 {
				return apierrors.NewConflict(schema.GroupResource{Resource: "pipelineruns"}, o.GetName(), nil)
			}
			return c.SubResource(part).Patch(ctx, o, patch, opts...)
		},
	})
}

// TestWritesThatConflict has every second write of a run's status come too late: what was
// done is not done again, whatever of it was not written.
func TestWritesThatConflict(t *testing.T) {
	for name, c := range map[string]struct {
		stage string
		phase v1alpha1.RunPhase
		says  string
		lines int
		files map[string]string
	}{
		"datums": {
			stage: `{name: one, input: {dataset: things, glob: "/*"}, command: [sh, -c, 'echo $MUSTER_DATUM >> %s; cp $MUSTER_INPUT_THINGS/* $MUSTER_OUTPUT']}`,
			phase: v1alpha1.RunSucceeded, says: "3 datums computed, 0 taken from before", lines: 3, files: map[string]string{"a": "1", "b": "2", "c": "3"},
		},
		"a datum that fails": {
			stage: `{name: one, tries: 1, input: {dataset: things, glob: "/*"}, command: [sh, -c, 'echo $MUSTER_DATUM >> %s; exit 3']}`,
			phase: v1alpha1.RunFailed, says: "exit code 3", lines: 1,
		},
		"members that train": {
			stage: `{name: one, input: {dataset: things}, training: {roles: [{name: worker, command: [sh, -c, 'echo trained >> %s; cat $MUSTER_INPUT_THINGS/* > $MUSTER_OUTPUT/model']}]}}`,
			phase: v1alpha1.RunSucceeded, says: "1 datum computed, 0 taken from before", lines: 1, files: map[string]string{"model": "123"},
		},
	} {
		for first := range 2 {
			t.Run(fmt.Sprintf("%s/%d", name, first), func(t *testing.T) {
				r := newRig(t, nil)
				r.conflicting(first)
				trace := filepath.Join(t.TempDir(), "trace")
				r.put("things", map[string]string{"a": "1", "b": "2", "c": "3"})
				r.apply("{metadata: {name: p}, spec: {stages: [" + fmt.Sprintf(c.stage, trace) + "]}}")
				run := r.finish("p")
				if run.Status.Phase != c.phase || !strings.Contains(run.Status.Message, c.says) {
					t.Errorf("the run: %s: %s", run.Status.Phase, run.Status.Message)
				}
				text, err := os.ReadFile(trace)
				r.must(err)
				if n := strings.Count(string(text), "\n"); n != c.lines {
					t.Errorf("%d datums were computed, not %d: %q", n, c.lines, text)
				}
				if c.files == nil {
					return
				}
				if diff := cmp.Diff(c.files, r.files("p-one")); diff != "" {
					t.Error(diff)
				}
				commits := 0
				r.must(r.dataset("p-one").Log(r.ctx, "main", func(commit.Commit) error { commits++; return nil }))
				if commits != 1 {
					t.Errorf("its output was committed %d times", commits)
				}
			})
		}
	}
}
