package pause

import (
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/queue/sample"
	"github.com/muster-dev/muster/internal/cli/standstill"
)

func TestPause(t *testing.T) {
	server := sample.Team(t)
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.Local)
	for _, c := range []struct {
		mark standstill.Standstill
		want string
	}{
		{standstill.Standstill{Who: "ada@box", Since: noon, Why: "new switches"}, "scheduling paused: what runs goes on, nothing new starts; `muster unpause` ends it\n"},
		{standstill.Standstill{Who: "bob@box", Since: noon}, "already: scheduling is paused since 2026-03-01 12:00 by ada@box: new switches\n"},
		{standstill.Standstill{Queue: "vision", Who: "bob@box", Since: noon}, "queue vision stopped: what runs goes on, nothing new starts; `muster unpause --queue vision` ends it\n"},
		{standstill.Standstill{Queue: "batch", Who: "bob@box", Since: noon}, "already: queue batch is stopped\n"},
	} {
		streams, out, _ := sample.Streams()
		if err := run(t.Context(), server, streams, c.mark); err != nil || out.String() != c.want {
			t.Errorf("error %v, said %q, want %q", err, out, c.want)
		}
	}
	var vision v1alpha1.Queue
	if err := server.Get(t.Context(), client.ObjectKey{Name: "vision"}, &vision); err != nil || !vision.Spec.Stopped ||
		!strings.HasPrefix(vision.Annotations[v1alpha1.AnnotationPaused], "bob@box ") {
		t.Errorf("error %v, %+v", err, vision)
	}
}
