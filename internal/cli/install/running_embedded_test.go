//go:build embedded

package install_test

import (
	"context"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/rehearsal"
)

// TestJobsOutliveTheManager takes Muster away and puts it back while a job
// runs: its pods are the same before and after, and its end is told by the
// manager that came later. At last everything is removed although no manager
// runs that could end a job.
func TestJobsOutliveTheManager(t *testing.T) {
	server := rehearsal.StartCluster(t)
	ctx := t.Context()
	put := []rehearsal.Step{{Args: "install --no-wait --set manager.replicas=0", Says: "is applied"}}
	server.Run(t, put)
	_, stop := runAsManager(t, server)
	rehearsal.AddOwned(t, server.Client, "one", 8)
	startPods(t, server.Client)
	if err := server.Client.Create(ctx, trainingJob("mnist", 4, 4, "")); err != nil {
		t.Fatal(err)
	}
	is := func(phase v1alpha1.JobPhase) {
		t.Helper()
		job := &v1alpha1.TrainingJob{}
		rehearsal.Eventually(t, "mnist is "+string(phase), func(ctx context.Context) bool {
			return server.Client.Get(ctx, client.ObjectKey{Namespace: "default", Name: "mnist"}, job) == nil && job.Status.Phase == phase
		})
	}
	is(v1alpha1.JobRunning)
	before := running(ctx, t, server.Client)
	if len(before) != 4 {
		t.Fatal("running:", before)
	}
	// 1. Away, wholly, and back.
	stop()
	server.Run(t, []rehearsal.Step{{Args: "uninstall --yes", Says: "1 jobs and 1 queues; of jobs that run, 4 pods go on"}})
	if after := running(ctx, t, server.Client); !slices.Equal(before, after) {
		t.Errorf("without Muster: %v, were %v", after, before)
	}
	var budgets policyv1.PodDisruptionBudgetList
	if err := server.Client.List(ctx, &budgets, client.HasLabels{v1alpha1.LabelGuarded}); err != nil || len(budgets.Items) > 0 {
		t.Errorf("%d budgets would keep nodes from being drained for ever: %v", len(budgets.Items), err)
	}
	server.Run(t, put)
	_, stop = runAsManager(t, server)
	is(v1alpha1.JobRunning)
	endPods(ctx, t, server.Client, "mnist")
	is(v1alpha1.JobSucceeded)
	// 2. For good, with a job that nobody ends.
	if err := server.Client.Create(ctx, trainingJob("bert", 4, 4, "")); err != nil {
		t.Fatal(err)
	}
	rehearsal.Eventually(t, "bert runs", func(ctx context.Context) bool { return len(running(ctx, t, server.Client)) == 4 })
	stop()
	server.Run(t, []rehearsal.Step{{Args: "uninstall --yes --purge", Says: "no manager runs: deleted"}})
	if left := running(ctx, t, server.Client); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// running are the members that run, by UID.
func running(ctx context.Context, t *testing.T, server client.Client) []string {
	t.Helper()
	var pods corev1.PodList
	if err := server.List(ctx, &pods, client.HasLabels{v1alpha1.LabelGang}); err != nil {
		t.Fatal(err)
	}
	var out []string
	for i := range pods.Items {
		if p := &pods.Items[i]; p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil {
			out = append(out, string(p.UID))
		}
	}
	slices.Sort(out)
	return out
}
