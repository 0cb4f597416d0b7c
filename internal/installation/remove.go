package installation

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// Removal is what an uninstallation would do.
type Removal struct {
	// Objects are removed, in this order.
	Objects []*unstructured.Unstructured
	// Kinds are the CRDs that are removed with every object of theirs, when
	// everything is; none otherwise.
	Kinds []*unstructured.Unstructured
	// Namespace is removed last, when everything is; nil if it stays.
	Namespace *unstructured.Unstructured
	// Jobs and Queues are how many there are.
	Jobs, Queues int
	// Live are the pods of jobs that are not ended.
	Live int
	// Settle keeps the agent until no pod needs it.
	Settle bool
	// Leaves says what stays, a sentence each.
	Leaves []string
	// Refusals are the reasons why nothing is done.
	Refusals []string
}

// Empty reports that nothing of Muster's is there to be removed.
func (r Removal) Empty() bool {
	return len(r.Objects) == 0 && len(r.Kinds) == 0 && r.Namespace == nil
}

// Survey plans an uninstallation: with purge of kinds, jobs, queues and the namespace, too; with
// force of the agent although pods cannot end without it. It writes nothing.
func (c *Cluster) Survey(ctx context.Context, purge, force bool) (Removal, error) {
	var r Removal
	// 1. What is ours.
	rendered, err := Render(Rendering{Version: "any"})
	if err != nil {
		return r, err
	}
	verbs := append([]string{"list"}, toRemove...)
	missing, err := c.missing(ctx, needed(rendered, verbs))
	if err != nil {
		return r, err
	}
	if len(missing) > 0 {
		r.Refusals = append(r.Refusals, noRights("remove", missing))
		return r, nil
	}
	if r.Objects, err = c.ours(ctx); err != nil {
		return r, err
	}
	if err := c.surveyAgent(ctx, &r, purge, force); err != nil {
		return r, err
	}
	// 2. Kinds, and what there is of them.
	if err := c.surveyKinds(ctx, &r, purge); err != nil {
		return r, err
	}
	// 3. The namespace, with the scheduler's epoch.
	namespace, err := c.get(ctx, namespaceObject())
	if err != nil {
		return r, err
	}
	switch {
	case namespace == nil:
	case !purge:
		r.Leaves = append(r.Leaves, fmt.Sprintf("namespace %s, with the scheduler's epoch and the values of the last installation: a later installation goes on from them", v1alpha1.SystemNamespace))
	case ownerOf(namespace) == Ours:
		r.Namespace = namespace
	default:
		r.Leaves = append(r.Leaves, fmt.Sprintf("namespace %s, which somebody else made", v1alpha1.SystemNamespace))
		if err := c.surveyValues(ctx, &r); err != nil {
			return r, err
		}
	}
	if err := c.surveyUsers(ctx, &r); err != nil {
		return r, err
	}
	return r, c.surveyNodes(ctx, &r)
}

// surveyValues adds the values of the last installation, in a namespace that stays.
func (c *Cluster) surveyValues(ctx context.Context, r *Removal) error {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	o.SetNamespace(v1alpha1.SystemNamespace)
	o.SetName(valuesName)
	there, err := c.get(ctx, o)
	if err != nil {
		return err
	}
	if ownerOf(there) == Ours {
		r.Objects = append(r.Objects, there)
	}
	return nil
}

// surveyUsers looks for the users, who stay with their rights.
func (c *Cluster) surveyUsers(ctx context.Context, r *Removal) error {
	list, err := c.set.CoreV1().Namespaces().List(ctx, metav1.ListOptions{LabelSelector: v1alpha1.LabelUser})
	if err != nil {
		return fmt.Errorf("listing the users' namespaces: %w", err)
	}
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	if len(names) > 0 {
		r.Leaves = append(r.Leaves, fmt.Sprintf("%d users (%s), each with a namespace, role bindings and a ClusterRoleBinding muster-names-NAME: muster user remove NAME removes these", len(names), shortList(names)))
	}
	return nil
}

func namespaceObject() *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	o.SetName(v1alpha1.SystemNamespace)
	return o
}

