package pipeline

import (
	"context"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/backend"
)

// heldUp is a store's folder of which long contents are not read until they may be.
type heldUp struct {
	backend.Backend
	asked func()
	may   chan struct{}
}

func (h *heldUp) ReadAt(ctx context.Context, key string, offset int64, into []byte) error {
	if len(into) >= 100<<10 {
		h.asked()
		select {
		case <-h.may:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return h.Backend.ReadAt(ctx, key, offset, into)
}

// TestNoJobBeforeItsFiles: nothing is asked for, no GPU above all, before the files of a
// first datum are there.
func TestNoJobBeforeItsFiles(t *testing.T) {
	r := newRig(t, nil)
	folder, err := backend.OpenFolder(filepath.Join(r.home, "store"))
	r.must(err)
	asked := make(chan struct{})
	held := &heldUp{Backend: folder, asked: sync.OnceFunc(func() { close(asked) }), may: make(chan struct{})}
	store, err := data.Open(r.ctx, data.Options{Backend: held})
	r.must(err)
	t.Cleanup(func() { r.must(store.Close()) })
	r.machine.Store = func(context.Context, string) (*data.Store, error) { return store, nil }
	long := make([]byte, 200<<10)
	for i := range long {
		long[i] = byte(i * i >> 7)
	}
	r.put("films", map[string]string{"a": string(long)})
	r.apply(`
metadata: {name: films}
spec:
  stages:
  - name: cut
    input: {dataset: films}
    command: [sh, -c, 'wc -c < $MUSTER_INPUT_FILMS/a > $MUSTER_OUTPUT/n']
    gpus: 1
`)
	run := r.finishUnless("films", func(run *v1alpha1.PipelineRun) bool {
		return len(run.Status.Stages) > 0 && strings.Contains(run.Status.Stages[0].Message, "the files of the first are being fetched")
	})
	<-asked
	for range 3 {
		if run = r.step(run.Name); r.started > 0 || Ended(run.Status.Phase) {
			t.Fatalf("%d jobs, and nothing is there to compute: %s: %s", r.started, run.Status.Phase, run.Status.Stages[0].Message)
		}
	}
	close(held.may)
	if run = r.finish("films"); run.Status.Phase != v1alpha1.RunSucceeded || r.started != 1 || strings.TrimSpace(r.files("films-cut")["n"]) != "204800" {
		t.Errorf("%d jobs; %s: %s; %v", r.started, run.Status.Phase, run.Status.Message, r.files("films-cut"))
	}
}

// TestParallelism: the workers of a stage are one gang, of as many as there is work for,
// which begins with the least and grows.
func TestParallelism(t *testing.T) {
	for _, c := range []struct {
		stage             string
		datums            int
		most, least, gpus int
	}{
		{"command: [x]", 5, 1, 1, 0},
		{"command: [x], gpus: 2, parallelism: {max: 4}", 9, 4, 1, 2},
		{"command: [x], gpus: 1, parallelism: {min: 2, max: 4}", 9, 4, 2, 1},
		{"command: [x], gpus: 1, parallelism: {min: 3, max: 3}", 9, 3, 3, 1},
		{"command: [x], gpus: 1, parallelism: {min: 2, max: 4}", 3, 3, 2, 1},
		{"command: [x], gpus: 1, parallelism: {min: 2, max: 4}", 1, 1, 1, 1},
		{"command: [x], gpus: 1, parallelism: {max: 5000}", 5000, 1000, 1, 1},
	} {
		graph := graphOf(t, "input: {dataset: things}, "+c.stage)
		job := workersJob(&v1alpha1.PipelineRun{}, graph.Stages[0], "", "muster", "/work", c.datums)
		role := job.Spec.Roles[0]
		least := int(*role.Replicas)
		if role.MinReplicas != nil {
			least = int(*role.MinReplicas)
		}
		gpus := 0
		if role.GPUs != nil {
			gpus = int(role.GPUs.Value())
		}
		if len(job.Spec.Roles) != 1 || int(*role.Replicas) != c.most || least != c.least || gpus != c.gpus {
			t.Errorf("%s, %d datums: %d..%d workers with %d GPUs each", c.stage, c.datums, least, *role.Replicas, gpus)
		}
	}
}
