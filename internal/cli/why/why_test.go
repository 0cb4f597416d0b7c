package why

import (
	"context"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/queue/sample"
	"github.com/muster-dev/muster/internal/cli/standstill"
	"github.com/muster-dev/muster/internal/cli/terminal"
	"github.com/muster-dev/muster/internal/scheduling"
)

// A job that waits says what is paused; one that runs does not.
func TestPausesAreNamed(t *testing.T) {
	waiting := &v1alpha1.TrainingJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "mnist"},
		Spec:       v1alpha1.TrainingJobSpec{Queue: "ocr"},
		Status:     v1alpha1.TrainingJobStatus{Phase: v1alpha1.JobWaiting, Message: "waiting to be scheduled"},
	}
	running := waiting.DeepCopy()
	running.Name, running.Status.Phase, running.Status.Message = "resnet", v1alpha1.JobRunning, "all members run"
	server := sample.World(t, waiting, running, sample.Queue("vision", "", "", nil), sample.Queue("ocr", "vision", "", nil))
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.Local)
	for _, queue := range []string{"", "vision"} {
		if _, err := standstill.Set(t.Context(), server, standstill.Standstill{Queue: queue, Who: "ada@box", Since: noon, Why: "new switches"}); err != nil {
			t.Fatal(err)
		}
	}
	unknown := func(context.Context, client.Reader, scheduling.Key, bool) (scheduling.Explanation, error) {
		return scheduling.Explanation{}, apierrors.NewNotFound(v1alpha1.GroupVersion.WithResource("gangs").GroupResource(), "mnist")
	}
	for name, want := range map[string]string{
		"mnist": `mnist Waiting: waiting to be scheduled
Nothing new starts: scheduling is paused since 2026-03-01 12:00 by ada@box: new switches (` + "`muster unpause`" + ` ends it)
Nothing new starts: queue vision is stopped since 2026-03-01 12:00 by ada@box: new switches (` + "`muster unpause --queue vision`" + ` ends it)
`,
		"resnet": "resnet Running: all members run\n",
	} {
		answer, err := ask(t.Context(), server, unknown, "default", subject{kindJob, name})
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		if err := answer.write(&text, terminal.Coloured(false)); err != nil || text.String() != want {
			t.Errorf("error %v, said:\n%swant:\n%s", err, &text, want)
		}
	}
}
