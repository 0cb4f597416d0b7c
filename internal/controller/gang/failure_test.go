package gang

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
)

func TestFailurePolicy(t *testing.T) {
	tests := []struct {
		name string
		edit func(*v1alpha1.Gang)
		exit corev1.PodStatus
		// times is how often worker-1 exits this way.
		times int
		want  string
	}{
		{
			name: "a role that is not restarted", edit: func(g *v1alpha1.Gang) { g.Spec.Roles[1].RestartPolicy = v1alpha1.RestartNever },
			exit: fails, times: 1, want: "worker-1 ended with exit code 3; its role is not restarted (restartPolicy Never)",
		},
		{
			name: "no restart allowed", edit: func(g *v1alpha1.Gang) { g.Spec.BackoffLimit = 0 },
			exit: fails, times: 1, want: "worker-1 ended with exit code 3 (backoffLimit allows no restart)",
		},
		{
			name: "the last restart used", edit: func(g *v1alpha1.Gang) { g.Spec.BackoffLimit = 1 },
			exit: fails, times: 2, want: "worker-1 ended with exit code 3 after 1 restart, which is all that backoffLimit allows",
		},
		{
			name: "what no node can run", edit: func(*v1alpha1.Gang) {},
			exit: cannotRun, times: 1, want: "node here cannot run worker-1: this node cannot run the image",
		},
		{
			name: "refused again and again", edit: func(*v1alpha1.Gang) {},
			exit: refusesIt, times: maxRefusals, want: "node here refused worker-1 again and again: port 20003 is taken",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, fault{})
			g := testGang()
			tt.edit(g)
			w.must(w.api.Create(t.Context(), g))
			left := tt.times
			for range 400 {
				if _, armed := w.exits["resnet-worker-1"]; !armed && left > 0 {
					w.exits["resnet-worker-1"] = tt.exit
					left--
				}
				if w.gang(t.Context()).Status.Phase == v1alpha1.GangFailed {
					break
				}
				w.round()
			}
			w.phase(v1alpha1.GangFailed)
			w.holdsNothing()
			if got := w.gang(t.Context()).Status.Message; !strings.HasPrefix(got, tt.want) {
				t.Errorf("message %q, want %q", got, tt.want)
			}
		})
	}
}
