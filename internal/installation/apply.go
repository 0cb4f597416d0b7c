package installation

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// Say tells what is being done, one sentence at a time.
type Say func(format string, args ...any)

const (
	// pollEvery is how often the server is asked for what nothing tells.
	pollEvery = 250 * time.Millisecond
	// servedWithin bounds how long the server takes to serve a new kind.
	servedWithin = time.Minute
)

// Apply carries out a plan, in order, by server-side apply. It refuses a plan
// with refusals. Done twice it is as done once.
func (c *Cluster) Apply(ctx context.Context, p Plan, say Say) error {
	if len(p.Refusals) > 0 {
		return &Refusal{p.Refusals}
	}
	var kinds []*unstructured.Unstructured
	for _, s := range p.Steps {
		if s.Note != "" {
			say("%s: %s", Title(s.Object), s.Note)
		}
		var err error
		switch s.Action {
		case Create, Update, Same:
			err = c.apply(ctx, s.Object, say)
		case Remove:
			err = c.drop(ctx, s.Object)
		case Keep:
		}
		if err != nil {
			return err
		}
		if s.Object.GetKind() == kindCRD {
			kinds = append(kinds, s.Object)
		}
		if s.Object.GetKind() != kindCRD && len(kinds) > 0 {
			if err := c.awaitServed(ctx, kinds); err != nil {
				return err
			}
			kinds = nil
		}
	}
	if err := c.awaitServed(ctx, kinds); err != nil {
		return err
	}
	return c.awaitAdmitted(ctx)
}

// unready is how a server answers that has policies about a kind and has not
// noticed the kind itself yet, for up to half a minute.
const unready = "There can be a delay between when CustomResourceDefinitions are created"

// awaitAdmitted waits until jobs can be submitted: nothing is created.
func (c *Cluster) awaitAdmitted(ctx context.Context) error {
	job := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": "probe"},
		"spec":     map[string]any{"roles": []any{map[string]any{"name": "worker", "command": []any{"true"}}}},
	}}
	job.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("TrainingJob"))
	at := c.objects.Resource(v1alpha1.GroupVersion.WithResource("trainingjobs")).Namespace(v1alpha1.SystemNamespace)
	err := wait.PollUntilContextTimeout(ctx, pollEvery, servedWithin, true, func(ctx context.Context) (bool, error) {
		_, err := at.Create(ctx, job.DeepCopy(), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err == nil || !strings.Contains(err.Error(), unready), nil // any other answer is about the job
	})
	if err != nil {
		return fmt.Errorf("waiting until the server admits jobs: %w", err)
	}
	return nil
}

// apply makes one object as it is written. What others set of it is theirs
// until it is in the way: then it is overwritten, and said.
func (c *Cluster) apply(ctx context.Context, o *unstructured.Unstructured, say Say) error {
	deadline := time.Now().Add(servedWithin)
	options := metav1.ApplyOptions{FieldManager: FieldOwner}
	for {
		_, err := c.at(o).Apply(ctx, o.GetName(), o, options)
		switch {
		case err == nil:
			return nil
		case apierrors.IsConflict(err) && !options.Force:
			say("%s: what others set is overwritten: %s", Title(o), firstLine(err.Error()))
			options.Force = true
		// A kind that was just made is served a moment later.
		case apierrors.IsNotFound(err) && time.Now().Before(deadline):
			if err := pause(ctx); err != nil {
				return err
			}
		default:
			return fmt.Errorf("applying %s: %w", Title(o), err)
		}
	}
}

func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(pollEvery):
		return nil
	}
}

// awaitServed waits until the server serves new kinds, and tells clients so.
func (c *Cluster) awaitServed(ctx context.Context, crds []*unstructured.Unstructured) error {
	for _, crd := range crds {
		err := wait.PollUntilContextTimeout(ctx, pollEvery, servedWithin, true, func(ctx context.Context) (bool, error) {
			there, err := c.get(ctx, crd)
			return err == nil && there != nil && established(there) && c.told(there), nil
		})
		if err != nil {
			return fmt.Errorf("waiting until the server serves %s: %w", crd.GetName(), err)
		}
	}
	return nil
}

