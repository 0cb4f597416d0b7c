package gang

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/memberpod"
)

// exited is the status of a pod whose main container ended so.
func exited(code, signal int32) corev1.PodStatus {
	phase := corev1.PodFailed
	if code == 0 {
		phase = corev1.PodSucceeded
	}
	return corev1.PodStatus{Phase: phase, ContainerStatuses: []corev1.ContainerStatus{{
		State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Signal: signal}},
	}}}
}

// left names the pods that are there and whether they run.
func (w *world) left() string {
	var out []string
	for _, p := range w.pods(w.t.Context()) {
		out = append(out, p.Name+" "+string(p.Status.Phase))
	}
	return strings.Join(out, ", ")
}

// TestOneMemberDecides ends with worker 0, whatever the other worker does.
func TestOneMemberDecides(t *testing.T) {
	w := newWorld(t, fault{})
	g := testGang()
	g.Spec.DoneWhen = []string{"worker/0"}
	w.must(w.api.Create(t.Context(), g))
	w.phase(v1alpha1.GangRunning)
	w.exits["resnet-worker-1"] = exited(0, 0)
	for range 5 {
		w.round()
	}
	if s := w.gang(t.Context()).Status; s.Phase != v1alpha1.GangRunning || s.LastWorkerTime != nil {
		t.Fatalf("worker-1 decided: %+v", s)
	}
	w.exits["resnet-worker-0"] = exited(0, 0)
	w.phase(v1alpha1.GangSucceeded)
	w.holdsNothing()
}

func TestCleanUp(t *testing.T) {
	for policy, want := range map[v1alpha1.CleanUp]string{
		"":                      "resnet-worker-0 Succeeded",
		v1alpha1.CleanUpRunning: "resnet-worker-0 Succeeded",
		v1alpha1.CleanUpAll:     "",
	} {
		t.Run("policy "+string(policy), func(t *testing.T) {
			w := newWorld(t, fault{})
			g := testGang()
			g.Spec.DoneWhen, g.Spec.CleanUp = []string{"worker/0"}, policy
			w.must(w.api.Create(t.Context(), g))
			w.phase(v1alpha1.GangRunning)
			w.exits["resnet-worker-0"] = exited(0, 0)
			w.phase(v1alpha1.GangSucceeded)
			w.holdsNothing()
			if diff := cmp.Diff(want, w.left()); diff != "" {
				t.Errorf("pods (-want +got):\n%s", diff)
			}
		})
	}
}

// TestCleanUpNone leaves alone what runs when the outcome is decided: it ends
// by itself, or is deleted with its gang, and holds what it has until then.
func TestCleanUpNone(t *testing.T) {
	w := newWorld(t, fault{})
	g := testGang()
	g.Spec.DoneWhen, g.Spec.CleanUp = []string{"worker/0"}, v1alpha1.CleanUpNone
	w.must(w.api.Create(t.Context(), g))
	w.phase(v1alpha1.GangRunning)
	w.exits["resnet-worker-0"] = exited(0, 0)
	w.until("the outcome", func() bool { return w.gang(t.Context()).Status.Outcome == v1alpha1.GangSucceeded })
	for range 10 {
		w.round()
	}
	if diff := cmp.Diff("resnet-ps-0 Running, resnet-worker-0 Succeeded, resnet-worker-1 Running", w.left()); diff != "" {
		t.Errorf("pods (-want +got):\n%s", diff)
	}
	if len(w.placements(t.Context())) != 1 {
		t.Error("what still runs holds nothing")
	}
	w.exits["resnet-worker-1"], w.exits["resnet-ps-0"] = exited(1, 0), exited(0, 0)
	w.phase(v1alpha1.GangSucceeded)
	w.holdsNothing()
	if s := w.gang(t.Context()).Status; s.Restarts != 0 {
		t.Errorf("%d restarts after the end", s.Restarts)
	}
}

