package snapshot

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/scheduling"
	"github.com/muster-dev/muster/internal/snapshot/conversion"
)

// TestSharesComeBack: what the journal and a pod's annotation say is what the
// core is shown, and the other way round.
func TestSharesComeBack(t *testing.T) {
	share := scheduling.Share{Milli: 250, MiB: 10240}
	g := &v1alpha1.Gang{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "g", UID: "u"}}
	plan := scheduling.Plan{Attempt: 1, Members: []scheduling.Assignment{
		{Role: "a", Node: "n", GPUs: []string{"x"}, Share: share}, {Role: "b", Node: "n", GPUs: []string{"y"}},
	}}
	p := placementOf(g, plan, 1, metav1.Now().Time)
	members := (world{}).placement(p, g, nil, nil).Members
	if members[0].Share != share || members[1].Share != (scheduling.Share{}) || p.Spec.Members[1].Share != nil {
		t.Errorf("got %+v", members)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.AnnotationGPUShare: conversion.ShareText(share)}}}
	if got := conversion.ShareOf(pod); got != share {
		t.Errorf("got %+v", got)
	}
	for _, text := range []string{"", "half", `{"milli":-1}`} {
		pod.Annotations[v1alpha1.AnnotationGPUShare] = text
		if got := conversion.ShareOf(pod); got != (scheduling.Share{}) {
			t.Errorf("%q is read as %+v; want the whole GPU", text, got)
		}
	}
}

// TestManyMembersComeBack: members of a large plan that are alike share an entry of the
// journal, and the core is shown each of them.
func TestManyMembersComeBack(t *testing.T) {
	g := &v1alpha1.Gang{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "g", UID: "u"}}
	for n, entries := range map[int]int{linesFrom - 1: linesFrom - 1, linesFrom: 2} {
		plan := scheduling.Plan{Attempt: 1, Members: []scheduling.Assignment{{Role: "chief", Node: "n0", GPUs: []string{"c"}}}}
		for i := range n - 1 {
			plan.Members = append(plan.Members, scheduling.Assignment{
				Role: "worker", Index: int32(i), Node: fmt.Sprintf("n%d", i/4), GPUs: []string{fmt.Sprintf("n%d-%d", i/4, i%4)}, Share: scheduling.Share{Milli: 250, MiB: 10240},
			})
		}
		p := placementOf(g, plan, 1, metav1.Now().Time)
		if len(p.Spec.Members) != entries {
			t.Errorf("%d members in %d entries, want %d", n, len(p.Spec.Members), entries)
		}
		var got []scheduling.Assignment
		for _, m := range (world{}).placement(p, g, nil, nil).Members {
			got = append(got, m.Assignment)
		}
		if !reflect.DeepEqual(got, plan.Members) {
			t.Errorf("%d members came back as %+v", n, got)
		}
		m := newMirror()
		m.journal[g.UID] = map[types.NamespacedName]*v1alpha1.Placement{{Name: p.Name}: p}
		for _, name := range []string{"chief-0", "worker-0", fmt.Sprintf("worker-%d", n-2)} {
			if m.journalOf(g.UID, name) != p {
				t.Errorf("%d members: %s is in no journal", n, name)
			}
		}
		if m.journalOf(g.UID, fmt.Sprintf("worker-%d", n-1)) != nil {
			t.Errorf("%d members: one that there is not is in a journal", n)
		}
	}
}

func TestPodShare(t *testing.T) {
	container := func(limits ...string) corev1.Container {
		list := corev1.ResourceList{}
		for i := 0; i < len(limits); i += 2 {
			list[corev1.ResourceName(limits[i])] = resource.MustParse(limits[i+1])
		}
		return corev1.Container{Name: "c", Resources: corev1.ResourceRequirements{Limits: list}}
	}
	const milli, memory, whole = v1alpha1.ResourceGPUMilli, v1alpha1.ResourceGPUMemory, v1alpha1.ResourceGPU
	for _, c := range []struct {
		name       string
		containers []corev1.Container
		share      scheduling.Share
		says       string
	}{
		{"nothing", []corev1.Container{container("cpu", "1")}, scheduling.Share{}, ""},
		{"a share of nothing", []corev1.Container{container(milli, "0", whole, "1")}, scheduling.Share{}, ""},
		{"thousandths", []corev1.Container{container(milli, "250"), container()}, scheduling.Share{Milli: 250}, ""},
		{"memory", []corev1.Container{container(memory, "8Gi")}, scheduling.Share{MiB: 8192}, ""},
		{"both", []corev1.Container{container(milli, "250", memory, "8Gi")}, scheduling.Share{Milli: 250, MiB: 8192}, ""},
		{"too much", []corev1.Container{container(milli, "1000")}, scheduling.Share{}, "from 1 to 999"},
		{"whole beside it", []corev1.Container{container(milli, "250", whole, "1")}, scheduling.Share{}, "give one or the other"},
		{"whole in another container", []corev1.Container{container(whole, "1"), container(milli, "250")}, scheduling.Share{}, "give one or the other"},
		{"two containers", []corev1.Container{container(milli, "250"), container(memory, "1Gi")}, scheduling.Share{}, "one container of a pod may"},
	} {
		t.Run(c.name, func(t *testing.T) {
			pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: c.containers}}
			req := (world{}).podRequest(pod)
			if c.says != "" {
				if !strings.Contains(req.Unsupported, c.says) {
					t.Errorf("says %q, want %q", req.Unsupported, c.says)
				}
				return
			}
			if role := req.Roles[0]; req.Unsupported != "" || role.Share != c.share || len(role.Resources.Other) > 0 {
				t.Errorf("got %q, %+v", req.Unsupported, role)
			}
		})
	}
}
