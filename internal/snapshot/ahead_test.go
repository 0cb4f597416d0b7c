package snapshot

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/scheduling"
	"github.com/muster-dev/muster/internal/snapshot/conversion"
)

// listens wants to know of gangs with a label, and notes what it is told.
type listens struct{ told [][]Prospect }

func (l *listens) Wants(g *v1alpha1.Gang) bool { return g.Labels["reads"] != "" }
func (l *listens) Tell(p []Prospect)           { l.told = append(l.told, p) }

// Of a gang that waits and is asked for it is told on which nodes it will likely be, now
// and then, until it has its place.
func TestLookAhead(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	gang := func(name, reads string) *v1alpha1.Gang {
		g := &v1alpha1.Gang{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, UID: types.UID(name)}}
		g.Labels = map[string]string{"reads": reads}
		return g
	}
	request := func(name string) scheduling.Request {
		return scheduling.Request{
			Key: scheduling.Key{Namespace: "team", Name: name}, UID: name,
			Roles: []scheduling.Role{{Name: "worker", Replicas: 1, GPUs: 2}},
		}
	}
	holder, other := request("holder"), request("other")
	other.Created = conversion.Instant(now)
	s := scheduling.Snapshot{
		Now: conversion.Instant(now), Requests: []scheduling.Request{holder, request("reader"), other},
		Nodes: []scheduling.Node{{
			Name: "n0", Allocatable: scheduling.Resources{MilliCPU: 1000, Memory: 1 << 30, Pods: 10}, Ports: &scheduling.PortRange{First: 1, Last: 9},
			Devices: []scheduling.Device{{UUID: "a", Model: "A100"}, {UUID: "b", Index: 1, Model: "A100"}},
		}},
		Placements: []scheduling.Placement{{Gang: holder.Key, UID: "holder", Attempt: 1, Created: conversion.Instant(now), Members: []scheduling.PlacedMember{{
			Assignment: scheduling.Assignment{Role: "worker", Node: "n0", GPUs: []string{"a", "b"}},
		}}}},
	}
	hears := &listens{}
	l := &Loop{options: Options{Ahead: hears}, mirror: newMirror(), core: scheduling.NewCore(scheduling.Options{})}
	l.core.Pass(s)
	reader := gang("reader", "yes")
	for _, g := range []*v1alpha1.Gang{gang("holder", ""), reader, gang("other", "")} {
		l.mirror.shown(g)
	}
	next := l.lookAhead(now)
	want := [][]Prospect{{{Gang: reader, Nodes: []string{"n0"}}}}
	if diff := cmp.Diff(want, hears.told); diff != "" || !next.After(now) || next.After(now.Add(aheadAtLeast)) {
		t.Fatalf("next %v: %s", next.Sub(now), diff)
	}
	if again := l.lookAhead(now.Add(time.Second)); again != next || len(hears.told) != 1 {
		t.Errorf("a second later it is told again; next %v", again)
	}
	// It has its place.
	l.mirror.shown(&v1alpha1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "reader-1"}, Spec: v1alpha1.PlacementSpec{GangUID: "reader"}})
	if last := l.lookAhead(next); len(hears.told) != 2 || len(hears.told[1]) != 0 || !last.IsZero() {
		t.Errorf("it is told %+v, next %v", hears.told[1:], last)
	}
}

// Nobody wants to know.
func TestNobodyLooksAhead(t *testing.T) {
	if next := (&Loop{}).lookAhead(time.Unix(1, 0)); !next.IsZero() {
		t.Errorf("next %v", next)
	}
}
