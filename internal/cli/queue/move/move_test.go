package move

import (
	"context"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/queue/sample"
)

// follower is the job's controller, in as far as it matters here: what the job
// names, its gang is charged to.
func follower(world client.WithWatch) client.WithWatch {
	return interceptor.NewClient(world, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			if err := c.Patch(ctx, o, p, opts...); err != nil {
				return err
			}
			gang := &v1alpha1.Gang{}
			if err := c.Get(ctx, client.ObjectKeyFromObject(o), gang); err != nil {
				return client.IgnoreNotFound(err)
			}
			gang.Spec.Queue = o.(*v1alpha1.TrainingJob).Spec.Queue
			return c.Update(ctx, gang)
		},
	})
}

func TestMove(t *testing.T) {
	for _, tt := range []struct {
		name  string
		jobs  string
		to    string
		phase v1alpha1.JobPhase
		deaf  bool // no controller follows
		code  exit.Code
		says  string
		queue string // of tiles, afterwards
	}{
		{name: "a job that waits", jobs: "tiles", to: "ocr", phase: v1alpha1.JobWaiting, says: "tiles moved to queue ocr\n", queue: "ocr"},
		{name: "a suspended one", jobs: "tiles", to: "default", phase: v1alpha1.JobSuspended, says: "tiles moved to queue default\n", queue: "default"},
		{name: "where it is", jobs: "tiles", to: "maps", phase: v1alpha1.JobWaiting, says: "tiles is already in queue maps\n", queue: "maps"},
		{name: "one that runs", jobs: "tiles", to: "ocr", phase: v1alpha1.JobRunning, code: exit.Failure, says: "tiles holds what it asked for (Running): only a job that waits moves; `muster suspend tiles`", queue: "maps"},
		{name: "one that has ended", jobs: "tiles", to: "ocr", phase: v1alpha1.JobFailed, code: exit.Failure, says: "tiles has ended (Failed)", queue: "maps"},
		{name: "a queue that is not there", jobs: "tiles", to: "orc", phase: v1alpha1.JobWaiting, code: exit.Missing, says: "there is no queue orc; did you mean ocr?", queue: "maps"},
		{name: "one of two is not there: none moves", jobs: "tiles tile", to: "ocr", phase: v1alpha1.JobWaiting, code: exit.Missing, says: "did you mean tiles?", queue: "maps"},
		{name: "nobody follows", jobs: "tiles", to: "ocr", phase: v1alpha1.JobWaiting, deaf: true, code: exit.Failure, says: "it is still in queue maps, and moves to ocr when it waits again", queue: "maps"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			world := sample.Team(t)
			job := &v1alpha1.TrainingJob{}
			key := client.ObjectKey{Namespace: "default", Name: "tiles"}
			if err := world.Get(t.Context(), key, job); err != nil {
				t.Fatal(err)
			}
			job.Status.Phase = tt.phase
			if err := world.Update(t.Context(), job); err != nil {
				t.Fatal(err)
			}
			streams, out, _ := sample.Streams()
			m := &mover{server: follower(world), streams: streams, namespace: "default", to: tt.to, patience: 10 * time.Second}
			if tt.deaf {
				m.server, m.patience = world, 10*time.Millisecond
			}
			err := m.run(t.Context(), strings.Fields(tt.jobs))
			said := out.String()
			if err != nil {
				said += err.Error()
			}
			if code, _ := exit.Of(err); code != tt.code || !strings.Contains(said, tt.says) {
				t.Errorf("code %d, said %q", code, said)
			}
			gang := &v1alpha1.Gang{}
			if err := world.Get(t.Context(), key, gang); err != nil {
				t.Fatal(err)
			}
			if gang.Spec.Queue != tt.queue {
				t.Errorf("it is in %s, want %s", gang.Spec.Queue, tt.queue)
			}
		})
	}
}
