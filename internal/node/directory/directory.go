package directory

import (
	"context"
	"net/netip"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	discoverylisters "k8s.io/client-go/listers/discovery/v1"
)

// Domain is the domain below which all names are.
const Domain = "cluster.local"

// Patience is how long a question for a member without an address waits.
const Patience = 5 * time.Second

// Directory answers names. Its methods may be called concurrently.
type Directory struct {
	services corelisters.ServiceLister
	slices   discoverylisters.EndpointSliceLister

	mu      sync.Mutex
	local   map[types.NamespacedName]netip.AddrPort
	members map[types.UID]member
	changed chan struct{} // closed at each change of a member
	dirty   chan struct{} // of capacity 1: services changed
}

// member is a pod with a name of its own.
type member struct {
	name string
	ip   netip.Addr // not valid: none yet
}

// New returns a directory over informer caches.
func New(services corelisters.ServiceLister, slices discoverylisters.EndpointSliceLister) *Directory {
	return &Directory{
		services: services, slices: slices,
		local:   map[types.NamespacedName]netip.AddrPort{},
		members: map[types.UID]member{}, changed: make(chan struct{}), dirty: make(chan struct{}, 1),
	}
}

// Lead points a Service at a listener of this process on the loopback, in place of its ports and
// endpoints.
func (d *Directory) Lead(service types.NamespacedName, to netip.AddrPort) {
	d.mu.Lock()
	d.local[service] = to
	d.mu.Unlock()
	d.touch()
}

// leads is the listener of a Service by [Directory.Lead], if it has one.
func (d *Directory) leads(service *corev1.Service) netip.AddrPort {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.local[types.NamespacedName{Namespace: service.Namespace, Name: service.Name}]
}

// Expect makes a pod's name known before the pod has an address.
func (d *Directory) Expect(pod *corev1.Pod) { d.set(pod, "") }

// Address makes a pod's address known.
func (d *Directory) Address(pod *corev1.Pod, ip string) { d.set(pod, ip) }

func (d *Directory) set(pod *corev1.Pod, ip string) {
	if pod.Spec.Subdomain == "" {
		return
	}
	host := pod.Spec.Hostname
	if host == "" {
		host = pod.Name
	}
	m := member{name: strings.ToLower(strings.Join([]string{host, pod.Spec.Subdomain, pod.Namespace, "svc", Domain}, "."))}
	if parsed, err := netip.ParseAddr(ip); err == nil {
		m.ip = parsed
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if old, ok := d.members[pod.UID]; ok && (old == m || !m.ip.IsValid()) {
		return
	}
	d.members[pod.UID] = m
	d.wake()
}

// Forget drops a pod.
func (d *Directory) Forget(uid types.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.members, uid)
	d.wake()
}

// wake lets waiting questions look again. The caller holds the lock.
func (d *Directory) wake() {
	close(d.changed)
	d.changed = make(chan struct{})
}

// Lookup gives the IPv4 addresses of a name, such as
// web.default.svc.cluster.local: lower case, no final dot. It waits for at
// most [Patience] for a member that has no address yet.
func (d *Directory) Lookup(ctx context.Context, name string) ([]netip.Addr, bool) {
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	for {
		ip, known, changed := d.member(name)
		if ip.IsValid() {
			return []netip.Addr{ip}, true
		}
		if addresses, ok := d.service(name); ok && (len(addresses) > 0 || !known) {
			return addresses, true
		}
		if !known {
			return nil, false
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, true
		}
	}
}

// member finds a member by name, and prefers one that has an address: a
// successor may be expected while its predecessor is being removed.
func (d *Directory) member(name string) (ip netip.Addr, known bool, changed <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, m := range d.members {
		if m.name == name {
			known = true
			if m.ip.IsValid() {
				ip = m.ip
			}
		}
	}
	return ip, known, d.changed
}

// service answers the names of services, and of endpoints with a host name.
func (d *Directory) service(name string) ([]netip.Addr, bool) {
	rest, ok := strings.CutSuffix(name, ".svc."+Domain)
	if !ok {
		return nil, false
	}
	words := strings.Split(rest, ".")
	host := ""
	if len(words) == 3 {
		host, words = words[0], words[1:]
	}
	if len(words) != 2 {
		return nil, false
	}
	service, err := d.services.Services(words[1]).Get(words[0])
	if err != nil || service.Spec.Type == corev1.ServiceTypeExternalName {
		return nil, false
	}
	if host == "" && !headless(service) {
		ip, err := netip.ParseAddr(service.Spec.ClusterIP)
		return []netip.Addr{ip}, err == nil
	}
	var addresses []netip.Addr
	for _, e := range d.endpoints(service) {
		if host != "" && (e.Hostname == nil || *e.Hostname != host) {
			continue
		}
		addresses = append(addresses, parse(e.Addresses)...)
	}
	return addresses, host == "" || len(addresses) > 0
}

func headless(service *corev1.Service) bool { return service.Spec.ClusterIP == corev1.ClusterIPNone }

// endpoints are a service's ready endpoints.
func (d *Directory) endpoints(service *corev1.Service) []discoveryv1.Endpoint {
	var ready []discoveryv1.Endpoint
	for _, slice := range d.slicesOf(service) {
		for _, e := range slice.Endpoints {
			if e.Conditions.Ready == nil || *e.Conditions.Ready {
				ready = append(ready, e)
			}
		}
	}
	return ready
}

func (d *Directory) slicesOf(service *corev1.Service) []*discoveryv1.EndpointSlice {
	selector := labels.SelectorFromSet(labels.Set{discoveryv1.LabelServiceName: service.Name})
	slices, err := d.slices.EndpointSlices(service.Namespace).List(selector)
	if err != nil {
		return nil
	}
	return slices
}

// parse keeps IPv4 addresses.
func parse(addresses []string) []netip.Addr {
	var out []netip.Addr
	for _, a := range addresses {
		if ip, err := netip.ParseAddr(a); err == nil && ip.Is4() {
			out = append(out, ip)
		}
	}
	return out
}
