package installation

import (
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// Agents is the state of the agents.
type Agents struct {
	// Installed is false where no agent is to run.
	Installed bool
	// Wanted counts the nodes that are to have one, Ready those whose agent is of the
	// version and values that are to run, and is ready.
	Wanted, Ready int
	// Away are the nodes that are not ready themselves: an installation does not wait for their
	// agents.
	Away []string
	// Trouble is the reason why an agent does not run, in a few words; empty if none is known.
	Trouble string
	// Failing reports that an agent ends each time it is started.
	Failing bool
	// observed reports that the counts are of the DaemonSet as it is now.
	observed bool
}

// Done reports that every agent that can be ready is.
func (a Agents) Done() bool {
	return !a.Installed || a.observed && a.Ready+len(a.Away) >= a.Wanted
}

func (a Agents) String() string {
	words := fmt.Sprintf("%d of %d agents ready", a.Ready, a.Wanted)
	if len(a.Away) > 0 {
		words += fmt.Sprintf(", %d on nodes that are not ready (%s)", len(a.Away), shortList(a.Away))
	}
	if a.Trouble != "" {
		words += ": " + a.Trouble
	}
	return words
}

// Agents reads the state of the agents.
func (c *Cluster) Agents(ctx context.Context) (Agents, error) {
	d, err := c.set.AppsV1().DaemonSets(v1alpha1.SystemNamespace).Get(ctx, agentName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return Agents{}, nil
	}
	if err != nil {
		return Agents{}, fmt.Errorf("reading the DaemonSet of the agent: %w", err)
	}
	pods, err := c.set.CoreV1().Pods(v1alpha1.SystemNamespace).List(ctx, metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(d.Spec.Selector)})
	if err != nil {
		return Agents{}, fmt.Errorf("listing the agents: %w", err)
	}
	a := agentsOf(d, pods.Items, nil)
	if a.Done() {
		return a, nil
	}
	nodes, err := c.set.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"}) // from the server's cache
	if err != nil {
		return a, fmt.Errorf("listing the nodes of the agents: %w", err)
	}
	return agentsOf(d, pods.Items, notReady(nodes.Items)), nil
}

// notReady returns the names of the nodes that are not ready.
func notReady(nodes []corev1.Node) map[string]bool {
	out := map[string]bool{}
	for i := range nodes {
		out[nodes[i].Name] = !slices.ContainsFunc(nodes[i].Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		})
	}
	return out
}

// fails is the number of restarts from which on an agent is said to fail. A first start
// may fail because the node is not up yet.
const fails = 2

func agentsOf(d *appsv1.DaemonSet, pods []corev1.Pod, away map[string]bool) Agents {
	a := Agents{
		Installed: true, Wanted: int(d.Status.DesiredNumberScheduled),
		observed: d.Status.ObservedGeneration >= d.Generation,
	}
	for i := range pods {
		p := &pods[i]
		fresh := isFresh(d, p) && p.DeletionTimestamp == nil
		switch {
		case fresh && podReady(p):
			a.Ready++
			continue
		case away[p.Spec.NodeName]:
			a.Away = append(a.Away, p.Spec.NodeName)
			continue
		case !fresh:
			continue // it is being replaced
		}
		if why := troubleOf(pods[i : i+1]); why != "" && !a.Failing {
			a.Trouble = strings.TrimSpace("on node " + p.Spec.NodeName + ", " + why)
			a.Failing = slices.ContainsFunc(p.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
				return s.State.Waiting != nil && s.State.Waiting.Reason == "CrashLoopBackOff" && s.RestartCount >= fails
			})
		}
	}
	slices.Sort(a.Away)
	a.Away = slices.Compact(a.Away)
	return a
}

// isFresh reports that a pod is of the template that the DaemonSet has now.
func isFresh(d *appsv1.DaemonSet, p *corev1.Pod) bool {
	want, is := d.Annotations[appsv1.DeprecatedTemplateGeneration], p.Labels["pod-template-generation"]
	return want == "" || is == "" || want == is
}

func podReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