func TestRestartByExitCode(t *testing.T) {
	for _, tt := range []struct {
		name   string
		status corev1.PodStatus
		// fails is the end of the message where the gang fails.
		fails string
	}{
		{"1 is permanent", exited(1, 0), "worker-1 ended with exit code 1; an exit code from 1 to 127 is not restarted (restartPolicy: ExitCode)"},
		{"127 is permanent", exited(127, 0), "worker-1 ended with exit code 127; an exit code from 1 to 127 is not restarted (restartPolicy: ExitCode)"},
		{"128 is tried again", exited(128, 0), ""},
		{"a signal is tried again", exited(137, 9), ""},
		{"a pod that says nothing is tried again", corev1.PodStatus{Phase: corev1.PodFailed, Reason: "DeadlineExceeded"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, fault{})
			g := testGang()
			g.Spec.Roles[1].RestartPolicy = v1alpha1.RestartExitCode
			w.must(w.api.Create(t.Context(), g))
			w.phase(v1alpha1.GangRunning)
			w.exits["resnet-worker-1"] = tt.status
			if tt.fails == "" {
				w.until("a restart", func() bool { return w.gang(t.Context()).Status.Restarts == 1 })
				w.phase(v1alpha1.GangRunning)
				return
			}
			w.phase(v1alpha1.GangFailed)
			if got := w.gang(t.Context()).Status.Message; got != tt.fails {
				t.Errorf("message %q, want %q", got, tt.fails)
			}
		})
	}
}

// TestNamedPort gives members the port that their template declares where they
// have addresses of their own, and else declares the one that they were given.
func TestNamedPort(t *testing.T) {
	own := &corev1.Node{}
	for name, tt := range map[string]struct {
		node *corev1.Node
		port string
		want int32
	}{
		"declared":          {own, "peers", 23456},
		"on a shared node":  {testNode(4), "peers", 20002},
		"no port is named":  {own, "", 20002},
		"it names no port":  {own, "other", 20002},
		"shared and unused": {testNode(4), "", 20002},
	} {
		t.Run(name, func(t *testing.T) {
			g, p := testGang(), testPlacement()
			role := &g.Spec.Roles[1]
			role.PortName = tt.port
			role.Template.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "metrics", ContainerPort: 9090}, {Name: "peers", ContainerPort: 23456}}
			peers := told(t, table(g, membersOf(p), func(string) *corev1.Node { return tt.node }))
			if got, _ := peers.Port("worker", 1); got != tt.want {
				t.Errorf("peers look for it on %d, want %d", got, tt.want)
			}
			pod, err := memberpod.New(g, p, p.Spec.Members[2], v1alpha1.ResourceGPU, peers)
			if err != nil {
				t.Fatal(err)
			}
			declared := int32(23456)
			if tt.port == "peers" {
				declared = tt.want
			}
			if got := pod.Spec.Containers[0].Ports; got[0].ContainerPort != 9090 || got[1].ContainerPort != declared {
				t.Errorf("it declares %v, want %d", got, declared)
			}
		})
	}
}

func TestLabelsByIndex(t *testing.T) {
	g, p := testGang(), testPlacement()
	role := &g.Spec.Roles[1]
	role.IndexLabels, role.FirstLabels = []string{"team/index"}, map[string]string{"team/first": "yes"}
	peers := told(t, table(g, membersOf(p), func(string) *corev1.Node { return testNode(4) }))
	for i, want := range map[int][2]string{0: {"", ""}, 1: {"0", "yes"}, 2: {"1", ""}} {
		pod, err := memberpod.New(g, p, p.Spec.Members[i], v1alpha1.ResourceGPU, peers)
		if err != nil {
			t.Fatal(err)
		}
		if got := [2]string{pod.Labels["team/index"], pod.Labels["team/first"]}; got != want {
			t.Errorf("%s: %q, want %q", pod.Name, got, want)
		}
	}
}
