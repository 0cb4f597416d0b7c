package directory

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"

	"github.com/muster-dev/muster/internal/node/network"
)

// Handler returns the event handler to be set on the informers of Services and
// EndpointSlices.
func (d *Directory) Handler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { d.touch() },
		UpdateFunc: func(any, any) { d.touch() },
		DeleteFunc: func(any) { d.touch() },
	}
}

func (d *Directory) touch() {
	select {
	case d.dirty <- struct{}{}:
	default:
	}
}

// Program gives all services to set whenever one changes, until ctx ends.
// What set refuses is tried again and reported.
func (d *Directory) Program(ctx context.Context, set func([]network.Service) error, report func(error)) {
	const pause = time.Second
	d.touch()
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.dirty:
		}
		if err := set(d.Services()); err != nil {
			report(fmt.Errorf("setting up services: %w", err))
			select {
			case <-ctx.Done():
				return
			case <-time.After(pause):
				d.touch()
			}
		}
	}
}

// Services are all services that have an address, with their ready backends,
// in a fixed order.
func (d *Directory) Services() []network.Service {
	all, err := d.services.List(labels.Everything())
	if err != nil {
		return nil
	}
	var out []network.Service
	for _, service := range all {
		ip, err := netip.ParseAddr(service.Spec.ClusterIP)
		if err != nil || !ip.Is4() || apiServer(service) {
			continue
		}
		s := network.Service{ClusterIP: ip}
		for i := range service.Spec.Ports {
			p := &service.Spec.Ports[i]
			protocol, ok := protocols[p.Protocol]
			if !ok {
				continue
			}
			s.Ports = append(s.Ports, network.ServicePort{
				Port: uint16(p.Port), Protocol: protocol, NodePort: uint16(p.NodePort), Backends: d.backends(service, p),
				Local: d.leads(service),
			})
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b network.Service) int { return a.ClusterIP.Compare(b.ClusterIP) })
	return out
}

// apiServer is true for the service of the API server, which the network leads
// to it by itself.
func apiServer(service *corev1.Service) bool {
	return service.Namespace == metaDefault && service.Name == "kubernetes"
}

const metaDefault = "default"

var protocols = map[corev1.Protocol]network.Protocol{
	"": network.TCP, corev1.ProtocolTCP: network.TCP, corev1.ProtocolUDP: network.UDP,
}

// backends are the ready addresses behind a port of a service.
func (d *Directory) backends(service *corev1.Service, p *corev1.ServicePort) []netip.AddrPort {
	var out []netip.AddrPort
	for _, slice := range d.slicesOf(service) {
		number := targetPort(slice, p.Name)
		if number == 0 {
			continue
		}
		for _, e := range slice.Endpoints {
			if e.Conditions.Ready != nil && !*e.Conditions.Ready {
				continue
			}
			for _, ip := range parse(e.Addresses) {
				out = append(out, netip.AddrPortFrom(ip, number))
			}
		}
	}
	slices.SortFunc(out, netip.AddrPort.Compare)
	return slices.Compact(out)
}

func targetPort(slice *discoveryv1.EndpointSlice, name string) uint16 {
	for _, p := range slice.Ports {
		if p.Port != nil && (p.Name == nil || *p.Name == name) {
			return uint16(*p.Port)
		}
	}
	return 0
}

// Variables are the environment variables that describe the services of a
// pod's namespace, unless the pod does not want them, and always the API
// server's.
func (d *Directory) Variables(pod *corev1.Pod) []string {
	all, err := d.services.Services(pod.Namespace).List(labels.Everything())
	if err != nil || (pod.Spec.EnableServiceLinks != nil && !*pod.Spec.EnableServiceLinks) {
		all = nil
	}
	if api, err := d.services.Services(metaDefault).Get("kubernetes"); err == nil && !slices.ContainsFunc(all, apiServer) {
		all = append(slices.Clone(all), api)
	}
	slices.SortFunc(all, func(a, b *corev1.Service) int { return strings.Compare(a.Name, b.Name) })
	var out []string
	for _, service := range all {
		if ip, err := netip.ParseAddr(service.Spec.ClusterIP); err == nil && len(service.Spec.Ports) > 0 {
			out = append(out, variables(service, ip)...)
		}
	}
	return out
}

func variables(service *corev1.Service, ip netip.Addr) []string {
	upper := func(s string) string { return strings.ToUpper(strings.ReplaceAll(s, "-", "_")) }
	prefix, first := upper(service.Name), service.Spec.Ports[0]
	url := func(p corev1.ServicePort) string {
		return fmt.Sprintf("%s://%s", strings.ToLower(protocol(p)), netip.AddrPortFrom(ip, uint16(p.Port)))
	}
	out := []string{
		prefix + "_SERVICE_HOST=" + ip.String(),
		prefix + "_SERVICE_PORT=" + strconv.Itoa(int(first.Port)),
		prefix + "_PORT=" + url(first),
	}
	for _, p := range service.Spec.Ports {
		number := strconv.Itoa(int(p.Port))
		if p.Name != "" {
			out = append(out, prefix+"_SERVICE_PORT_"+upper(p.Name)+"="+number)
		}
		each := prefix + "_PORT_" + number + "_" + protocol(p)
		out = append(out, each+"="+url(p), each+"_PROTO="+strings.ToLower(protocol(p)), each+"_PORT="+number, each+"_ADDR="+ip.String())
	}
	return out
}

func protocol(p corev1.ServicePort) string {
	if p.Protocol == "" {
		return string(corev1.ProtocolTCP)
	}
	return string(p.Protocol)
}
