package removal

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/member"
	"github.com/muster-dev/muster/internal/cli/terminal"
)

// Held names what keeps a job that is being deleted, and what to do about it. idle reports
// that no manager runs on the cluster. Held is empty where nothing of the job is left.
func Held(ctx context.Context, c client.Client, job *v1alpha1.TrainingJob, idle bool) (string, error) {
	left, err := Look(ctx, c, job)
	if err != nil || left.None() {
		return "", err
	}
	if len(left.Members) == 0 {
		return heldObject(ctx, c, job, idle)
	}
	if idle {
		return left.withoutManager(job), nil
	}
	pods, err := member.Pods(ctx, c, job.Namespace, job.Name)
	if err != nil {
		return "", err
	}
	var told, untold, nodes []string
	for i := range pods {
		m, _ := member.OfPod(&pods[i])
		if pods[i].DeletionTimestamp == nil {
			untold = append(untold, m.String())
			continue
		}
		told = append(told, m.String())
		if node := pods[i].Spec.NodeName; node != "" && !slices.Contains(nodes, node) {
			nodes = append(nodes, node)
		}
	}
	if len(told) == 0 {
		return fmt.Sprintf("the manager has not yet told %s to end; the deletion goes on without this command, and `muster doctor` looks at the manager", named(untold)), nil
	}
	slices.Sort(nodes)
	return fmt.Sprintf("%s on %s not ended%s; the deletion goes on without this command", named(told), named(nodes)+have(told), silent(ctx, c, nodes)), nil
}

// withoutManager is for a job whose members are there, on a cluster without a manager.
func (l Left) withoutManager(job *v1alpha1.TrainingJob) string {
	gpus := ""
	if l.GPUs > 0 {
		gpus = " (" + terminal.Count(int64(l.GPUs), "GPU") + ")"
	}
	return fmt.Sprintf("no manager of Muster runs, so %s%s cannot end. They end once a manager runs; `muster doctor` finds the cause. To free their GPUs and ports before that: kubectl -n %s delete pods -l %s=%s",
		named(l.Members), gpus, job.Namespace, v1alpha1.LabelJob, job.Name)
}

// heldObject is for a job whose object alone is left.
func heldObject(ctx context.Context, c client.Client, job *v1alpha1.TrainingJob, idle bool) (string, error) {
	now := &v1alpha1.TrainingJob{}
	if err := c.Get(ctx, client.ObjectKeyFromObject(job), now); err != nil {
		if apierrors.IsNotFound(err) {
			return "", nil
		}
		return "", fmt.Errorf("looking for %s: %w", job.Name, err)
	}
	switch {
	case len(now.Finalizers) > 0:
		return fmt.Sprintf("no member is left, but the object has the finalizers %s, and goes once the controllers that set them have removed them", strings.Join(now.Finalizers, ", ")), nil
	case idle:
		return "no member is left, but no manager of Muster runs that could remove the object; it goes once a manager runs, and `muster doctor` finds the cause", nil
	}
	return "no member is left; the object goes without this command", nil
}

// silent names the nodes that are not ready. Without the right to read nodes it names the
// command that shows them.
func silent(ctx context.Context, c client.Client, names []string) string {
	var out []string
	for _, name := range names {
		node := &corev1.Node{}
		err := c.Get(ctx, client.ObjectKey{Name: name}, node)
		switch {
		case apierrors.IsNotFound(err):
			out = append(out, name)
			continue
		case err != nil:
			return ": a node that does not answer keeps them, and `muster node list` shows which nodes answer"
		}
		ready := slices.ContainsFunc(node.Status.Conditions, func(n corev1.NodeCondition) bool {
			return n.Type == corev1.NodeReady && n.Status == corev1.ConditionTrue
		})
		if !ready {
			out = append(out, name)
		}
	}
	switch len(out) {
	case 0:
		return ": the node waits for their processes, for the grace period of the pods at most"
	case 1:
		return fmt.Sprintf(": node %s does not answer. If its machine is off for good: kubectl delete node %[1]s", out[0])
	}
	return fmt.Sprintf(": the nodes %s do not answer. If a machine is off for good: kubectl delete node NODE", named(out))
}

func have(names []string) string {
	if len(names) == 1 {
		return " has"
	}
	return " have"
}

// named lists the first four.
func named(names []string) string {
	const most = 4
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
