package installation

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/inventory"
)

const (
	// agentName is the name of the agent's DaemonSet, account, role and network policy.
	agentName = "muster-node"
	// agentPolicy is the policy that keeps agents to their own nodes.
	agentPolicy   = "muster-agents"
	kindDaemonSet = "DaemonSet"
)

// Dependent is a pod that cannot end without the agent on its node: the kubelet asks the
// agent to unprepare the GPUs of the pod, or to unmount its volumes.
type Dependent struct {
	// Pod is namespace/name.
	Pod, Node string
	// Member reports that it is a member of a gang.
	Member bool
}

// String names the pod and its node.
func (d Dependent) String() string { return d.Pod + " on " + d.Node }

// Dependents returns the pods that cannot end without the agent, sorted.
func (c *Cluster) Dependents(ctx context.Context) ([]Dependent, error) {
	claims, err := c.set.ResourceV1().ResourceClaims("").List(ctx, metav1.ListOptions{})
	if err != nil && !apierrors.IsNotFound(err) { // a server without such claims has none
		return nil, fmt.Errorf("listing the claims of GPUs: %w", err)
	}
	pods, err := c.set.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing the pods that may need the agent: %w", err)
	}
	var out []Dependent
	holders := holdersOf(claims)
	for i := range pods.Items {
		p := &pods.Items[i]
		if p.Spec.NodeName == "" || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
			continue
		}
		if holders[p.UID] || mounts(p) {
			_, member := p.Labels[v1alpha1.LabelGang]
			out = append(out, Dependent{Pod: p.Namespace + "/" + p.Name, Node: p.Spec.NodeName, Member: member})
		}
	}
	slices.SortFunc(out, func(a, b Dependent) int { return strings.Compare(a.Pod, b.Pod) })
	return out, nil
}

// holdersOf returns the pods for which GPUs of the agent are reserved.
func holdersOf(claims *resourcev1.ResourceClaimList) map[types.UID]bool {
	out := map[types.UID]bool{}
	if claims == nil {
		return out
	}
	for i := range claims.Items {
		s := &claims.Items[i].Status
		if s.Allocation == nil || !slices.ContainsFunc(s.Allocation.Devices.Results, func(r resourcev1.DeviceRequestAllocationResult) bool { return r.Driver == inventory.Driver }) {
			continue
		}
		for _, by := range s.ReservedFor {
			out[by.UID] = true
		}
	}
	return out
}

// agentDrivers are the drivers of volumes that agents mount.
var agentDrivers = []string{v1alpha1.CodeDriver, v1alpha1.EnvironmentDriver, v1alpha1.StageDriver, v1alpha1.DataDriver}

func mounts(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool {
		return v.CSI != nil && slices.Contains(agentDrivers, v.CSI.Driver)
	})
}

// some names the first few.
func some(all []Dependent) string {
	words := make([]string, 0, len(all))
	for _, d := range all {
		words = append(words, d.String())
	}
	return shortList(words)
}

// isAgent reports that an object is one of those that an agent needs to work.
func isAgent(o *unstructured.Unstructured) bool {
	switch o.GetKind() {
	case kindDaemonSet, "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "NetworkPolicy":
		return o.GetName() == agentName
	case "DeviceClass":
		return o.GetName() == inventory.Driver
	case "CSIDriver":
		return slices.Contains(agentDrivers, o.GetName())
	case "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding":
		return o.GetName() == agentPolicy
	}
	return false
}

// planAgent refuses a plan that takes the agent away from pods that cannot end without
// it, and one that removes the agent although no value says so.
func (c *Cluster) planAgent(ctx context.Context, p *Plan, w Wish) error {
	at := slices.IndexFunc(p.Steps, func(s Step) bool {
		return s.Object.GetKind() == kindDaemonSet && s.Object.GetName() == agentName
	})
	if at < 0 || p.Steps[at].Action == Create {
		return nil
	}
	step := &p.Steps[at]
	if _, says, _ := unstructured.NestedBool(w.Values, "agent", "create"); step.Action == Remove && !says && !w.Force {
		p.Refusals = append(p.Refusals, "the agent (DaemonSet muster-node) is installed, and the values do not name it: give the --values of the last installation with agent.create=true; agent.create=false removes the agent")
		return nil
	}
	left, err := c.stranded(ctx, *step)
	if err != nil || len(left) == 0 || w.Force {
		return err
	}
	p.Refusals = append(p.Refusals, fmt.Sprintf("the agent would leave the nodes of %d pods that cannot end without it (%s): keep agent.create=true and agent.nodeSelector until they have ended, or give --force", len(left), some(left)))
	return nil
}

