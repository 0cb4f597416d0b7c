package door

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/door/visitor"
)

// desk has orders of nodes, as tests give them.
type desk struct {
	mu      sync.Mutex
	of      map[string][]v1alpha1.DataOrder
	changed chan struct{}
	theirs  bool
}

func (d *desk) Of(node string) ([]v1alpha1.DataOrder, <-chan struct{}, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.of[node], d.changed, !d.theirs
}

func (d *desk) May(node, namespace string) (may, ours bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, o := range d.of[node] {
		may = may || o.Namespace == namespace
	}
	return may && !d.theirs, !d.theirs
}

// give gives others, and says so.
func (d *desk) give(of map[string][]v1alpha1.DataOrder, theirs bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.of, d.theirs = of, theirs
	close(d.changed)
	d.changed = make(chan struct{})
}

// TestOrdersAtTheDoor: an agent hears of its own node's orders, once they are others
// than it has seen.
func TestOrdersAtTheDoor(t *testing.T) {
	orders := []v1alpha1.DataOrder{{Namespace: "ada", Commit: "c", Path: "/train", Key: "k", Words: "digits@main"}}
	mine := &desk{of: map[string][]v1alpha1.DataOrder{"node-2": orders}, changed: make(chan struct{})}
	h := open(t, true, func(o *Options) { o.Orders = mine })
	got, none, err := h.as("node").Ahead(t.Context(), "")
	if err != nil || len(got) > 0 || none == "" {
		t.Fatalf("%v %q %v", got, none, err)
	}
	// Of what it knows it hears once that is something else.
	type answer struct {
		orders  []v1alpha1.DataOrder
		version string
		err     error
	}
	heard := make(chan answer, 1)
	go func() {
		got, version, err := h.as("node").Ahead(t.Context(), none)
		heard <- answer{got, version, err}
	}()
	for { // until it waits
		waits := h.door.lanes.ahead.Taken() > 0
		select {
		case a := <-heard:
			t.Fatalf("it is told what it knows: %+v", a)
		default:
		}
		if waits {
			break
		}
	}
	mine.give(map[string][]v1alpha1.DataOrder{"node-1": orders}, false)
	a := <-heard
	if diff := cmp.Diff(orders, a.orders); diff != "" || a.err != nil || a.version == none {
		t.Error(diff, a.err)
	}
	if _, _, err := h.as("ada").Ahead(t.Context(), ""); !visitor.Is(err, http.StatusForbidden) {
		t.Errorf("a tenant hears: %v", err)
	}
}

// TestWithoutOrders: where nothing is fetched ahead that is said, and another replica's
// orders are not this one's.
func TestWithoutOrders(t *testing.T) {
	h := open(t, true)
	if _, _, err := h.as("node").Ahead(t.Context(), ""); !visitor.Is(err, http.StatusNotFound) {
		t.Error(err)
	}
	h = open(t, true, func(o *Options) { o.Orders = &desk{theirs: true} })
	ctx, cancel := context.WithTimeout(t.Context(), time.Second/2) // it asks again after a second
	defer cancel()
	if _, _, err := h.as("node").Ahead(ctx, ""); !visitor.Is(err, http.StatusServiceUnavailable) {
		t.Error(err)
	}
}

// TestAnOrderIsARight to read packs of its namespace, on its node, as long as it stands.
func TestAnOrderIsARight(t *testing.T) {
	mine := &desk{changed: make(chan struct{})}
	h := open(t, true, func(o *Options) { o.Orders = mine })
	h.must(h.as("ada").Data("ada").Put(t.Context(), packKey("x"), []byte("x")))
	read := func(namespace string) error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		return h.as("node").Data(namespace).ReadAt(ctx, packKey("x"), 0, make([]byte, 1))
	}
	for _, c := range []struct {
		name   string
		of     map[string][]v1alpha1.DataOrder
		theirs bool
		may    bool
	}{
		{name: "no pod, no order"},
		{name: "an order", of: map[string][]v1alpha1.DataOrder{"node-1": {{Namespace: "ada"}}}, may: true},
		{name: "of another node", of: map[string][]v1alpha1.DataOrder{"node-2": {{Namespace: "ada"}}}},
		{name: "of another namespace", of: map[string][]v1alpha1.DataOrder{"node-1": {{Namespace: "bob"}}}},
		{name: "an order again", of: map[string][]v1alpha1.DataOrder{"node-1": {{Namespace: "bob"}, {Namespace: "ada"}}}, may: true},
		{name: "the order is gone"},
		{name: "another replica gives orders", of: map[string][]v1alpha1.DataOrder{"node-1": {{Namespace: "ada"}}}, theirs: true},
	} {
		mine.give(c.of, c.theirs)
		err := read("ada")
		if c.may && err != nil || !c.may && !visitor.Is(err, http.StatusForbidden) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	// It is no right to anything else.
	mine.give(map[string][]v1alpha1.DataOrder{"node-1": {{Namespace: "ada"}}}, false)
	if err := h.as("node").Data("ada").Delete(t.Context(), leaseKey("x")); !visitor.Is(err, http.StatusForbidden) {
		t.Errorf("a lease: %v", err)
	}
}