// told reports whether the server lists a CRD's kind in every version that it
// serves, in the list of all kinds, which clients read and which lags behind
// those of single groups.
func (c *Cluster) told(crd *unstructured.Unstructured) bool {
	group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
	plural, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "plural")
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	_, all, err := c.set.Discovery().ServerGroupsAndResources()
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) { // of somebody else's group
		return false
	}
	for _, v := range versions {
		version, ok := v.(map[string]any)
		if served, _ := version["served"].(bool); !ok || !served {
			continue
		}
		name, _ := version["name"].(string)
		listed := slices.ContainsFunc(all, func(list *metav1.APIResourceList) bool {
			return list.GroupVersion == group+"/"+name && slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == plural })
		})
		if !listed {
			return false
		}
	}
	return true
}

// prunable are the kinds of which what is ours goes once it is no longer
// rendered. Kinds and queues are never among them.
var prunable = []schema.GroupVersionKind{
	{Group: "apps", Version: "v1", Kind: kindDeployment},
	{Group: "apps", Version: "v1", Kind: kindDaemonSet},
	{Group: "resource.k8s.io", Version: "v1", Kind: "DeviceClass"},
	{Group: "storage.k8s.io", Version: "v1", Kind: "CSIDriver"},
	{Group: "policy", Version: "v1", Kind: "PodDisruptionBudget"},
	{Group: "scheduling.k8s.io", Version: "v1", Kind: "PriorityClass"},
	{Group: "flowcontrol.apiserver.k8s.io", Version: "v1", Kind: "FlowSchema"},
	{Group: "flowcontrol.apiserver.k8s.io", Version: "v1", Kind: "PriorityLevelConfiguration"},
	{Group: "networking.k8s.io", Version: "v1", Kind: "NetworkPolicy"},
	{Version: "v1", Kind: "Service"},
	{Version: "v1", Kind: "ServiceAccount"},
	{Version: "v1", Kind: "ConfigMap"},
	{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingAdmissionPolicyBinding"},
	{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingAdmissionPolicy"},
	{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "MutatingAdmissionPolicyBinding"},
	{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "MutatingAdmissionPolicy"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "RoleBinding"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "Role"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRoleBinding"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"},
}

// ours lists what is ours on the cluster, in the order in which it is removed.
func (c *Cluster) ours(ctx context.Context) ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	for _, kind := range prunable {
		list, err := c.objects.Resource(resourceOf(kind)).List(ctx, metav1.ListOptions{
			LabelSelector: labelPartOf + "=muster," + labelManagedBy + "=" + manager,
		})
		if apierrors.IsNotFound(err) {
			continue // this server has no such kind
		}
		if err != nil {
			return nil, fmt.Errorf("listing what is Muster's of kind %s: %w", kind.Kind, err)
		}
		for i := range list.Items {
			list.Items[i].SetGroupVersionKind(kind)
			out = append(out, &list.Items[i])
		}
	}
	return out, nil
}

// planRemovals adds what is ours and no longer rendered.
func (c *Cluster) planRemovals(ctx context.Context, p *Plan) error {
	there, err := c.ours(ctx)
	if err != nil {
		return err
	}
	for _, o := range there {
		wanted := slices.ContainsFunc(p.Steps, func(s Step) bool {
			return s.Object.GetKind() == o.GetKind() && s.Object.GetName() == o.GetName() && s.Object.GetNamespace() == o.GetNamespace()
		})
		if !wanted {
			p.Steps = append(p.Steps, Step{Action: Remove, Object: o, Was: o.GetLabels()[labelVersion]})
		}
	}
	return nil
}

// drop removes the objects of an installation, and their dependents.
func (c *Cluster) drop(ctx context.Context, o *unstructured.Unstructured) error {
	if o.GetKind() == kindDaemonSet && o.GetName() == agentName {
		return c.dropAgent(ctx, o)
	}
	return c.remove(ctx, o)
}

// remove deletes the very object that was seen.
func (c *Cluster) remove(ctx context.Context, o *unstructured.Unstructured) error {
	uid := o.GetUID()
	foreground := metav1.DeletePropagationForeground
	err := c.at(o).Delete(ctx, o.GetName(), metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &uid}, PropagationPolicy: &foreground,
	})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("removing %s: %w", Title(o), err)
	}
	return nil
}
