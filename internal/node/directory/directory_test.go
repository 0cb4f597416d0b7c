package directory

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	discoverylisters "k8s.io/client-go/listers/discovery/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/muster-dev/muster/internal/node/network"
)

func ptr[T any](v T) *T { return &v }

func newDirectory(t *testing.T) *Directory {
	t.Helper()
	services, slices := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}), cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	add := func(store cache.Indexer, object any) {
		if err := store.Add(object); err != nil {
			t.Fatal(err)
		}
	}
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name, Namespace: "ns"} }
	add(services, &corev1.Service{ObjectMeta: meta("web"), Spec: corev1.ServiceSpec{ClusterIP: "10.0.0.5", Ports: []corev1.ServicePort{{Name: "http", Port: 80, NodePort: 30080}}}})
	add(services, &corev1.Service{ObjectMeta: meta("ps"), Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone}})
	slice := func(name, service string, endpoints ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
		m := meta(name)
		m.Labels = map[string]string{discoveryv1.LabelServiceName: service}
		return &discoveryv1.EndpointSlice{ObjectMeta: m, Endpoints: endpoints, Ports: []discoveryv1.EndpointPort{{Name: ptr("http"), Port: ptr(int32(8080))}}}
	}
	add(slices, slice("web-1", "web",
		discoveryv1.Endpoint{Addresses: []string{"10.1.0.3"}},
		discoveryv1.Endpoint{Addresses: []string{"10.1.0.2"}, Conditions: discoveryv1.EndpointConditions{Ready: ptr(true)}},
		discoveryv1.Endpoint{Addresses: []string{"10.1.0.9"}, Conditions: discoveryv1.EndpointConditions{Ready: ptr(false)}}))
	add(slices, slice("ps-1", "ps", discoveryv1.Endpoint{Addresses: []string{"10.1.0.7"}, Hostname: ptr("zero")}))
	return New(corelisters.NewServiceLister(services), discoverylisters.NewEndpointSliceLister(slices))
}

func pod(uid, host string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), Name: host, Namespace: "ns"}, Spec: corev1.PodSpec{Hostname: host, Subdomain: "gang"}}
}

func TestLookup(t *testing.T) {
	d := newDirectory(t)
	d.Address(pod("1", "worker-0"), "10.1.0.20")
	cases := []struct {
		name string
		want []string
		ok   bool
	}{
		{"web.ns.svc.cluster.local", []string{"10.0.0.5"}, true},
		{"ps.ns.svc.cluster.local", []string{"10.1.0.7"}, true},
		{"zero.ps.ns.svc.cluster.local", []string{"10.1.0.7"}, true},
		{"one.ps.ns.svc.cluster.local", nil, false},
		{"worker-0.gang.ns.svc.cluster.local", []string{"10.1.0.20"}, true},
		{"none.ns.svc.cluster.local", nil, false},
		{"example.com", nil, false},
	}
	for _, c := range cases {
		addresses, ok := d.Lookup(t.Context(), c.name)
		var got []string
		for _, a := range addresses {
			got = append(got, a.String())
		}
		if diff := cmp.Diff(c.want, got); diff != "" || ok != c.ok {
			t.Errorf("%s: %v %s", c.name, ok, diff)
		}
	}
}

func TestLookupWaitsForMembers(t *testing.T) {
	d := newDirectory(t)
	const name = "worker-1.gang.ns.svc.cluster.local"
	d.Expect(pod("1", "worker-1"))
	answered := make(chan []netip.Addr, 1)
	go func() {
		addresses, _ := d.Lookup(context.Background(), name)
		answered <- addresses
	}()
	d.Address(pod("1", "worker-1"), "10.1.0.4")
	if got := <-answered; len(got) != 1 || got[0].String() != "10.1.0.4" {
		t.Errorf("got %v", got)
	}
	// It is not waited for beyond the question's own end.
	d.Expect(pod("2", "worker-2"))
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if got, ok := d.Lookup(ctx, "worker-2.gang.ns.svc.cluster.local"); len(got) != 0 || !ok {
		t.Errorf("got %v %v", got, ok)
	}
	d.Forget("1")
	if _, ok := d.Lookup(t.Context(), name); ok {
		t.Error("a member that was forgotten")
	}
}

func TestServices(t *testing.T) {
	d := newDirectory(t)
	want := []network.Service{{ClusterIP: netip.MustParseAddr("10.0.0.5"), Ports: []network.ServicePort{{
		Port: 80, Protocol: network.TCP, NodePort: 30080,
		Backends: []netip.AddrPort{netip.MustParseAddrPort("10.1.0.2:8080"), netip.MustParseAddrPort("10.1.0.3:8080")},
	}}}}
	if diff := cmp.Diff(want, d.Services(), cmp.Comparer(func(a, b netip.Addr) bool { return a == b }), cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); diff != "" {
		t.Error(diff)
	}
	s3 := netip.MustParseAddrPort("127.0.0.1:6480")
	d.Lead(types.NamespacedName{Namespace: "ns", Name: "web"}, s3)
	if got := d.Services()[0].Ports[0].Local; got != s3 {
		t.Errorf("it leads to %v, want %v", got, s3)
	}
	ctx, cancel := context.WithCancel(t.Context())
	got := 0
	d.Program(ctx, func(s []network.Service) error { got = len(s); cancel(); return nil }, func(err error) { t.Error(err) })
	if got != 1 {
		t.Errorf("programmed %d services, want 1", got)
	}
}

func TestVariables(t *testing.T) {
	d := newDirectory(t)
	p := pod("1", "a")
	want := []string{
		"WEB_SERVICE_HOST=10.0.0.5", "WEB_SERVICE_PORT=80", "WEB_PORT=tcp://10.0.0.5:80", "WEB_SERVICE_PORT_HTTP=80",
		"WEB_PORT_80_TCP=tcp://10.0.0.5:80", "WEB_PORT_80_TCP_PROTO=tcp", "WEB_PORT_80_TCP_PORT=80", "WEB_PORT_80_TCP_ADDR=10.0.0.5",
	}
	if diff := cmp.Diff(want, d.Variables(p)); diff != "" {
		t.Error(diff)
	}
	p.Spec.EnableServiceLinks = ptr(false)
	if got := d.Variables(p); len(got) != 0 {
		t.Errorf("got %v for a pod that wants none", got)
	}
}
