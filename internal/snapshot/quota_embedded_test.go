//go:build embedded

package snapshot_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// TestQuotas: gangs that a ResourceQuota of their namespace has no room for as
// a whole wait without a pod ever being made, and start once there is room.
func TestQuotas(t *testing.T) {
	s := newStage(t)
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "team"},
		Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{
			corev1.ResourcePods: resource.MustParse("3"), "requests.nvidia.com/gpu": resource.MustParse("5"),
		}},
	}
	if err := s.api.Create(t.Context(), quota); err != nil {
		t.Fatal(err)
	}
	says := func(name, part string) {
		t.Helper()
		s.Eventually(name+" is told: "+part, func() bool { return strings.Contains(s.gang(name).Status.Message, part) })
	}
	untouched := func(name string) {
		t.Helper()
		if g := s.gang(name); g.Status.Attempt != 0 || g.Status.Refusals != 0 {
			t.Errorf("%s was placed: %+v", name, g.Status)
		}
	}
	made := s.countPods(t)
	// 1. Larger than the quota, as a whole: each member alone would be allowed.
	s.submit("large", 4, "1")
	says("large", "impossible now: this asks for 4 pods, and quota team of namespace default allows 3 pods in all")
	// 2. Two that have room one at a time, submitted together.
	s.submit("first", 2, "1")
	s.submit("second", 2, "1")
	s.Eventually("one of two running", func() bool {
		return s.gang("first").Status.Phase == v1alpha1.GangRunning || s.gang("second").Status.Phase == v1alpha1.GangRunning
	})
	runs, waits := "first", "second"
	if s.gang(runs).Status.Phase != v1alpha1.GangRunning {
		runs, waits = waits, runs
	}
	says(waits, "quota team of namespace default allows 3 pods, of which 2 pods are used, and this asks for 2 pods; held by default/"+runs+" (2 pods")
	untouched("large")
	untouched(waits)
	if n := made("large", waits); n > 0 {
		t.Errorf("%d pods were made of gangs that a quota has no room for", n)
	}
	// 3. Room, as the other goes.
	s.remove(runs, metav1.DeletePropagationBackground)
	s.running(waits)
	if g := s.gang(waits); g.Status.Attempt != 1 || g.Status.Refusals != 0 {
		t.Errorf("not placed at once: %+v", g.Status)
	}
	// 4. A quota that is raised.
	says("large", "impossible now")
	s.Eventually("the quota raised", func() bool {
		if err := s.api.Get(t.Context(), client.ObjectKeyFromObject(quota), quota); err != nil {
			t.Fatal(err)
		}
		quota.Spec.Hard[corev1.ResourcePods], quota.Spec.Hard["requests.nvidia.com/gpu"] = resource.MustParse("10"), resource.MustParse("6")
		return s.api.Update(t.Context(), quota) == nil
	})
	s.running("large")
	if g := s.gang("large"); g.Status.Attempt != 1 || g.Status.Refusals != 0 {
		t.Errorf("not placed at once: %+v", g.Status)
	}
	// 5. Full of GPUs, as the API server counts them: even one pod would be
	// refused, and the quota is named all the same.
	s.Eventually("the API server's own count", func() bool {
		err := s.api.Get(t.Context(), client.ObjectKeyFromObject(quota), quota)
		used := quota.Status.Used["requests.nvidia.com/gpu"]
		return err == nil && used.Value() == 6
	})
	s.submit("small", 1, "1")
	says("small", "quota team of namespace default allows 6 GPUs (requests.nvidia.com/gpu), of which 6 GPUs are used")
	s.remove("large", metav1.DeletePropagationBackground)
	s.running("small")
	// 6. Limits that a LimitRange gives the pods count as well.
	for _, o := range []client.Object{
		&corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "limits"}, Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
			Type: corev1.LimitTypeContainer, Default: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")},
		}}}},
		&corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "cores"}, Spec: corev1.ResourceQuotaSpec{
			Hard: corev1.ResourceList{"limits.cpu": resource.MustParse("2")},
		}},
	} {
		if err := s.api.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	s.submit("wide", 3, "0")
	says("wide", "impossible now: this asks for 3 CPUs, and quota cores of namespace default allows 2 CPUs in all (limits.cpu)")
	if n := made("wide"); n > 0 {
		t.Errorf("%d pods were made", n)
	}
}

// countPods counts the pods that appear of gangs from now on, and tells by
// their names.
func (s *stage) countPods(t *testing.T) func(gangs ...string) int {
	t.Helper()
	events, err := s.api.Watch(t.Context(), &corev1.PodList{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(events.Stop)
	seen := map[string]int{}
	return func(gangs ...string) int {
		for {
			select {
			case e := <-events.ResultChan():
				if p, ok := e.Object.(*corev1.Pod); ok && e.Type == watch.Added {
					seen[p.Labels[v1alpha1.LabelGang]]++
				}
				continue
			default:
			}
			n := 0
			for _, name := range gangs {
				n += seen[name]
			}
			return n
		}
	}
}
