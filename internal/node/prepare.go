package node

import (
	"context"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-dev/muster/internal/node/admission"
	"github.com/muster-dev/muster/internal/node/hostport"
	"github.com/muster-dev/muster/internal/node/image"
	"github.com/muster-dev/muster/internal/node/ledger"
	"github.com/muster-dev/muster/internal/node/network"
	"github.com/muster-dev/muster/internal/node/podrecord"
	"github.com/muster-dev/muster/internal/node/volume"
)

// place is what a pod has on this machine before its containers start.
type place struct {
	volumes map[string]volume.Volume
	ip      string
	netNS   string
}

const (
	// refreshEvery is how often volumes are brought up to date.
	refreshEvery = time.Minute
	// retryEvery is how long to wait for an event that says that something
	// missing may be there now.
	retryEvery = 2 * time.Second
	// patience is how long a pod waits for a GPU or port that another pod is
	// just giving back.
	patience = 30 * time.Second
)

// shared is true for a pod that uses the machine's network.
func (n *Node) shared(pod *corev1.Pod) bool {
	return n.config.Tier == Plain || pod.Spec.HostNetwork
}

// prepareOrRefresh starts the task that prepares the pod, or the one that
// brings its volumes up to date.
func (w *worker) prepareOrRefresh(now time.Time) {
	if !w.mayPrepare() {
		return
	}
	fetch := w.place != nil && w.images == nil
	if w.place != nil && !fetch && (w.refreshAt.IsZero() || now.Before(w.refreshAt)) || now.Before(w.lookDue()) {
		return
	}
	ctx, cancel := context.WithCancel(w.ctx)
	w.preparing = cancel
	pod, known, adopted := w.podNow(), w.place, w.adopted
	fresh := w.record == nil
	w.task(func() {
		defer cancel()
		if fetch {
			w.fetch(ctx, pod, !adopted)
			return
		}
		if known != nil {
			_, err := w.node.volumes.Prepare(ctx, pod)
			w.post(func() { w.refreshed(err) })
			return
		}
		w.prepare(ctx, pod, fresh)
	})
}

// mayPrepare reports that what containers need may be made or brought up to
// date: nothing of it is under way, and containers may still want it.
func (w *worker) mayPrepare() bool {
	return w.preparing == nil && !w.settled && w.outcome == "" && !w.ending()
}

// refreshDue is when volumes are to be brought up to date; zero: not as things
// are.
func (w *worker) refreshDue() time.Time {
	if !w.mayPrepare() {
		return time.Time{}
	}
	return w.refreshAt
}

// podNow is the pod as its containers may see it, addresses included.
func (w *worker) podNow() *corev1.Pod {
	pod := w.pod.DeepCopy()
	pod.Status.HostIP = w.node.config.HostIP
	pod.Status.HostIPs = []corev1.HostIP{{IP: w.node.config.HostIP}}
	if w.place != nil {
		pod.Status.PodIP, pod.Status.PodIPs = w.place.ip, []corev1.PodIP{{IP: w.place.ip}}
	}
	return pod
}

func (w *worker) refreshed(err error) {
	w.preparing = nil
	w.refreshAt = w.node.config.Clock.Now().Add(refreshEvery)
	if err != nil {
		w.log.Warn("bringing volumes up to date", "error", err)
	}
}

// prepare makes everything that containers need, in a task.
//
//  1. Find its job and admit the pod, unless it was admitted before or came too late.
//  2. Record it, before anything of it exists.
//  3. Give it an address.
//  4. Make its volumes; wait for what they are made of.
func (w *worker) prepare(ctx context.Context, pod *corev1.Pod, fresh bool) {
	if fresh {
		var refusal *admission.Refusal
		changed := w.node.ledger.Change()
		var job types.UID
		comesFrom := func() (err error) {
			if refusal, err = w.node.origins.Stands(ctx, pod); err == nil && refusal == nil {
				job, err = w.node.origins.Job(ctx, pod, w.node.jobs.UID)
			}
			return err
		}
		if !w.insist(ctx, reasonCreating, comesFrom) {
			return
		}
		if refusal == nil {
			owner, ok := w.ownerOf(ctx, pod)
			if !ok {
				return
			}
			refusal = w.node.admit(ctx, pod, job, owner)
		}
		if refusal != nil {
			w.post(func() {
				w.preparing = nil
				w.refused(pod, refusal, changed)
			})
			return
		}
		r := w.node.newRecord(pod, job)
		if !w.insist(ctx, reasonCreateError, func() error { return r.Write(w.node.config.podsDir()) }) {
			return
		}
		w.job.Store(&r.Job)
		w.post(func() { w.record = r })
	}
	p := &place{ip: w.node.config.HostIP}
	ok := w.insist(ctx, reasonCreateError, func() (err error) {
		if err = w.node.makePodRoot(ctx, pod); err != nil || w.node.shared(pod) {
			return err
		}
		var of network.Tenant
		if w.node.config.Tenant != nil {
			of = w.node.config.Tenant(pod.Namespace)
		}
		given, err := w.node.config.Network.AddPod(string(pod.UID), of)
		if err == nil {
			p.ip, p.netNS = given.IP.String(), given.NetNS
		}
		return err
	})
	if !ok {
		return
	}
	pod.Status.PodIP, pod.Status.PodIPs = p.ip, []corev1.PodIP{{IP: p.ip}}
	ok = w.insist(ctx, reasonCreating, func() (err error) {
		p.volumes, err = w.node.volumes.Prepare(ctx, pod)
		return err
	})
	if !ok {
		return
	}
	w.post(func() { w.prepared(p) })
}

