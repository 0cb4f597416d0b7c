package release

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/device"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/member"
	"github.com/muster-dev/muster/internal/cli/suggestion"
	"github.com/muster-dev/muster/internal/cli/terminal"
	"github.com/muster-dev/muster/internal/snapshot"
)

// held is what a gang holds.
type held struct {
	gang *v1alpha1.Gang
	// placement is its newest; nil if there is none.
	placement *v1alpha1.Placement
	// attempt is the attempt that holds it.
	attempt int32
	// members are the pods that have not ended, in order.
	members []corev1.Pod
	// nodes are those that they are on, by name; one that is gone is missing.
	nodes map[string]*corev1.Node
	// blind is true for a user without the right to read nodes.
	blind bool
}

// look reads the members of a gang and their nodes.
func look(ctx context.Context, reader client.Reader, namespace, name string) (*held, error) {
	h := &held{gang: &v1alpha1.Gang{}, nodes: map[string]*corev1.Node{}}
	err := reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, h.gang)
	if apierrors.IsNotFound(err) {
		return nil, missing(ctx, reader, namespace, name)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the gang of %s: %w", name, err)
	}
	if h.placement, err = h.journal(ctx, reader); err != nil {
		return nil, err
	}
	h.attempt = h.gang.Status.Attempt
	if h.placement != nil {
		h.attempt = max(h.attempt, h.placement.Spec.Attempt)
	}
	if h.members, err = h.alive(ctx, reader); err != nil {
		return nil, err
	}
	nodes, err := snapshot.Nodes(ctx, reader)
	if h.blind = apierrors.IsForbidden(err); err != nil && !h.blind {
		return nil, err
	}
	for i := range nodes {
		h.nodes[nodes[i].Name] = &nodes[i]
	}
	return h, nil
}

// missing is the error for a job that has no gang.
func missing(ctx context.Context, reader client.Reader, namespace, name string) error {
	var gangs v1alpha1.GangList
	if err := reader.List(ctx, &gangs, client.InNamespace(namespace)); err != nil {
		return exit.NotFound("%s holds nothing: there is no gang %[1]s in namespace %s", name, namespace)
	}
	names := make([]string, len(gangs.Items))
	for i := range gangs.Items {
		names[i] = gangs.Items[i].Name
	}
	return exit.NotFound("%s holds nothing: there is no gang %[1]s in namespace %s%s", name, namespace, suggestion.Phrase(name, names))
}

// journal reads the gang's newest placement; nil if there is none.
func (h *held) journal(ctx context.Context, reader client.Reader) (*v1alpha1.Placement, error) {
	var list v1alpha1.PlacementList
	if err := reader.List(ctx, &list, client.InNamespace(h.gang.Namespace), client.MatchingLabels{v1alpha1.LabelGang: h.gang.Name}); err != nil {
		return nil, fmt.Errorf("listing the placements of %s: %w", h.gang.Name, err)
	}
	var newest *v1alpha1.Placement
	for i := range list.Items {
		p := &list.Items[i]
		if p.Spec.GangUID == h.gang.UID && (newest == nil || newest.Spec.Attempt < p.Spec.Attempt) {
			newest = p
		}
	}
	return newest, nil
}

// alive lists the gang's pods that have not ended.
func (h *held) alive(ctx context.Context, reader client.Reader) ([]corev1.Pod, error) {
	var list corev1.PodList
	if err := reader.List(ctx, &list, client.InNamespace(h.gang.Namespace), client.MatchingLabels{v1alpha1.LabelGang: h.gang.Name}); err != nil {
		return nil, fmt.Errorf("listing the members of %s: %w", h.gang.Name, err)
	}
	pods := slices.DeleteFunc(list.Items, func(p corev1.Pod) bool {
		owner := metav1.GetControllerOfNoCopy(&p)
		return owner == nil || owner.UID != h.gang.UID || !device.Holds(&p)
	})
	slices.SortFunc(pods, func(a, b corev1.Pod) int {
		left, _ := member.OfPod(&a)
		right, _ := member.OfPod(&b)
		return member.Compare(left, right)
	})
	return pods, nil
}

