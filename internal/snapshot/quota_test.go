package snapshot

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/scheduling"
	"github.com/muster-dev/muster/internal/snapshot/conversion"
	"github.com/muster-dev/muster/internal/snapshot/dryrun"
)

// hard is a quota that the API server has counted.
func hard(used corev1.ResourceList, hard corev1.ResourceList, edit func(*corev1.ResourceQuota)) corev1.ResourceQuota {
	q := corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: "vision", Name: "q"},
		Spec:       corev1.ResourceQuotaSpec{Hard: hard}, Status: corev1.ResourceQuotaStatus{Hard: hard, Used: used},
	}
	if edit != nil {
		edit(&q)
	}
	return q
}

// What is used is what the API server has counted, or the pods that are there
// if these are more, and the members of live placements without a pod.
func TestQuotasOfTheWorld(t *testing.T) {
	gpus := corev1.ResourceName("requests." + string(v1alpha1.ResourceGPU))
	list := func(pods, gpu string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourcePods: resource.MustParse(pods), gpus: resource.MustParse(gpu)}
	}
	term := func(name corev1.ResourceName, hard, used int64) scheduling.QuotaTerm {
		return scheduling.QuotaTerm{Resource: string(name), Hard: hard, Used: used}
	}
	tests := []struct {
		name   string
		quota  corev1.ResourceQuota
		gang   func(*v1alpha1.Gang)
		member func(*corev1.Pod) // of two members, the first has a pod
		want   []scheduling.QuotaTerm
		scopes []scheduling.QuotaScope
	}{
		{name: "counted", quota: hard(list("5", "7"), list("8", "9"), nil), want: []scheduling.QuotaTerm{term("pods", 8, 6), term(gpus, 9, 10)}},
		{name: "the count lags", quota: hard(list("0", "0"), list("8", "9"), nil), want: []scheduling.QuotaTerm{term("pods", 8, 2), term(gpus, 9, 6)}},
		{
			name: "not counted yet", quota: hard(nil, list("8", "9"), func(q *corev1.ResourceQuota) { q.Status.Hard = nil }),
			want: []scheduling.QuotaTerm{
				{Resource: "pods", Hard: 8, Used: 2, Uncounted: true}, {Resource: string(gpus), Hard: 9, Used: 6, Uncounted: true},
			},
		},
		{
			name: "a pod that has ended, and is made again", quota: hard(list("0", "0"), list("8", "9"), nil),
			member: func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, want: []scheduling.QuotaTerm{term("pods", 8, 2), term(gpus, 9, 6)},
		},
		{
			name: "no more pods are made", quota: hard(list("1", "3"), list("8", "9"), nil),
			gang: func(g *v1alpha1.Gang) { g.Status.Outcome = v1alpha1.GangFailed }, want: []scheduling.QuotaTerm{term("pods", 8, 1), term(gpus, 9, 3)},
		},
		{
			name: "of other things", quota: hard(nil, corev1.ResourceList{"services": resource.MustParse("1"), "requests.storage": resource.MustParse("1Gi"), "count/secrets": resource.MustParse("1")}, nil),
		},
		{
			name: "a scope", quota: hard(list("0", "0"), list("8", "9"), func(q *corev1.ResourceQuota) {
				q.Spec.Scopes = []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeTerminating}
			}),
			want: []scheduling.QuotaTerm{term("pods", 8, 0), term(gpus, 9, 0)}, scopes: []scheduling.QuotaScope{{Kind: scheduling.ScopeTerminating}},
		},
		{
			name: "a scope that is not understood", quota: hard(list("0", "0"), list("8", "9"), func(q *corev1.ResourceQuota) {
				q.Spec.Scopes = []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeCrossNamespacePodAffinity}
			}),
		},
		{
			name:  "CPU in thousandths",
			quota: hard(corev1.ResourceList{"limits.cpu": resource.MustParse("1500m")}, corev1.ResourceList{"limits.cpu": resource.MustParse("2")}, nil),
			want:  []scheduling.QuotaTerm{term("limits.cpu", 2000, 1500)},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := testGang("g", 2, "3")
			if tt.gang != nil {
				tt.gang(g)
			}
			p := testPod("g-worker-0", "3")
			p.Spec.NodeName = "here"
			p.Labels = map[string]string{v1alpha1.LabelRole: "worker", v1alpha1.LabelIndex: "0"}
			yes := true
			p.OwnerReferences = []metav1.OwnerReference{{Kind: "Gang", UID: g.UID, Controller: &yes}}
			if tt.member != nil {
				tt.member(p)
			}
			w := world{
				gangs: []v1alpha1.Gang{*g}, pods: []corev1.Pod{*p}, quotas: []corev1.ResourceQuota{tt.quota},
				placements: []v1alpha1.Placement{{ObjectMeta: metav1.ObjectMeta{Namespace: "vision", Name: "g-1"}, Spec: v1alpha1.PlacementSpec{
					Gang: "g", GangUID: g.UID, Attempt: 1, Nodes: []string{"here"}, Members: []v1alpha1.PlacedMember{{Role: "worker"}, {Role: "worker", Index: 1}},
				}}},
				priority: func(string) int32 { return 0 }, mine: func(*corev1.Pod) bool { return false }, counted: conversion.GPUResources(nil).PodRole,
				learn: func(*v1alpha1.Gang) (dryrun.Answer, bool) { return dryrun.Answer{}, false }, highest: map[types.UID]int32{},
			}
			var want []scheduling.Quota
			if tt.want != nil {
				want = []scheduling.Quota{{Key: scheduling.Key{Namespace: "vision", Name: "q"}, Terms: tt.want, Scopes: tt.scopes}}
			}
			if diff := cmp.Diff(want, w.snapshot(time.Unix(1, 0)).Quotas); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
