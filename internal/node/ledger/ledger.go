package ledger

import (
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-dev/muster/internal/node/admission"
	"github.com/muster-dev/muster/internal/node/hostport"
)

// holding is the allocation of one pod.
type holding struct {
	name string
	gpus []string
	// share is the pod's share of its GPU; the zero value stands for whole GPUs.
	share  admission.Share
	ports  []hostport.Port
	ending bool
}

// Ledger keeps the GPUs and ports of each pod on the machine. Its methods are safe for
// concurrent use.
type Ledger struct {
	mu      sync.Mutex
	held    map[types.UID]*holding
	changed chan struct{}
}

// New returns an empty ledger.
func New() *Ledger {
	return &Ledger{held: map[types.UID]*holding{}, changed: make(chan struct{})}
}

// Take calls admit with the allocations of the other pods. If admit returns no refusal,
// Take allocates the pod's GPUs and ports. If an ending pod may be the cause of the
// refusal, retry is a channel that closes at the next release.
func (l *Ledger) Take(pod *corev1.Pod, shared bool, admit func(gpus map[string]admission.Use, ports map[hostport.Port]string) *admission.Refusal) (refusal *admission.Refusal, retry <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	gpus, ports := map[string]admission.Use{}, map[hostport.Port]string{}
	ending := false
	wanted := holdingOf(pod, shared)
	for uid, h := range l.held {
		if uid == pod.UID {
			continue
		}
		for _, g := range h.gpus {
			use := gpus[g]
			use.Add(h.name, h.share)
			gpus[g] = use
		}
		for _, p := range h.ports {
			ports[p] = h.name
		}
		ending = ending || (h.ending && h.overlaps(wanted))
	}
	if refusal = admit(gpus, ports); refusal != nil {
		if ending {
			return refusal, l.changed
		}
		return refusal, nil
	}
	l.held[pod.UID] = wanted
	return nil, nil
}

// Change returns a channel that closes when a pod releases its resources.
func (l *Ledger) Change() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed
}

// overlaps reports whether both hold the same GPU or port.
func (h *holding) overlaps(other *holding) bool {
	for _, g := range h.gpus {
		for _, o := range other.gpus {
			if g == o {
				return true
			}
		}
	}
	for _, p := range h.ports {
		for _, o := range other.ports {
			if p == o {
				return true
			}
		}
	}
	return false
}

// Hold records the allocation of a running pod, without a check.
func (l *Ledger) Hold(pod *corev1.Pod, shared bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held[pod.UID] = holdingOf(pod, shared)
}

// Quarantine records GPUs of an unknown pod, so that no other pod gets them.
func (l *Ledger) Quarantine(uid types.UID, name string, gpus []string, share admission.Share) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held[uid] = &holding{name: "the quarantined pod " + name, gpus: gpus, share: share}
}

// End marks a pod as ending: it will release its allocation soon.
func (l *Ledger) End(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h := l.held[uid]; h != nil {
		h.ending = true
	}
}

// Release frees the GPUs and ports of a pod.
func (l *Ledger) Release(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.held[uid]; ok {
		delete(l.held, uid)
		close(l.changed)
		l.changed = make(chan struct{})
	}
}

// holdingOf returns the allocation that a pod needs. Shared reports whether the pod uses
// the machine's network, and so its ports.
func holdingOf(pod *corev1.Pod, shared bool) *holding {
	h := &holding{name: fmt.Sprintf("pod %s/%s", pod.Namespace, pod.Name), gpus: admission.GPUs(pod), share: admission.ShareOf(pod)}
	if shared {
		h.ports = Ports(pod)
	}
	return h
}

// Ports returns the ports that a pod on the machine's network needs.
func Ports(pod *corev1.Pod) []hostport.Port {
	var ports []hostport.Port
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			for _, p := range list[i].Ports {
				protocol := p.Protocol
				if protocol == "" {
					protocol = corev1.ProtocolTCP
				}
				ports = append(ports, hostport.Port{Protocol: protocol, Number: p.ContainerPort})
			}
		}
	}
	if number := admission.MemberPort(pod); number != 0 {
		ports = append(ports, hostport.Port{Protocol: corev1.ProtocolTCP, Number: number})
	}
	return ports
}