// gpus is how many GPUs are held.
func (h *held) gpus() int {
	sum := 0
	for i := range h.members {
		sum += len(device.Of(&h.members[i]))
	}
	if h.placement != nil && len(h.members) == 0 {
		for m := range h.placement.Spec.Each() {
			sum += len(m.GPUs)
		}
	}
	return sum
}

// trouble says what is wrong with a node; "" for one that answers.
func (h *held) trouble(name string) string {
	node := h.nodes[name]
	if h.blind {
		return "you may not see whether its node answers"
	}
	if node == nil {
		return "node is gone"
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
			return "node does not answer"
		}
	}
	return ""
}

// devices are a pod's GPUs by index and model, where their node tells.
func (h *held) devices(pod *corev1.Pod) string {
	known := map[string]v1alpha1.GPUDevice{}
	if node := h.nodes[pod.Spec.NodeName]; node != nil {
		inventory, _ := device.Inventory(node)
		for _, gpu := range inventory.GPUs {
			known[gpu.UUID] = gpu
		}
	}
	if words := device.Counted(device.Of(pod)); words != "" {
		return words
	}
	var names []string
	for _, uuid := range device.Of(pod) {
		name := uuid
		if gpu, ok := known[uuid]; ok {
			name = fmt.Sprintf("%d (%s)", gpu.Index, gpu.Model)
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}

// tell says what is held and may run on.
func (h *held) tell(streams terminal.Streams) error {
	if len(h.members) == 0 {
		_, err := fmt.Fprintf(streams.Err, "%s has no member left that runs, and still holds its place.\n", h.gang.Name)
		return err
	}
	if _, err := fmt.Fprintf(streams.Err, "These members of %s are not waited for; what they hold is given to others:\n\n", h.gang.Name); err != nil {
		return err
	}
	table := terminal.NewTable("MEMBER", "NODE", "GPUS", "STATE")
	for i := range h.members {
		pod := &h.members[i]
		m, _ := member.OfPod(pod)
		state := strings.ToLower(string(pod.Status.Phase))
		if at := pod.DeletionTimestamp; at != nil {
			state = "told to end"
			if ago := time.Since(at.Time).Truncate(time.Second); ago > 0 {
				state += ", overdue for " + terminal.Span(ago)
			}
		}
		if trouble := h.trouble(pod.Spec.NodeName); trouble != "" {
			state += "; " + trouble
		}
		table.Row(m.String(), pod.Spec.NodeName, h.devices(pod), state)
	}
	if err := table.Write(streams.Err, streams.ErrStyle(), "  "); err != nil {
		return err
	}
	_, err := fmt.Fprintln(streams.Err)
	return err
}

// remind names the processes that nobody could stop.
func (h *held) remind(streams terminal.Streams) {
	for i := range h.members {
		pod := &h.members[i]
		if trouble := h.trouble(pod.Spec.NodeName); trouble != "" {
			m, _ := member.OfPod(pod)
			gpus := ""
			if names := h.devices(pod); names != "" {
				gpus = ", on GPU " + names
			}
			_, _ = fmt.Fprintf(streams.Err, "%s %s may still run on %s%s (%s): make sure that it is gone before the node is used again\n",
				streams.ErrStyle().Paint(terminal.Yellow, "warning:"), m, pod.Spec.NodeName, gpus, trouble)
		}
	}
}

// left says what of the attempt is still there; "" once nothing is. A gang
// that is gone has let everything go.
func (h *held) left(ctx context.Context, reader client.Reader) (string, error) {
	placement, err := h.journal(ctx, reader)
	if err != nil {
		return "", err
	}
	if placement == nil || placement.Spec.Attempt > h.attempt {
		return "", nil
	}
	pods, err := h.alive(ctx, reader)
	if err != nil {
		return "", err
	}
	for i := range pods {
		if finalizers := pods[i].Finalizers; len(finalizers) > 0 {
			return fmt.Sprintf("pod %s is kept by %s, which is not Muster's", pods[i].Name, strings.Join(finalizers, ", ")), nil
		}
	}
	if len(pods) > 0 {
		return terminal.Count(int64(len(pods)), "pod") + " left", nil
	}
	return "its place is still held", nil
}
