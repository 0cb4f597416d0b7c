//go:build embedded

package snapshot_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/fencing"
)

// ends tells a scheduler to end, and waits until it has.
func (d *duel) ends(t *testing.T, name string, ended <-chan error) {
	t.Helper()
	d.stops[name]()
	select {
	case err := <-ended:
		if err != nil {
			t.Fatalf("scheduler %s ended with %v", name, err)
		}
	case <-time.After(30 * time.Second):
		t.Fatalf("scheduler %s does not end", name)
	}
}

func (d *duel) fence(t *testing.T) fencing.State {
	t.Helper()
	state, err := fencing.Read(t.Context(), d.api, v1alpha1.SystemNamespace)
	if err != nil {
		t.Fatal(err)
	}
	return state
}

// testHandOverUnderLoad has three schedulers follow one another in order while
// they place. What one of them placed last is judged by the fence of the next.
func testHandOverUnderLoad(t *testing.T) {
	d := newDuel(t)
	d.patient()
	d.short.Store(true)
	const gangs = 60
	begun := 0
	for turn := range 3 {
		name := fmt.Sprintf("turn-%d", turn)
		_, loop, ended := d.scheduler(t, name)
		d.ready(t, loop)
		if want := (fencing.State{Epoch: int64(turn + 1), Settled: 1, Closed: int64(turn)}); d.fence(t) != want {
			t.Errorf("the fence says %+v, want %+v", d.fence(t), want)
		}
		for range gangs / 3 {
			d.submit(fmt.Sprintf("load-%d", begun), 2, "1")
			begun++
		}
		if turn < 2 {
			d.ends(t, name, ended)
		}
	}
	for i := range gangs {
		name := fmt.Sprintf("load-%d", i)
		d.Eventually(name+" succeeded", func() bool { return d.gang(name).Status.Phase == v1alpha1.GangSucceeded })
		if n := d.starts(name); n != 2 {
			t.Errorf("%d members of %s were started, want 2", n, name)
		}
		if g := d.gang(name); g.Status.Attempt != 1 {
			t.Errorf("%s needed %d attempts", name, g.Status.Attempt)
		}
	}
	d.Eventually("no placement left", func() bool {
		list := &v1alpha1.PlacementList{}
		return d.api.List(t.Context(), list) == nil && len(list.Items) == 0
	})
}

// testHandOverUnclear ends a scheduler in order that has not heard what came of
// its last Placement. It arrived: its successor adopts it.
func testHandOverUnclear(t *testing.T) {
	d := newDuel(t)
	network, loop, ended := d.scheduler(t, "old")
	d.ready(t, loop)
	d.submit("first", 1, "4")
	d.running("first")
	network.set(nil, writes("placements"))
	d.submit("second", 1, "4")
	list := &v1alpha1.PlacementList{}
	d.Eventually("a second placement", func() bool { return d.api.List(t.Context(), list) == nil && len(list.Items) == 2 })
	network.set(writes("placements"), nil) // and what is sent again does not arrive
	d.ends(t, "old", ended)
	if want := (fencing.State{Epoch: 1, Settled: 1}); d.fence(t) != want {
		t.Errorf("the fence says %+v, want %+v", d.fence(t), want)
	}
	d.patient()
	_, next, ended := d.scheduler(t, "next")
	d.ready(t, next)
	d.running("second")
	if err := d.api.List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		if p := &list.Items[i]; p.Spec.Epoch != 1 || fencing.Of(p) != 2 {
			t.Errorf("placement %s of epoch %d carries %d; want 1, adopted by 2", p.Name, p.Spec.Epoch, fencing.Of(p))
		}
	}
	// The next one heard everything: after it nothing is stamped.
	d.ends(t, "next", ended)
	_, last, _ := d.scheduler(t, "last")
	d.ready(t, last)
	if want := (fencing.State{Epoch: 3, Settled: 2, Closed: 2}); d.fence(t) != want {
		t.Errorf("the fence says %+v, want %+v", d.fence(t), want)
	}
	if n := network.deliver(); d.starts("first") != 1 || d.starts("second") != 1 {
		t.Errorf("started %d and %d times, with %d late requests", d.starts("first"), d.starts("second"), n)
	}
}
