package gang

import (
	"cmp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// single leaves the gang one worker.
func single(g *v1alpha1.Gang) {
	g.Spec.Roles = g.Spec.Roles[1:]
	g.Spec.Roles[0].Replicas = 1
}

func TestFailurePolicy(t *testing.T) {
	tests := []struct {
		name string
		edit func(*v1alpha1.Gang)
		// pod is the one that exits; resnet-worker-1 if it is empty.
		pod  string
		exit corev1.PodStatus
		// times is how often it exits this way.
		times int
		want  string
	}{
		{
			name: "a role that is not restarted", edit: func(g *v1alpha1.Gang) { g.Spec.Roles[1].RestartPolicy = v1alpha1.RestartNever },
			exit: fails, times: 1, want: "worker-1 ended with exit code 3; its role is not to be restarted",
		},
		{
			name: "no restart allowed", edit: func(g *v1alpha1.Gang) { g.Spec.BackoffLimit = 0 },
			exit: fails, times: 1, want: "worker-1 ended with exit code 3; no restart is allowed",
		},
		{
			name: "the last restart used", edit: func(g *v1alpha1.Gang) { g.Spec.BackoffLimit = 1 },
			exit: fails, times: 2, want: "worker-1 ended with exit code 3 after 1 restart, which is all that is allowed",
		},
		{
			name: "what no node can run", edit: func(*v1alpha1.Gang) {},
			exit: cannotRun, times: 1, want: "node here cannot run worker-1: this node cannot run the image",
		},
		{
			name: "refused again and again", edit: func(*v1alpha1.Gang) {},
			exit: refusesIt, times: maxRefusals, want: "node here refused worker-1 again and again: port 20003 is taken",
		},
		{
			name: "a single member that is not restarted", edit: func(g *v1alpha1.Gang) {
				single(g)
				g.Spec.Roles[0].RestartPolicy = v1alpha1.RestartNever
			},
			pod: "resnet-worker-0", exit: fails, times: 1, want: "it ended with exit code 3; it is not to be restarted",
		},
		{
			name: "a single member that no node can run", edit: single,
			pod: "resnet-worker-0", exit: cannotRun, times: 1, want: "node here cannot run it: this node cannot run the image",
		},
		{
			name: "a single member refused again and again", edit: single,
			pod: "resnet-worker-0", exit: refusesIt, times: maxRefusals, want: "node here refused it again and again: port 20003 is taken",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pod := cmp.Or(tt.pod, "resnet-worker-1")
			w := newWorld(t, fault{})
			g := testGang()
			tt.edit(g)
			w.must(w.api.Create(t.Context(), g))
			left := tt.times
			for range 400 {
				if _, armed := w.exits[pod]; !armed && left > 0 {
					w.exits[pod] = tt.exit
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

// TestQuotaIsWaitedFor has no room for one member for ten minutes, and then room.
func TestQuotaIsWaitedFor(t *testing.T) {
	w := newWorld(t, fault{})
	w.must(w.api.Create(t.Context(), testGang()))
	w.forbidden = "resnet-worker-1"
	for begin := w.clock; w.clock.Sub(begin) < 10*time.Minute; {
		w.round()
	}
	w.until("a pause", func() bool {
		g := w.gang(t.Context())
		return g.Status.Phase == v1alpha1.GangPending && g.Status.NotBefore != nil && g.Status.NotBefore.Sub(w.clock) > 30*time.Second
	})
	g := w.gang(t.Context())
	if want := `it is not allowed to start now: pods "resnet-worker-1" is forbidden: exceeded quota: small`; g.Status.Message != want {
		t.Errorf("message %q, want %q", g.Status.Message, want)
	}
	if g.Status.Attempt < 10 || g.Status.Attempt > 20 {
		t.Errorf("%d attempts in ten minutes, want 10 to 20", g.Status.Attempt)
	}
	w.forbidden = ""
	q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer q.ShutDown()
	w.ctl.allow(t.Context(), q, "another")
	if q.Len() != 0 {
		t.Errorf("the quota of another namespace wakes %d gangs", q.Len())
	}
	w.ctl.allow(t.Context(), q, "vision")
	if q.Len() != 1 {
		t.Errorf("the quota wakes %d gangs, want 1", q.Len())
	}
	begin := w.clock
	w.phase(v1alpha1.GangRunning)
	if took := w.clock.Sub(begin); took > 5*time.Second {
		t.Errorf("it ran %s after the quota grew", took)
	}
	w.holdsAll()
}

// TestDeletedInPeace is a member that somebody deletes, and that has its grace
// period: a collective starts again as a whole as soon as that is known, and
// not the member alone once it has gone. Whoever is done is not missed, and
// where members stand for themselves the others go on.
func TestDeletedInPeace(t *testing.T) {
	now := metav1.NewTime(time.Date(2026, 5, 4, 14, 0, 0, 0, time.UTC))
	for name, c := range map[string]struct {
		restart v1alpha1.RestartScope
		limit   int32
		done    []string
		want    v1alpha1.GangPhase
		message string
	}{
		"a collective":           {v1alpha1.RestartScopeGang, 3, nil, v1alpha1.GangDraining, "worker-1 was deleted from outside; all members are started again (restart 1 of 3)"},
		"with no restart left":   {v1alpha1.RestartScopeGang, 0, nil, v1alpha1.GangDraining, "worker-1 was deleted from outside; no restart is allowed"},
		"one that is done":       {v1alpha1.RestartScopeGang, 3, []string{"worker-1"}, v1alpha1.GangRunning, ""},
		"members of their own":   {v1alpha1.RestartScopeMember, 3, nil, v1alpha1.GangStarting, ""},
		"members by the default": {"", 3, nil, v1alpha1.GangStarting, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := testGang()
			g.Spec.Restart, g.Spec.BackoffLimit = c.restart, c.limit
			g.Status = v1alpha1.GangStatus{Phase: v1alpha1.GangRunning, Attempt: 2, Done: c.done}
			o := observed{gang: g, placement: testPlacement(), now: now.Time, node: func(string) stands { return stands{there: true} }}
			for _, member := range []string{"ps-0", "worker-0", "worker-1"} {
				role, index, _ := strings.Cut(member, "-")
				p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
					Name: "resnet-" + member, UID: types.UID(member),
					Labels: map[string]string{v1alpha1.LabelRole: role, v1alpha1.LabelIndex: index, v1alpha1.LabelAttempt: "2"},
				}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
				if member == "worker-1" {
					p.DeletionTimestamp = &now
				}
				o.pods = append(o.pods, p)
			}
			s := decide(o).status
			if s.Phase != c.want || s.Message != c.message {
				t.Errorf("%s, %q; want %s, %q", s.Phase, s.Message, c.want, c.message)
			}
		})
	}
}