// surveyKinds looks at the CRDs of Muster's group and those that are marked as
// Muster's.
func (c *Cluster) surveyKinds(ctx context.Context, r *Removal, purge bool) error {
	list, err := c.objects.Resource(crdResource).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing the kinds: %w", err)
	}
	var kept []string
	for i := range list.Items {
		crd := &list.Items[i]
		group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
		switch owner := ownerOf(crd); {
		case owner == Embedded:
			r.Refusals = []string{"this is an embedded Muster (muster up): muster down stops it, and removing its data folder removes it"}
			return nil
		case owner == Ours && purge:
			r.Kinds = append(r.Kinds, crd)
		case owner == Ours || owner == Helm && group == v1alpha1.GroupVersion.Group:
			kept = append(kept, crd.GetName())
		case owner == Foreign && group == v1alpha1.GroupVersion.Group:
			kept = append(kept, crd.GetName()+" (not made by muster install)")
		}
	}
	if r.Jobs, err = c.count(ctx, "trainingjobs"); err != nil {
		return err
	}
	if r.Queues, err = c.count(ctx, "queues"); err != nil {
		return err
	}
	pods, err := c.set.CoreV1().Pods("").List(ctx, metav1.ListOptions{LabelSelector: v1alpha1.LabelGang})
	if err != nil {
		return fmt.Errorf("listing the members of jobs: %w", err)
	}
	for i := range pods.Items {
		if p := pods.Items[i].Status.Phase; p != corev1.PodSucceeded && p != corev1.PodFailed {
			r.Live++
		}
	}
	if len(kept) > 0 {
		r.Leaves = append(r.Leaves, "kinds, with every object of theirs: "+strings.Join(kept, ", "))
	}
	if !purge && r.Jobs+r.Queues > 0 {
		r.Leaves = append(r.Leaves, fmt.Sprintf("%d jobs and %d queues; of jobs that run, %d pods go on", r.Jobs, r.Queues, r.Live))
	}
	return nil
}

// count counts the objects of one of Muster's kinds; none if there is no such
// kind.
func (c *Cluster) count(ctx context.Context, resource string) (int, error) {
	items, err := c.all(ctx, resource)
	return len(items), err
}

func (c *Cluster) all(ctx context.Context, resource string) ([]unstructured.Unstructured, error) {
	list, err := c.objects.Resource(v1alpha1.GroupVersion.WithResource(resource)).List(ctx, metav1.ListOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", resource, err)
	}
	return list.Items, nil
}

// surveyNodes looks for nodes that stay marked.
func (c *Cluster) surveyNodes(ctx context.Context, r *Removal) error {
	nodes, err := c.set.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: LabelOwned})
	if err != nil {
		return fmt.Errorf("listing the nodes that Muster owns: %w", err)
	}
	var names []string
	for i := range nodes.Items {
		names = append(names, nodes.Items[i].Name)
	}
	if len(names) > 0 {
		r.Leaves = append(r.Leaves, fmt.Sprintf("the mark %s on %d nodes (%s), which keeps other pods off them: muster node remove takes it away", LabelOwned, len(names), shortList(names)))
	}
	return nil
}

// LabelOwned marks, as a label with the value "true" and as a taint, the nodes
// whose GPUs Muster alone gives out.
const LabelOwned = "muster.dev/owned"

// Remove carries out a removal. Jobs go first, while somebody is there to stop
// them in good order; the context bounds how long that is waited for.
func (c *Cluster) Remove(ctx context.Context, r Removal, say Say) error {
	if len(r.Refusals) > 0 {
		return &Refusal{r.Refusals}
	}
	if len(r.Kinds) > 0 {
		if err := c.endJobs(ctx, say); err != nil {
			return err
		}
	}
	if r.Settle {
		if err := c.awaitDependents(ctx, say); err != nil {
			return err
		}
	}
	for _, o := range r.Objects {
		if err := c.drop(ctx, o); err != nil {
			return err
		}
		say("removed %s", Title(o))
	}
	if err := c.clear(ctx); err != nil {
		return err
	}
	for _, o := range r.Kinds {
		if err := c.removeKind(ctx, o); err != nil {
			return err
		}
		say("removed kind %s", o.GetName())
	}
	if r.Namespace != nil {
		if err := c.removeWholly(ctx, r.Namespace); err != nil {
			return err
		}
		say("removed %s", Title(r.Namespace))
	}
	return nil
}

// clear removes what the manager made beside jobs and would be in the way without
// it: budgets that keep members from being evicted, and pods that ask for nodes.
// It comes after the manager's rights are gone, so that it makes none again.
func (c *Cluster) clear(ctx context.Context) error {
	budgets, err := c.set.PolicyV1().PodDisruptionBudgets("").List(ctx, metav1.ListOptions{LabelSelector: v1alpha1.LabelGuarded})
	if err != nil {
		return fmt.Errorf("listing the disruption budgets of jobs: %w", err)
	}
	for i := range budgets.Items {
		b := &budgets.Items[i]
		if err := c.set.PolicyV1().PodDisruptionBudgets(b.Namespace).Delete(ctx, b.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("removing the disruption budget %s/%s: %w", b.Namespace, b.Name, err)
		}
	}
	err = c.set.CoreV1().Pods(v1alpha1.SystemNamespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: v1alpha1.LabelPlaceholder})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("removing the pods that ask for nodes: %w", err)
	}
	err = c.set.ResourceV1().ResourceClaimTemplates(v1alpha1.SystemNamespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: v1alpha1.LabelPlaceholder})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("removing what pods asked for nodes by: %w", err)
	}
	return nil
}

