package node

import (
	"context"
	"fmt"
	"net"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/muster-dev/muster/internal/node/admission"
	"github.com/muster-dev/muster/internal/node/hostport"
	"github.com/muster-dev/muster/internal/node/kubelet"
	"github.com/muster-dev/muster/internal/node/network"
	"github.com/muster-dev/muster/internal/node/process"
)

// serve serves the kubelet API until ctx ends. The channel brings the error
// that ends it before.
func (n *Node) serve(ctx context.Context) (<-chan error, error) {
	failed := make(chan error, 1)
	if n.config.Serving == nil {
		return failed, nil
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", net.JoinHostPort(apiAddress, strconv.Itoa(n.config.APIPort)))
	if err != nil {
		return nil, fmt.Errorf("listening for the kubelet API: %w", err)
	}
	if at, ok := listener.Addr().(*net.TCPAddr); ok {
		n.apiPort = at.Port
	}
	n.tasks.Go(func() {
		err := kubelet.Serve(ctx, listener, kubelet.Options{
			Certificate: *n.config.Serving, ClientCAs: n.config.ClientCAs, ClientName: n.config.ClientName, Pods: api{n},
		})
		if err != nil {
			failed <- err
		}
	})
	return failed, nil
}

// api is the node as the kubelet API sees it.
type api struct{ node *Node }

// find returns the worker of the youngest pod of a name.
func (a api) find(namespace, name string) (*worker, error) {
	var found *worker
	for _, w := range a.node.list() {
		if w.namespace == namespace && w.name == name && (found == nil || w.born.After(found.born)) {
			found = w
		}
	}
	if found == nil {
		return nil, kubelet.NotFound("the pod %s/%s is not on this node", namespace, name)
	}
	return found, nil
}

// Container finds an attempt of a container.
func (a api) Container(ctx context.Context, namespace, name, container string, previous bool) (*process.Process, error) {
	w, err := a.find(namespace, name)
	if err != nil {
		return nil, err
	}
	var p *process.Process
	err = kubelet.NotFound("the pod %s/%s has no container %q", namespace, name, container)
	if !w.ask(ctx, func() {
		for _, u := range w.units {
			if u.spec.Name == container {
				p, err = u.find(previous)
			}
		}
	}) {
		return nil, kubelet.NotFound("the pod %s/%s is gone", namespace, name)
	}
	return p, err
}

// find returns the unit's latest attempt, or the one before.
func (u *unit) find(previous bool) (*process.Process, error) {
	attempts := u.kept
	if u.proc != nil {
		attempts = append(attempts[:len(attempts):len(attempts)], u.proc)
	}
	at := len(attempts) - 1
	if previous {
		at--
	}
	if at < 0 {
		switch {
		case previous:
			return nil, kubelet.NotFound("the container %q has no previous attempt", u.spec.Name)
		case u.last != nil:
			return nil, kubelet.NotFound("the container %q has no output: %s", u.spec.Name, u.last.message)
		case u.wait.reason != "":
			return nil, kubelet.NotFound("the container %q has not started: %s: %s", u.spec.Name, u.wait.reason, u.wait.message)
		}
		return nil, kubelet.NotFound("the container %q has not started yet", u.spec.Name)
	}
	return attempts[at], nil
}

// Dial connects to a port of the pod, as a process of the pod would by
// localhost.
func (a api) Dial(ctx context.Context, namespace, name string, port int32) (net.Conn, error) {
	w, err := a.find(namespace, name)
	if err != nil {
		return nil, err
	}
	var pod *corev1.Pod
	netNS := ""
	if !w.ask(ctx, func() {
		if pod = w.pod; w.place != nil {
			netNS = w.place.netNS
		}
	}) {
		return nil, kubelet.NotFound("the pod %s/%s is gone", namespace, name)
	}
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port)))
	switch {
	case netNS != "":
		return network.Dial(ctx, netNS, address)
	case !a.node.shared(pod):
		return nil, kubelet.NotFound("the pod %s/%s has no network yet", namespace, name)
	}
	if err := a.node.reaches(pod, port); err != nil {
		return nil, err
	}
	return new(net.Dialer).DialContext(ctx, "tcp4", address)
}

// reaches refuses a port of the machine that is not the pod's: one that the pod does not declare, and
// that no process of it listens on.
func (n *Node) reaches(pod *corev1.Pod, port int32) error {
	if admission.Declares(pod, port) || hostport.Served(port, n.live.PIDsOf(func(uid string) bool { return uid == string(pod.UID) })) {
		return nil
	}
	return fmt.Errorf("no process of the pod %s/%s listens on port %d of the machine, and the pod does not declare it: give it in containerPort", pod.Namespace, pod.Name, port)
}

// List returns all pods.
func (a api) List(ctx context.Context) []*corev1.Pod {
	var pods []*corev1.Pod
	for _, w := range a.node.list() {
		w.ask(ctx, func() { pods = append(pods, w.pod) })
	}
	return pods
}

// Summary is what the pods use.
func (a api) Summary(ctx context.Context) (*statsv1alpha1.Summary, error) {
	now := metav1.NewTime(a.node.config.Clock.Now())
	out := &statsv1alpha1.Summary{Node: statsv1alpha1.NodeStats{NodeName: a.node.config.Name, StartTime: metav1.NewTime(a.node.started)}}
	for _, w := range a.node.list() {
		pod := statsv1alpha1.PodStats{PodRef: statsv1alpha1.PodReference{Name: w.name, Namespace: w.namespace, UID: string(w.uid)}}
		running := map[string]*process.Process{}
		w.ask(ctx, func() {
			pod.StartTime = metav1.NewTime(w.start)
			for _, u := range w.units {
				if u.proc != nil {
					running[u.spec.Name] = u.proc
				}
			}
		})
		for name, p := range running {
			use, err := p.Usage()
			if err != nil {
				continue
			}
			cpu, memory := uint64(use.CPUSeconds*1e9), uint64(max(use.RSSBytes, 0))
			pod.Containers = append(pod.Containers, statsv1alpha1.ContainerStats{
				Name: name, StartTime: metav1.NewTime(p.StartedAt()),
				CPU:    &statsv1alpha1.CPUStats{Time: now, UsageCoreNanoSeconds: &cpu},
				Memory: &statsv1alpha1.MemoryStats{Time: now, WorkingSetBytes: &memory, RSSBytes: &memory},
			})
		}
		out.Pods = append(out.Pods, pod)
	}
	return out, nil
}
