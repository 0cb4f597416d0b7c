package installation

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// agentPod is an agent on a node, of a template, that restarted so many times; it is ready
// unless it waits.
func agentPod(node, template, waits string, restarts int32) corev1.Pod {
	p := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "muster-node-" + node, Labels: map[string]string{"pod-template-generation": template}},
		Spec:       corev1.PodSpec{NodeName: node},
	}
	status := corev1.ContainerStatus{RestartCount: restarts}
	ready := corev1.ConditionTrue
	if waits != "" {
		ready = corev1.ConditionFalse
		status.State.Waiting = &corev1.ContainerStateWaiting{Reason: waits, Message: "back-off"}
		status.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{Message: "starting\nsimulated GPUs \"2A100\" are not understood\n"}
	}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{status}
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}
	return p
}

func TestAgents(t *testing.T) {
	daemons := func(observed int64, wanted int32) *appsv1.DaemonSet {
		return &appsv1.DaemonSet{
			ObjectMeta: metav1.ObjectMeta{Generation: 2, Annotations: map[string]string{appsv1.DeprecatedTemplateGeneration: "2"}},
			Status:     appsv1.DaemonSetStatus{ObservedGeneration: observed, DesiredNumberScheduled: wanted},
		}
	}
	const loop = "CrashLoopBackOff"
	for name, c := range map[string]struct {
		set           *appsv1.DaemonSet
		pods          []corev1.Pod
		away          []string
		done, failing bool
		says          string
	}{
		"no node":            {daemons(2, 0), nil, nil, true, false, "0 of 0 agents ready"},
		"ready":              {daemons(2, 2), []corev1.Pod{agentPod("a", "2", "", 0), agentPod("b", "2", "", 0)}, nil, true, false, "2 of 2 agents ready"},
		"not looked at":      {daemons(1, 1), []corev1.Pod{agentPod("a", "2", "", 0)}, nil, false, false, "1 of 1 agents ready"},
		"of before":          {daemons(2, 2), []corev1.Pod{agentPod("a", "1", "", 0), agentPod("b", "2", "", 0)}, nil, false, false, "1 of 2 agents ready"},
		"none yet":           {daemons(2, 1), nil, nil, false, false, "0 of 1 agents ready"},
		"on a node away":     {daemons(2, 2), []corev1.Pod{agentPod("a", "2", "", 0), agentPod("b", "1", "ContainerCreating", 0)}, []string{"b"}, true, false, "1 of 2 agents ready, 1 on nodes that are not ready (b)"},
		"ends once":          {daemons(2, 1), []corev1.Pod{agentPod("a", "2", loop, 1)}, nil, false, false, "0 of 1 agents ready: on node a, pod muster-node-a: CrashLoopBackOff back-off: simulated GPUs \"2A100\" are not understood"},
		"ends again":         {daemons(2, 1), []corev1.Pod{agentPod("a", "2", loop, 2)}, nil, false, true, "0 of 1 agents ready: on node a, pod muster-node-a: CrashLoopBackOff back-off: simulated GPUs \"2A100\" are not understood"},
		"one of before ends": {daemons(2, 1), []corev1.Pod{agentPod("a", "1", loop, 9)}, nil, false, false, "0 of 1 agents ready"},
	} {
		t.Run(name, func(t *testing.T) {
			away := map[string]bool{}
			for _, n := range c.away {
				away[n] = true
			}
			a := agentsOf(c.set, c.pods, away)
			if a.Done() != c.done || a.Failing != c.failing || a.String() != c.says {
				t.Errorf("done %v, failing %v, %q", a.Done(), a.Failing, a)
			}
		})
	}
	if a := (Agents{}); !a.Done() {
		t.Error("agents that are not installed are waited for")
	}
}

func TestWhoseNodesLoseTheAgent(t *testing.T) {
	all := []Dependent{{Pod: "team/a", Node: "one"}, {Pod: "team/b", Node: "two"}}
	if got := off(all, []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "one"}}}); !slices.Equal(got, all[1:]) {
		t.Errorf("%v", got)
	}
}
