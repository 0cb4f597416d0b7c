package device

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/allocation"
	"github.com/muster-dev/muster/internal/cli/member"
	"github.com/muster-dev/muster/internal/cli/terminal"
	"github.com/muster-dev/muster/internal/visibility"
)

// Holder is the pod that holds a GPU.
type Holder struct {
	Namespace string `json:"namespace"`
	// Job and Member are empty for a pod that is no member of a job.
	Job    string `json:"job,omitempty"`
	Member string `json:"member,omitempty"`
	Pod    string `json:"pod"`
	// Claim is the claim that holds the GPU, if Muster did not make the claim. Pod is then the claim's
	// pod, if it has exactly one.
	Claim string    `json:"claim,omitempty"`
	Since time.Time `json:"since"`
	// Share is how much it has of the GPU; absent: all of it.
	Share *v1alpha1.GPUShare `json:"share,omitempty"`
	// Done is how far the pod says that it is: "42%"; empty if it does not.
	Done string `json:"done,omitempty"`
	// User is the login of whose pod it is, on a machine of several users.
	User string `json:"user,omitempty"`
	// Queue is the queue of its job, where users are shown.
	Queue string `json:"queue,omitempty"`
}

// noPod is the pod of a holder whose name is not shown.
const noPod = "pod"

// Seen returns a holder with the names that a caller sees.
func (h Holder) Seen(rule visibility.Rule, logins visibility.Logins) Holder {
	login, isUser := logins.OfNamespace(h.Namespace)
	switch {
	case rule.Sees(h.Namespace):
		if isUser {
			h.User = login
		}
		return h
	case rule.ShowUsers:
		return Holder{Namespace: visibility.Others, Pod: noPod, User: rule.Person(h.Namespace, logins), Queue: h.Queue, Since: h.Since, Share: h.Share}
	}
	return Holder{Namespace: visibility.Others, Pod: noPod, Since: h.Since, Share: h.Share}
}

// ShareText is how much of a GPU the holder has: "250m, 20 GiB"; empty for all
// of it.
func (h Holder) ShareText() string {
	switch {
	case h.Share == nil:
		return ""
	case h.Share.MemoryMiB == 0:
		return fmt.Sprintf("%dm", h.Share.Milli)
	}
	return fmt.Sprintf("%dm, %s", h.Share.Milli, terminal.Size64(h.Share.MemoryMiB<<20))
}

// Asked is what each member of a role asks for of GPUs: "2", "250m", "8Gi of
// memory", "250m with 8Gi of memory", "0".
func Asked(role *v1alpha1.Role) string {
	switch {
	case role.GPUMemory != nil && role.GPUs != nil && role.GPUs.Sign() > 0:
		return role.GPUs.String() + " with " + role.GPUMemory.String() + " of memory"
	case role.GPUMemory != nil:
		return role.GPUMemory.String() + " of memory"
	case role.GPUs != nil:
		return role.GPUs.String()
	case role.Template != nil:
		return inTemplate(&role.Template.Spec)
	}
	return "0"
}

// inTemplate is the number of GPUs that the containers of a template ask for.
func inTemplate(pod *corev1.PodSpec) string {
	var sum resource.Quantity
	for i := range pod.Containers {
		for name, amount := range pod.Containers[i].Resources.Limits {
			if strings.HasSuffix(string(name), "/gpu") {
				sum.Add(amount)
			}
		}
	}
	return sum.String()
}

// Shares reports that the members of a role ask for a part of a GPU.
func Shares(role *v1alpha1.Role) bool {
	return role.GPUMemory != nil || role.GPUs != nil && role.GPUs.Sign() > 0 && role.GPUs.MilliValue() < 1000
}

// ShareOf is how much of its GPU a pod was given; nil: its GPUs are wholly its
// own.
func ShareOf(pod *corev1.Pod) *v1alpha1.GPUShare {
	var share v1alpha1.GPUShare
	text := pod.Annotations[v1alpha1.AnnotationGPUShare]
	if text == "" || json.Unmarshal([]byte(text), &share) != nil {
		return nil
	}
	return &share
}

// String is "vision/mnist worker-0", or the pod's namespace and name. On a machine of several
// users the login stands for the namespace; it is alone if the job is not shown.
func (h Holder) String() string {
	whose := cmp.Or(h.User, h.Namespace)
	switch {
	case h.User != "" && h.Namespace == visibility.Others:
		return h.User
	case h.Job != "":
		return whose + "/" + h.Job + " " + h.Member
	case h.Claim != "":
		return "claim " + whose + "/" + h.Claim + ", not Muster's"
	}
	return whose + "/" + h.Pod
}

// HolderOf describes a pod as the holder of its GPUs.
func HolderOf(pod *corev1.Pod) Holder {
	holder := Holder{Namespace: pod.Namespace, Pod: pod.Name, Since: pod.CreationTimestamp.Time, Share: ShareOf(pod)}
	if pod.Status.StartTime != nil {
		holder.Since = pod.Status.StartTime.Time
	}
	if m, ok := member.OfPod(pod); ok {
		holder.Job, holder.Member = pod.Labels[v1alpha1.LabelJob], m.String()
	}
	if p, ok := Progress(pod); ok && p.DoneMillionths != nil {
		holder.Done = fmt.Sprintf("%d%%", *p.DoneMillionths*100/v1alpha1.Whole)
	}
	return holder
}