// endJobs deletes every job and waits until nothing is placed any more. What
// nobody lets go of, because no manager runs, is let go of here, once no pod of
// it is left.
func (c *Cluster) endJobs(ctx context.Context, say Say) error {
	for _, resource := range []string{"trainingjobs", "gangs"} {
		items, err := c.all(ctx, resource)
		if err != nil {
			return err
		}
		for i := range items {
			at := c.objects.Resource(v1alpha1.GroupVersion.WithResource(resource)).Namespace(items[i].GetNamespace())
			if err := at.Delete(ctx, items[i].GetName(), metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
				return fmt.Errorf("deleting %s %s/%s: %w", resource, items[i].GetNamespace(), items[i].GetName(), err)
			}
		}
		if len(items) > 0 {
			say("deleted %d %s", len(items), resource)
		}
	}
	m, err := c.Manager(ctx)
	if err != nil {
		return err
	}
	if m.Available == 0 {
		return c.letGo(ctx, say)
	}
	err = wait.PollUntilContextCancel(ctx, pollEvery, true, func(ctx context.Context) (bool, error) {
		left, err := c.count(ctx, "gangs")
		return left == 0, ignoreEnd(ctx, err)
	})
	if err != nil {
		return fmt.Errorf("waiting until the manager has stopped every job: %w: what is left is listed by kubectl get gangs,pods -A -l %s; try again, or scale the manager to 0 first", err, v1alpha1.LabelGang)
	}
	return nil
}

// letGo takes Muster's finalizers from gangs and placements of which no pod is
// left, in the manager's place.
func (c *Cluster) letGo(ctx context.Context, say Say) error {
	pods, err := c.set.CoreV1().Pods("").List(ctx, metav1.ListOptions{LabelSelector: v1alpha1.LabelGang})
	if err != nil {
		return fmt.Errorf("listing the members of jobs: %w", err)
	}
	if n := len(pods.Items); n > 0 {
		uid := pods.Items[0].UID
		for i := range pods.Items {
			p := &pods.Items[i]
			uid = p.UID
			err := c.set.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
			if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
				return fmt.Errorf("deleting pod %s/%s: %w", p.Namespace, p.Name, err)
			}
		}
		say("no manager runs: deleted %d pods of jobs in its place, and wait until their nodes have ended them", n)
	}
	err = wait.PollUntilContextCancel(ctx, pollEvery, true, func(ctx context.Context) (bool, error) {
		pods, err := c.set.CoreV1().Pods("").List(ctx, metav1.ListOptions{LabelSelector: v1alpha1.LabelGang, Limit: 1})
		return err == nil && len(pods.Items) == 0, ignoreEnd(ctx, err)
	})
	if err != nil {
		return fmt.Errorf("waiting until the pods of jobs have ended: %w", err)
	}
	for _, resource := range []string{"placements", "gangs"} {
		items, err := c.all(ctx, resource)
		if err != nil {
			return err
		}
		for i := range items {
			at := c.objects.Resource(v1alpha1.GroupVersion.WithResource(resource)).Namespace(items[i].GetNamespace())
			patch := []byte(`{"metadata":{"finalizers":null}}`)
			if _, err := at.Patch(ctx, items[i].GetName(), types.MergePatchType, patch, metav1.PatchOptions{}); err != nil && !apierrors.IsNotFound(err) {
				return fmt.Errorf("letting go of %s %s/%s: %w", resource, items[i].GetNamespace(), items[i].GetName(), err)
			}
		}
	}
	return nil
}

// removeKind deletes a CRD and every object of its kind.
func (c *Cluster) removeKind(ctx context.Context, crd *unstructured.Unstructured) error {
	crd.SetGroupVersionKind(schema.GroupVersionKind{Group: crdResource.Group, Version: crdResource.Version, Kind: kindCRD})
	return c.removeWholly(ctx, crd)
}

// removeWholly deletes what holds others, and waits until it is gone with them.
func (c *Cluster) removeWholly(ctx context.Context, o *unstructured.Unstructured) error {
	if err := c.remove(ctx, o); err != nil {
		return err
	}
	err := wait.PollUntilContextCancel(ctx, pollEvery, true, func(ctx context.Context) (bool, error) {
		there, err := c.get(ctx, o)
		return err == nil && there == nil, ignoreEnd(ctx, err)
	})
	if err != nil {
		return fmt.Errorf("waiting until %s is gone: %w: an object in it may be held by somebody's finalizer", Title(o), err)
	}
	return nil
}
