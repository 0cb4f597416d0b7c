package gang

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/rendezvous"
)

// told prepares what members are told.
func told(t testing.TB, g rendezvous.Gang) *rendezvous.Table {
	t.Helper()
	table, err := rendezvous.NewTable(g)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// addresses returns the name of the ConfigMap that all pods of the gang refer
// to.
func (w *world) addresses() string {
	w.t.Helper()
	name := ""
	for _, p := range w.pods(w.t.Context()) {
		for _, v := range p.Spec.Containers[0].Env {
			if !strings.HasSuffix(v.Name, "_HOSTS") {
				continue
			}
			if v.ValueFrom == nil || name != "" && v.ValueFrom.ConfigMapKeyRef.Name != name {
				w.t.Fatalf("%s has %s from %v, others from %q", p.Name, v.Name, v, name)
			}
			name = v.ValueFrom.ConfigMapKeyRef.Name
		}
	}
	return name
}

// The addresses of many members are written once, and go with the placement. An
// attempt has its own.
func TestAddressesAreSharedByMany(t *testing.T) {
	w := newWorld(t, fault{shared: true})
	w.must(w.api.Create(t.Context(), testGang()))
	w.phase(v1alpha1.GangRunning)
	name := w.addresses()
	m := &corev1.ConfigMap{}
	w.must(w.api.Get(t.Context(), client.ObjectKey{Namespace: w.key.Namespace, Name: name}, m))
	owner := metav1.GetControllerOf(m)
	if owner == nil || owner.Kind != "Placement" || m.Immutable == nil || !*m.Immutable || m.Data["WORKER_HOSTS"] == "" {
		t.Errorf("%s: owned by %+v, immutable %v, %v", name, owner, m.Immutable, m.Data)
	}
	w.evict("1")
	w.again()
	if w.addresses() == name {
		t.Errorf("%s is of the attempt before", name)
	}
}

// TestEveryWriteMayFailOfSharedAddresses is one life of a gang whose pods refer
// to addresses that are written first.
func TestEveryWriteMayFailOfSharedAddresses(t *testing.T) {
	everyWriteMayFail(t, map[string]func(w *world){"member failure": flows["member failure"], "evict": orders["evict"]}, testGang, fault{shared: true})
}

// A few members have a copy each, and nothing else is written.
func TestAddressesOfAFewAreCopied(t *testing.T) {
	w := newWorld(t, fault{})
	w.must(w.api.Create(t.Context(), testGang()))
	w.phase(v1alpha1.GangRunning)
	var maps corev1.ConfigMapList
	w.must(w.api.List(t.Context(), &maps))
	if len(maps.Items) > 0 {
		t.Errorf("%s was written", maps.Items[0].Name)
	}
}

// A namespace that may not have another ConfigMap has the gang wait in words.
func TestAddressesThatAreRefused(t *testing.T) {
	w := newWorld(t, fault{shared: true})
	w.forbidden = "maps"
	w.must(w.api.Create(t.Context(), testGang()))
	w.until("a refusal", func() bool { return w.gang(t.Context()).Status.Refusals > 0 })
	if s := w.gang(t.Context()).Status; len(w.pods(t.Context())) > 0 || !strings.Contains(s.Message, "exceeded quota: few maps") {
		t.Errorf("%d pods; %q", len(w.pods(t.Context())), s.Message)
	}
}
