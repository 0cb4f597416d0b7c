//go:build conformance

package conformance

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/test/e2e/harness"
)

// silence stops the kubelet of a node that runs a job and that was given another, which it has
// not taken. Both name the node. The second starts elsewhere, and a job for which there is no
// room without the node says so. Once the kubelet goes on nothing of it is left.
func (p *platform) silence(t testing.TB, ns string) {
	t.Helper()
	p.holding(t, ns, "runs", 1, 1, "")
	p.until(t, ns, "runs", v1alpha1.JobRunning)
	node := p.pods(t, ns, "runs")[0].Spec.NodeName
	kubelet := func(signal syscall.Signal) {
		t.Helper()
		if err := p.signal(node+"/kubelet", signal); err != nil {
			t.Fatal(err)
		}
	}
	// 1. The scheduler does not know yet: it fills the node that is used already.
	kubelet(syscall.SIGSTOP)
	p.holding(t, ns, "moves", 1, 1, ", startTimeout: 20s")
	p.placedOn(t, ns, "moves", func(at string) bool { return at == node })
	// 2. The node is named wherever a user looks.
	p.blames(t, ns, "runs", "node "+node+", which runs it, has not answered since ")
	p.blames(t, ns, "moves", "it waits for node "+node+", which has not answered since ")
	p.holding(t, ns, "large", 4, 1, "")
	p.says(t, ns, "large", "needs 4 GPUs at once", "of node "+node+", which is not ready")
	// 3. Its running members stay there. Members that it has not accepted start elsewhere, without
	// a counted failure.
	p.placedOn(t, ns, "moves", func(at string) bool { return at != node })
	if job := p.until(t, ns, "moves", v1alpha1.JobRunning); job.Status.Restarts != 0 {
		t.Errorf("a node that does not answer counts as %d restarts", job.Status.Restarts)
	}
	if live := p.pods(t, ns, "runs"); len(live) != 1 || live[0].Spec.NodeName != node || live[0].DeletionTimestamp != nil {
		t.Errorf("the member that runs on %s was touched: %d live pods", node, len(live))
	}
	// 4. The node answers again.
	kubelet(syscall.SIGCONT)
	harness.Eventually(t, within, "waiting until nothing is said of the node any more", func() error {
		job := p.job(t, ns, "runs")
		if job.Status.Reason != "" || job.Status.Phase != v1alpha1.JobRunning {
			return fmt.Errorf("runs is %s, %s: %s", job.Status.Phase, job.Status.Reason, job.Status.Message)
		}
		return nil
	})
	for _, name := range []string{"runs", "moves"} {
		p.release(t, ns, name, "worker", 0)
		p.until(t, ns, name, v1alpha1.JobSucceeded)
	}
	p.until(t, ns, "large", v1alpha1.JobRunning)
	for _, name := range []string{"runs", "moves", "large"} {
		p.does(t, ns, "delete", name)
	}
	p.ended(t, ns)
}

// placedOn waits until the member of a job is on a node that will do.
func (p *platform) placedOn(t testing.TB, ns, job string, will func(node string) bool) {
	t.Helper()
	harness.Eventually(t, within, "waiting for a place of "+job, func() error {
		pods := p.pods(t, ns, job)
		if len(pods) != 1 || pods[0].Spec.NodeName == "" || pods[0].DeletionTimestamp != nil || !will(pods[0].Spec.NodeName) {
			return fmt.Errorf("its pods are %v; it is %s: %s", names(pods), p.job(t, ns, job).Status.Phase, p.job(t, ns, job).Status.Message)
		}
		return nil
	})
}

func names(pods []corev1.Pod) (out []string) {
	for i := range pods {
		out = append(out, pods[i].Name+" on "+pods[i].Spec.NodeName)
	}
	return out
}

// blames waits until a job says these words of a node, in its status, in get and why, and in
// an event.
func (p *platform) blames(t testing.TB, ns, job, words string) {
	t.Helper()
	p.says(t, ns, job, words)
	if status := p.job(t, ns, job).Status; status.Reason != v1alpha1.ReasonNodeUnreachable {
		t.Errorf("the reason of %s is %s", job, status.Reason)
	}
	for _, line := range [][]string{{"get", job}, {"why", job}} {
		if r := p.muster(t, append([]string{"-n", ns}, line...)...); r.Code != 0 || !strings.Contains(r.Stdout, words) {
			t.Errorf("muster %s: code %d, want %q: %s%s", strings.Join(line, " "), r.Code, words, r.Stdout, r.Stderr)
		}
	}
	harness.Eventually(t, within, "waiting for an event of "+job, func() error {
		var events corev1.EventList
		if err := p.api.List(t.Context(), &events, client.InNamespace(ns)); err != nil {
			return err
		}
		if !slices.ContainsFunc(events.Items, func(e corev1.Event) bool {
			return e.InvolvedObject.Name == job && e.Reason == v1alpha1.ReasonNodeUnreachable && strings.Contains(e.Message, words)
		}) {
			return fmt.Errorf("none of %d events says it", len(events.Items))
		}
		return nil
	})
}
