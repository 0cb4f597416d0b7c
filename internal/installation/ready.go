package installation

import (
	"context"
	"errors"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// managerName is the name of the manager's Deployment.
const managerName = "muster-manager"

// Manager is how the manager stands.
type Manager struct {
	// Version is the version that is to run; empty: it is not installed.
	Version string
	// Wanted, Updated and Available count replicas.
	Wanted, Updated, Available int32
	// Leaving counts replicas that are to go, or are being stopped: of the version
	// before, or too many.
	Leaving int32
	// Trouble is why a replica does not run, in a few words; empty if none is
	// known.
	Trouble string
	// observed reports that the counts are of the Deployment as it is now.
	observed bool
}

// Ready reports whether every replica is of the version that is to run, and
// can work. Others may still be stopping.
func (m Manager) Ready() bool {
	return m.Version != "" && m.observed && m.Updated == m.Wanted && m.Available >= m.Wanted
}

// Alone reports that it is ready and no other replica is left: a change of
// version is over.
func (m Manager) Alone() bool { return m.Ready() && m.Leaving == 0 }

func (m Manager) String() string {
	words := fmt.Sprintf("%d of %d managers ready", m.Available, m.Wanted)
	if m.Updated < m.Wanted {
		words += fmt.Sprintf(", %d of the new version", m.Updated)
	}
	if m.Leaving > 0 {
		words += fmt.Sprintf(", %d others still there", m.Leaving)
	}
	if m.Trouble != "" {
		words += ": " + m.Trouble
	}
	return words
}

// Manager looks at the manager.
func (c *Cluster) Manager(ctx context.Context) (Manager, error) {
	d, err := c.set.AppsV1().Deployments(v1alpha1.SystemNamespace).Get(ctx, managerName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return Manager{}, nil
	}
	if err != nil {
		return Manager{}, fmt.Errorf("reading the manager's Deployment: %w", err)
	}
	m := standingOf(d)
	selector := metav1.FormatLabelSelector(d.Spec.Selector)
	pods, err := c.set.CoreV1().Pods(v1alpha1.SystemNamespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return m, fmt.Errorf("listing the manager's pods: %w", err)
	}
	m.Leaving += leaving(pods.Items)
	if m.Ready() {
		return m, nil
	}
	if why := troubleOf(pods.Items); why != "" {
		m.Trouble = why
	}
	return m, nil
}

// leaving counts the pods that are being stopped and have not ended.
func leaving(pods []corev1.Pod) int32 {
	n := int32(0)
	for i := range pods {
		p := &pods[i]
		if p.DeletionTimestamp != nil && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
			n++
		}
	}
	return n
}

func standingOf(d *appsv1.Deployment) Manager {
	m := Manager{
		Version: d.Labels[labelVersion], Wanted: 1,
		Updated: d.Status.UpdatedReplicas, Available: d.Status.AvailableReplicas,
		observed: d.Status.ObservedGeneration >= d.Generation,
	}
	if d.Spec.Replicas != nil {
		m.Wanted = *d.Spec.Replicas
	}
	// Those that nobody has told to stop yet; the API shows the others as pods.
	m.Leaving = max(0, d.Status.Replicas-min(m.Updated, m.Wanted))
	for _, c := range d.Status.Conditions {
		if c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue {
			m.Trouble = c.Message
		}
	}
	return m
}

// troubleOf is why the first pod that does not run does not.
func troubleOf(pods []corev1.Pod) string {
	for i := range pods {
		p := &pods[i]
		for _, s := range p.Status.ContainerStatuses {
			if w := s.State.Waiting; w != nil && w.Reason != "ContainerCreating" {
				return strings.TrimSpace(fmt.Sprintf("pod %s: %s %s%s", p.Name, w.Reason, w.Message, lastWords(s)))
			}
		}
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
				return fmt.Sprintf("pod %s has no node: %s", p.Name, c.Message)
			}
		}
	}
	return ""
}

// lastWords is the last line that a container wrote before it ended.
func lastWords(s corev1.ContainerStatus) string {
	t := s.LastTerminationState.Terminated
	if t == nil || strings.TrimSpace(t.Message) == "" {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(t.Message), "\n")
	return ": " + lines[len(lines)-1]
}

// AwaitAgents waits until the agents are ready, except those on nodes that are not, and returns
// them. It calls progress at each change. An agent that ends each time it is started is an error at
// once.
func (c *Cluster) AwaitAgents(ctx context.Context, progress func(string)) (Agents, error) {
	var last Agents
	told := ""
	err := wait.PollUntilContextCancel(ctx, pollEvery, true, func(ctx context.Context) (bool, error) {
		a, err := c.Agents(ctx)
		if err != nil {
			return false, ignoreEnd(ctx, err)
		}
		if last = a; a.String() != told {
			told = a.String()
			progress(told)
		}
		return a.Done() || a.Failing, nil
	})
	more := fmt.Sprintf("kubectl -n %s logs daemonset/%s says more", v1alpha1.SystemNamespace, agentName)
	switch {
	case err == nil && last.Failing && !last.Done():
		return last, fmt.Errorf("the manager is ready, and the agent does not start: %s. Change the values, or look: %s", last, more)
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return last, fmt.Errorf("waiting for the agents: %w; %s. The manager is ready: %s", context.Cause(ctx), last, more)
	}
	return last, err
}

// Await waits until the manager is ready and no replica of a version before it is
// left, and tells progress each time that this changes. The error of a context
// that ends first says what is missing.
func (c *Cluster) Await(ctx context.Context, progress func(string)) error {
	var last Manager
	err := wait.PollUntilContextCancel(ctx, pollEvery, true, func(ctx context.Context) (bool, error) {
		m, err := c.Manager(ctx)
		if err != nil {
			return false, ignoreEnd(ctx, err)
		}
		if m != last {
			progress(m.String())
		}
		last = m
		return m.Alone(), nil
	})
	if err == nil {
		return nil
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("waiting for the manager: %w; %s. It is installed and goes on trying: kubectl -n %s describe deployment %s says more",
			context.Cause(ctx), last, v1alpha1.SystemNamespace, managerName)
	}
	return err
}

// ignoreEnd is nil for an error of a context that ended: whoever waits says so.
func ignoreEnd(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return nil
}
