package lifecycle

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func TestDecide(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	later := now.Add(time.Minute)
	waiting, running := Container{Kind: Main}, Container{Kind: Main, State: Running, Up: true}
	succeeded, failed := Container{Kind: Main, State: Ended}, Container{Kind: Main, State: Ended, Failed: true}
	as := func(k Kind, u Container) Container { u.Kind = k; return u }
	backingOff := failed
	backingOff.NotBefore = later
	type want = Decision
	cases := []struct {
		name string
		Pod  Pod
		want want
	}{
		{"not prepared", Pod{Units: []Container{waiting}}, want{}},
		{"starts all", Pod{Prepared: true, Units: []Container{waiting, waiting}}, want{Start: []int{0, 1}}},
		{"runs", Pod{Prepared: true, Units: []Container{running}}, want{}},
		{"init first", Pod{Prepared: true, Units: []Container{as(Init, waiting), as(Init, waiting), waiting}}, want{Start: []int{0}}},
		{"init runs", Pod{Prepared: true, Units: []Container{as(Init, running), as(Init, waiting), waiting}}, want{}},
		{"init done", Pod{Prepared: true, Units: []Container{as(Init, succeeded), waiting}}, want{Start: []int{1}}},
		{"init failed, never again", Pod{Prepared: true, Policy: corev1.RestartPolicyNever, Units: []Container{as(Init, failed), waiting}}, want{Outcome: corev1.PodFailed, Over: true}},
		{"init failed, again", Pod{Prepared: true, Policy: corev1.RestartPolicyOnFailure, Units: []Container{as(Init, failed), waiting}}, want{Start: []int{0}}},
		{"sidecar before main", Pod{Prepared: true, Units: []Container{as(Sidecar, waiting), waiting}}, want{Start: []int{0}}},
		{"sidecar not up", Pod{Prepared: true, Units: []Container{{Kind: Sidecar, State: Running}, waiting}}, want{}},
		{"sidecar up", Pod{Prepared: true, Units: []Container{as(Sidecar, running), waiting}}, want{Start: []int{1}}},
		{"sidecar ended", Pod{Prepared: true, Units: []Container{as(Sidecar, succeeded), running}}, want{Start: []int{0}}},
		{"main done, sidecar stops", Pod{Prepared: true, Policy: corev1.RestartPolicyNever, Units: []Container{as(Sidecar, running), succeeded}}, want{Stop: []int{0}, Outcome: corev1.PodSucceeded}},
		{"always again", Pod{Prepared: true, Policy: corev1.RestartPolicyAlways, Units: []Container{succeeded}}, want{Start: []int{0}}},
		{"back-off", Pod{Prepared: true, Policy: corev1.RestartPolicyAlways, Units: []Container{backingOff}}, want{Wake: later}},
		{"on failure, succeeded", Pod{Prepared: true, Policy: corev1.RestartPolicyOnFailure, Units: []Container{succeeded}}, want{Outcome: corev1.PodSucceeded, Over: true}},
		{"one of two failed", Pod{Prepared: true, Policy: corev1.RestartPolicyNever, Units: []Container{succeeded, failed}}, want{Outcome: corev1.PodFailed, Over: true}},
		{"one of two runs", Pod{Prepared: true, Policy: corev1.RestartPolicyNever, Units: []Container{failed, running}}, want{}},
		{"deleted", Pod{Prepared: true, Ending: true, Units: []Container{as(Sidecar, running), running, waiting}}, want{Stop: []int{1}}},
		{"deleted, sidecar last", Pod{Prepared: true, Ending: true, Units: []Container{as(Sidecar, running), succeeded}}, want{Stop: []int{0}}},
		{"deleted before it began", Pod{Ending: true, Units: []Container{waiting}}, want{Outcome: corev1.PodFailed, Over: true}},
		{"deleted after success", Pod{Ending: true, Units: []Container{succeeded}}, want{Outcome: corev1.PodSucceeded, Over: true}},
		{"deleted in back-off", Pod{Prepared: true, Ending: true, Policy: corev1.RestartPolicyAlways, Units: []Container{backingOff}}, want{Outcome: corev1.PodFailed, Over: true}},
		{"too late", Pod{Prepared: true, Ending: true, Doomed: true, Units: []Container{succeeded}}, want{Outcome: corev1.PodFailed, Over: true}},
		{"known outcome stays", Pod{Prepared: true, Outcome: corev1.PodSucceeded, Policy: corev1.RestartPolicyAlways, Units: []Container{failed}}, want{Outcome: corev1.PodSucceeded, Over: true}},
		{"unprepared and ended", Pod{Policy: corev1.RestartPolicyNever, Units: []Container{failed}}, want{Outcome: corev1.PodFailed, Over: true}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			c.Pod.Now = now
			if diff := cmp.Diff(c.want, Decide(c.Pod), cmp.AllowUnexported(want{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestBackOff(t *testing.T) {
	var got []time.Duration
	for ends := range 9 {
		got = append(got, BackOff(ends)/time.Second)
	}
	if diff := cmp.Diff([]time.Duration{0, 0, 10, 20, 40, 80, 160, 300, 300}, got); diff != "" {
		t.Error(diff)
	}
}