// HolderBy describes a claim of others as the holder of a GPU.
func HolderBy(h *allocation.Holding) Holder {
	out := Holder{Namespace: h.Claim.Namespace, Pod: h.Pod, Claim: h.Claim.Name, Since: h.Since}
	if !h.Whole() {
		out.Share = &v1alpha1.GPUShare{Milli: int32(h.Milli), MemoryMiB: h.MemoryMiB}
	}
	return out
}

// SeenOn hides what a caller does not see of a node: the processes on its GPUs, and those that
// the node found and knows nothing of. The lists of processes are replaced, and quarantined is
// changed.
func SeenOn(rule visibility.Rule, quarantined []string, gpus ...*v1alpha1.GPUDevice) {
	for _, g := range gpus {
		g.Foreign = slices.Clone(g.Foreign)
		for i := range g.Foreign {
			p := &g.Foreign[i]
			p.User, p.Command = rule.Process(p.User, p.Command)
		}
	}
	for i := range quarantined {
		if !rule.Administrator {
			quarantined[i] = "a process"
		}
	}
}

// Progress is what a pod's node says of how far the pod is; false if it says
// nothing.
func Progress(pod *corev1.Pod) (v1alpha1.PodProgress, bool) {
	var p v1alpha1.PodProgress
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == v1alpha1.ConditionPodProgress && json.Unmarshal([]byte(c.Message), &p) == nil {
			return p, true
		}
	}
	return v1alpha1.PodProgress{}, false
}

// Of lists the UUIDs of the GPUs that a pod was given.
func Of(pod *corev1.Pod) []string {
	list := pod.Annotations[v1alpha1.AnnotationGPUs]
	if list == "" {
		return nil
	}
	return strings.Split(list, ",")
}

// Counted says in words what a pod has of a node that only counts its GPUs: how
// many, and that the kubelet picked which; empty for GPUs that have names.
func Counted(uuids []string) string {
	if len(uuids) == 0 || !strings.HasPrefix(uuids[0], v1alpha1.CountedGPU) {
		return ""
	}
	return fmt.Sprintf("%d (the kubelet picks which)", len(uuids))
}

// Holds reports whether a pod is on a node and has not ended: until then it
// holds what it was given.
func Holds(pod *corev1.Pod) bool {
	return pod.Spec.NodeName != "" && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}

// Inventory reads what a node tells of its GPUs. told is false for one that
// tells nothing, or nonsense: it is not known to have none.
func Inventory(node *corev1.Node) (inventory v1alpha1.NodeInventory, told bool) {
	if json.Unmarshal([]byte(node.Annotations[v1alpha1.AnnotationInventory]), &inventory) != nil {
		return v1alpha1.NodeInventory{}, false
	}
	return inventory, true
}

// Gone is a GPU that a pod holds and that its node no longer has: a GPU that
// failed or was taken out, or one that is no longer declared.
type Gone struct {
	// UUID identifies the GPU.
	UUID string `json:"uuid"`
	// Holder is the pod that was given it.
	Holder Holder `json:"holder"`
}

// GoneFrom lists the GPUs of a node's pods that the node does not have,
// ordered by holder; none for a node that tells nothing of its GPUs.
func GoneFrom(node *corev1.Node, pods []corev1.Pod) []Gone {
	inventory, told := Inventory(node)
	if !told {
		return nil
	}
	has := map[string]bool{}
	for _, device := range inventory.GPUs {
		has[device.UUID] = true
	}
	var gone []Gone
	for i := range pods {
		pod := &pods[i]
		if pod.Spec.NodeName != node.Name || !Holds(pod) {
			continue
		}
		for _, uuid := range Of(pod) {
			if !has[uuid] {
				gone = append(gone, Gone{UUID: uuid, Holder: HolderOf(pod)})
			}
		}
	}
	slices.SortFunc(gone, func(a, b Gone) int {
		return cmp.Or(cmp.Compare(a.Holder.String(), b.Holder.String()), cmp.Compare(a.UUID, b.UUID))
	})
	return gone
}

// Words says which GPUs are gone and who holds them, a sentence a holder:
// "3 GPUs that vision/mnist worker-0 holds are no longer there (GPU-1, ...)".
func Words(gone []Gone) []string {
	var sentences []string
	for start := 0; start < len(gone); {
		holder, end := gone[start].Holder.String(), start
		var uuids []string
		for end < len(gone) && gone[end].Holder.String() == holder {
			uuids = append(uuids, gone[end].UUID)
			end++
		}
		verb := "are"
		if len(uuids) == 1 {
			verb = "is"
		}
		sentences = append(sentences, fmt.Sprintf("%s that %s holds %s no longer there (%s)",
			terminal.Count(int64(len(uuids)), "GPU"), holder, verb, strings.Join(uuids, ", ")))
		start = end
	}
	return sentences
}
