package node

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func TestDecide(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	later := now.Add(time.Minute)
	waiting, running := unitView{kind: kindMain}, unitView{kind: kindMain, state: stateRunning, up: true}
	succeeded, failed := unitView{kind: kindMain, state: stateEnded}, unitView{kind: kindMain, state: stateEnded, failed: true}
	as := func(k kind, u unitView) unitView { u.kind = k; return u }
	backingOff := failed
	backingOff.notBefore = later
	type want = decision
	cases := []struct {
		name string
		view view
		want want
	}{
		{"not prepared", view{units: []unitView{waiting}}, want{}},
		{"starts all", view{prepared: true, units: []unitView{waiting, waiting}}, want{start: []int{0, 1}}},
		{"runs", view{prepared: true, units: []unitView{running}}, want{}},
		{"init first", view{prepared: true, units: []unitView{as(kindInit, waiting), as(kindInit, waiting), waiting}}, want{start: []int{0}}},
		{"init runs", view{prepared: true, units: []unitView{as(kindInit, running), as(kindInit, waiting), waiting}}, want{}},
		{"init done", view{prepared: true, units: []unitView{as(kindInit, succeeded), waiting}}, want{start: []int{1}}},
		{"init failed, never again", view{prepared: true, policy: corev1.RestartPolicyNever, units: []unitView{as(kindInit, failed), waiting}}, want{outcome: corev1.PodFailed, over: true}},
		{"init failed, again", view{prepared: true, policy: corev1.RestartPolicyOnFailure, units: []unitView{as(kindInit, failed), waiting}}, want{start: []int{0}}},
		{"sidecar before main", view{prepared: true, units: []unitView{as(kindSidecar, waiting), waiting}}, want{start: []int{0}}},
		{"sidecar not up", view{prepared: true, units: []unitView{{kind: kindSidecar, state: stateRunning}, waiting}}, want{}},
		{"sidecar up", view{prepared: true, units: []unitView{as(kindSidecar, running), waiting}}, want{start: []int{1}}},
		{"sidecar ended", view{prepared: true, units: []unitView{as(kindSidecar, succeeded), running}}, want{start: []int{0}}},
		{"main done, sidecar stops", view{prepared: true, policy: corev1.RestartPolicyNever, units: []unitView{as(kindSidecar, running), succeeded}}, want{stop: []int{0}, outcome: corev1.PodSucceeded}},
		{"always again", view{prepared: true, policy: corev1.RestartPolicyAlways, units: []unitView{succeeded}}, want{start: []int{0}}},
		{"back-off", view{prepared: true, policy: corev1.RestartPolicyAlways, units: []unitView{backingOff}}, want{wake: later}},
		{"on failure, succeeded", view{prepared: true, policy: corev1.RestartPolicyOnFailure, units: []unitView{succeeded}}, want{outcome: corev1.PodSucceeded, over: true}},
		{"one of two failed", view{prepared: true, policy: corev1.RestartPolicyNever, units: []unitView{succeeded, failed}}, want{outcome: corev1.PodFailed, over: true}},
		{"one of two runs", view{prepared: true, policy: corev1.RestartPolicyNever, units: []unitView{failed, running}}, want{}},
		{"deleted", view{prepared: true, ending: true, units: []unitView{as(kindSidecar, running), running, waiting}}, want{stop: []int{1}}},
		{"deleted, sidecar last", view{prepared: true, ending: true, units: []unitView{as(kindSidecar, running), succeeded}}, want{stop: []int{0}}},
		{"deleted before it began", view{ending: true, units: []unitView{waiting}}, want{outcome: corev1.PodFailed, over: true}},
		{"deleted after success", view{ending: true, units: []unitView{succeeded}}, want{outcome: corev1.PodSucceeded, over: true}},
		{"deleted in back-off", view{prepared: true, ending: true, policy: corev1.RestartPolicyAlways, units: []unitView{backingOff}}, want{outcome: corev1.PodFailed, over: true}},
		{"too late", view{prepared: true, ending: true, doomed: true, units: []unitView{succeeded}}, want{outcome: corev1.PodFailed, over: true}},
		{"known outcome stays", view{prepared: true, outcome: corev1.PodSucceeded, policy: corev1.RestartPolicyAlways, units: []unitView{failed}}, want{outcome: corev1.PodSucceeded, over: true}},
		{"unprepared and ended", view{policy: corev1.RestartPolicyNever, units: []unitView{failed}}, want{outcome: corev1.PodFailed, over: true}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			c.view.now = now
			if diff := cmp.Diff(c.want, decide(c.view), cmp.AllowUnexported(want{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestBackOff(t *testing.T) {
	var got []time.Duration
	for ends := range 9 {
		got = append(got, backOff(ends)/time.Second)
	}
	if diff := cmp.Diff([]time.Duration{0, 0, 10, 20, 40, 80, 160, 300, 300}, got); diff != "" {
		t.Error(diff)
	}
}