// stranded returns the pods on nodes on which no agent runs after a step.
func (c *Cluster) stranded(ctx context.Context, step Step) ([]Dependent, error) {
	all, err := c.Dependents(ctx)
	if err != nil || step.Action == Remove || len(all) == 0 {
		return all, err
	}
	given, _, err := unstructured.NestedStringMap(step.Object.Object, "spec", "template", "spec", "nodeSelector")
	if err != nil {
		return nil, fmt.Errorf("reading the node selector of the agent: %w", err)
	}
	nodes, err := c.set.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: labels.SelectorFromSet(given).String()})
	if err != nil {
		return nil, fmt.Errorf("listing the nodes of the agent: %w", err)
	}
	return off(all, nodes.Items), nil
}

// off returns those that are on none of the nodes.
func off(all []Dependent, nodes []corev1.Node) []Dependent {
	with := map[string]bool{}
	for i := range nodes {
		with[nodes[i].Name] = true
	}
	return slices.DeleteFunc(slices.Clone(all), func(d Dependent) bool { return with[d.Node] })
}

// surveyAgent keeps the agent while pods need it. With purge it refuses instead.
func (c *Cluster) surveyAgent(ctx context.Context, r *Removal, purge, force bool) error {
	runs := slices.ContainsFunc(r.Objects, func(o *unstructured.Unstructured) bool {
		return o.GetKind() == kindDaemonSet && o.GetName() == agentName
	})
	if !runs || force {
		return nil
	}
	r.Settle = purge
	all, err := c.Dependents(ctx)
	if err != nil || len(all) == 0 {
		return err
	}
	if purge {
		others := slices.DeleteFunc(all, func(d Dependent) bool { return d.Member }) // jobs end first
		if len(others) > 0 {
			r.Refusals = append(r.Refusals, fmt.Sprintf("%d pods that no job made cannot end without the agent (%s): delete them first, or give --force", len(others), some(others)))
		}
		return nil
	}
	r.Objects = slices.DeleteFunc(r.Objects, isAgent)
	r.Leaves = append(r.Leaves, fmt.Sprintf("the agent (DaemonSet muster-node), because %d pods cannot end without it (%s): muster uninstall removes it once they have ended; --force removes it now", len(all), some(all)))
	return nil
}

// awaitDependents waits until no pod needs the agent.
func (c *Cluster) awaitDependents(ctx context.Context, say Say) error {
	var left []Dependent
	err := wait.PollUntilContextCancel(ctx, pollEvery, true, func(ctx context.Context) (bool, error) {
		now, err := c.Dependents(ctx)
		if err != nil {
			return false, ignoreEnd(ctx, err)
		}
		if len(now) > 0 && len(left) == 0 {
			say("waiting for %d pods that cannot end without the agent: %s", len(now), some(now))
		}
		left = now
		return len(left) == 0, nil
	})
	if err != nil {
		return fmt.Errorf("waiting until no pod needs the agent: %w: %s are left; try again, or give --force", err, some(left))
	}
	return nil
}

// dropAgent removes the agent's DaemonSet, waits until its pods are gone, and removes the
// slices by which they named GPUs: a kubelet keeps the slices of a driver that is gone.
func (c *Cluster) dropAgent(ctx context.Context, o *unstructured.Unstructured) error {
	if err := c.removeWholly(ctx, o); err != nil {
		return err
	}
	err := c.set.ResourceV1().ResourceSlices().DeleteCollection(ctx, metav1.DeleteOptions{},
		metav1.ListOptions{FieldSelector: resourcev1.ResourceSliceSelectorDriver + "=" + inventory.Driver})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("removing the slices of GPUs that the agent named: %w", err)
	}
	return nil
}