// prepared takes over what prepare made.
func (w *worker) prepared(p *place) {
	w.preparing, w.place = nil, p
	if !w.node.needsImages(w.pod) {
		w.images = map[string]image.Image{}
	}
	for _, u := range w.units {
		if u.proc == nil && u.last == nil {
			u.wait = waiting{}
		}
	}
	if volume.Changing(w.pod) {
		w.refreshAt = w.node.config.Clock.Now().Add(refreshEvery)
	}
	w.node.directory.Address(w.pod, p.ip)
}

// insist repeats f until it succeeds, telling why it does not, and returns
// false when ctx ends before that.
func (w *worker) insist(ctx context.Context, reason string, f func() error) bool {
	told := ""
	for {
		changed := w.node.objects.Changed()
		err := f()
		if err == nil {
			return true
		}
		if ctx.Err() == nil && err.Error() != told {
			told = err.Error()
			w.post(func() { w.trouble(reason, err) })
		}
		select {
		case <-ctx.Done():
			w.post(func() { w.preparing = nil })
			return false
		case <-changed:
		case <-w.node.config.Clock.After(retryEvery):
		}
	}
}

// trouble shows why the containers do not start. A missing object has a kubelet's reason.
func (w *worker) trouble(reason string, err error) {
	w.log.Info("waiting to start", "reason", err)
	if reason == reasonCreating && apierrors.IsNotFound(err) {
		reason = reasonConfigError
	}
	for _, u := range w.units {
		if u.proc == nil && u.last == nil {
			u.wait = waiting{reason: reason, message: err.Error()}
		}
	}
}

// admit decides whether the pod can run here and, if so, gives it what it
// names. It waits for what another pod is just giving back.
func (n *Node) admit(ctx context.Context, pod *corev1.Pod, job types.UID, owner *admission.Owner) *admission.Refusal {
	if why := n.Refusal(pod.Namespace); why != "" {
		return &admission.Refusal{Field: "metadata.namespace", Message: why, Passing: true}
	}
	deadline := n.config.Clock.After(patience)
	for {
		refusal, retry := n.tryAdmit(pod, job, owner)
		if refusal == nil || retry == nil || !refusal.Passing {
			return refusal
		}
		select {
		case <-retry:
		case <-deadline:
			return refusal
		case <-ctx.Done():
			return refusal
		}
	}
}

func (n *Node) tryAdmit(pod *corev1.Pod, job types.UID, owner *admission.Owner) (*admission.Refusal, <-chan struct{}) {
	shared := n.shared(pod)
	listening := hostport.Listeners{}
	if shared && !hostport.AllFree(ledger.Ports(pod)) {
		listening = hostport.ReadListeners()
	}
	facts := admission.Facts{
		Isolated: n.config.Tier == Isolated,
		Root:     os.Geteuid() == 0,
		UID:      int64(os.Geteuid()), GID: int64(os.Getegid()),
		Shared: n.config.Shared, Owner: owner,
		Limits: n.config.Limits,
		Images: n.config.Images, Job: job,
		GPUs: map[string]admission.GPU{},
	}
	if n.needsImages(pod) {
		facts.NoImages = n.noImages()
	}
	devices := n.inventory.Devices()
	return n.ledger.Take(pod, shared, func(gpus map[string]admission.Use, ports map[hostport.Port]string) *admission.Refusal {
		for _, d := range devices {
			facts.GPUs[d.UUID] = admission.GPU{Use: gpus[d.UUID], MemoryMiB: d.MemoryMiB, Unhealthy: d.Unhealthy}
		}
		facts.PortHolder = func(protocol corev1.Protocol, number int32) string {
			if holder := ports[hostport.Port{Protocol: protocol, Number: number}]; holder != "" {
				return holder
			}
			return listening.Holder(protocol, number)
		}
		return admission.Admit(pod, facts)
	})
}

// newRecord describes a pod for the next muster.
func (n *Node) newRecord(pod *corev1.Pod, job types.UID) *podrecord.Record {
	return &podrecord.Record{
		Cluster: n.cluster, ResourceVersion: pod.ResourceVersion,
		UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name,
		Job: job, GPUs: admission.GPUs(pod), Share: admission.ShareOf(pod), Images: n.needsImages(pod),
	}
}
