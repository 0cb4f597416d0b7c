//go:build embedded

package manager_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/controlplane/planetest"
	"github.com/muster-dev/muster/internal/manager"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

// stage is a real API server with nodes that exist on paper.
type stage struct {
	t      *testing.T
	api    client.WithWatch
	config *rest.Config
}

func newStage(t *testing.T) *stage {
	t.Helper()
	plane := planetest.Start(t)
	scheme, err := manager.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	api, err := client.NewWithWatch(plane.RESTConfig(), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{t: t, api: api, config: plane.RESTConfig()}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.SystemNamespace}}
	if err := client.IgnoreAlreadyExists(api.Create(t.Context(), namespace)); err != nil {
		t.Fatal(err)
	}
	return s
}

// running is a manager that runs.
type running struct {
	*manager.Manager
	stop func() error
}

// run runs a manager as a cluster's, until it is stopped or the test ends.
func (s *stage) run(name string) *running {
	s.t.Helper()
	return s.runWith(name, func(*manager.Options) {})
}

func (s *stage) runWith(name string, edit func(*manager.Options)) *running {
	s.t.Helper()
	o := manager.Options{REST: s.config, Identity: name, LeaseDuration: 3 * time.Second, SeveralHere: true}
	edit(&o)
	m, err := manager.New(o)
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(s.t.Context())
	done := make(chan error, 1)
	go func() { done <- m.Start(ctx) }()
	stop := sync.OnceValue(func() error {
		cancel()
		return <-done
	})
	s.t.Cleanup(func() {
		if err := stop(); err != nil {
			s.t.Errorf("%s: %v", name, err)
		}
	})
	return &running{m, stop}
}

// node makes a node that counts its GPUs, owned or not, which is ready.
func (s *stage) node(name string, gpus int64, owned bool) {
	s.t.Helper()
	amounts := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("16"), corev1.ResourceMemory: resource.MustParse("64Gi"), corev1.ResourcePods: resource.MustParse("110"),
	}
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
	if gpus > 0 {
		amounts[v1alpha1.ResourceGPU] = *resource.NewQuantity(gpus, resource.DecimalSI)
		n.Labels[v1alpha1.LabelGPUModel], n.Labels[v1alpha1.LabelGPUMemory] = "NVIDIA-A100-SXM4-80GB", "81920"
	}
	if owned {
		n.Labels[v1alpha1.LabelOwned] = "true"
		n.Spec.Taints = []corev1.Taint{{Key: v1alpha1.TaintOwned, Effect: corev1.TaintEffectNoSchedule}}
	}
	if err := s.api.Create(s.t.Context(), n); err != nil {
		s.t.Fatal(err)
	}
	n.Status.Capacity, n.Status.Allocatable = amounts, amounts
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now()}}
	if err := s.api.Status().Update(s.t.Context(), n); err != nil {
		s.t.Fatal(err)
	}
}

// gang makes a gang of so many members with so many GPUs each.
func (s *stage) gang(name string, members int32, gpus string, edit ...func(*v1alpha1.Gang)) *v1alpha1.Gang {
	s.t.Helper()
	q := resource.MustParse(gpus)
	g := &v1alpha1.Gang{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: v1alpha1.GangSpec{DoneWhen: []string{"worker"}, Roles: []v1alpha1.GangRole{{
			Name: "worker", Replicas: members, GPUs: &q,
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "python:3.13"}}}},
		}}},
	}
	for _, e := range edit {
		e(g)
	}
	if err := s.api.Create(s.t.Context(), g); err != nil {
		s.t.Fatal(err)
	}
	return g
}

// await waits until a condition holds of an object, looking whenever any of its
// kind changes.
func await[T client.Object, L client.ObjectList](s *stage, list L, what string, holds func(T) bool) T {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	defer func(begin time.Time) { s.t.Logf("%s after %s", what, time.Since(begin).Round(time.Millisecond)) }(time.Now())
	changes, err := s.api.Watch(ctx, list)
	if err != nil {
		s.t.Fatal(err)
	}
	defer changes.Stop()
	var last T
	for event := range changes.ResultChan() {
		if o, ok := event.Object.(T); ok {
			if last = o; holds(o) {
				return o
			}
		}
	}
	var gangs v1alpha1.GangList
	_ = s.api.List(s.t.Context(), &gangs)
	for i := range gangs.Items {
		s.t.Logf("gang %s: %s: %s", gangs.Items[i].Name, gangs.Items[i].Status.Phase, gangs.Items[i].Status.Message)
	}
	s.t.Fatalf("%s: not within a minute", what)
	return last
}

// awaitGang waits until a condition holds of a gang.
func (s *stage) awaitGang(name, what string, holds func(*v1alpha1.Gang) bool) *v1alpha1.Gang {
	s.t.Helper()
	return await(s, &v1alpha1.GangList{}, what, func(g *v1alpha1.Gang) bool { return g.Name == name && holds(g) })
}

// pods are the pods of a gang.
func (s *stage) pods(gang string) []corev1.Pod {
	s.t.Helper()
	var list corev1.PodList
	if err := s.api.List(s.t.Context(), &list, client.MatchingLabels{v1alpha1.LabelGang: gang}); err != nil {
		s.t.Fatal(err)
	}
	return list.Items
}

// awaitPods waits until a gang has so many pods that have not ended.
func (s *stage) awaitPods(gang string, n int) []corev1.Pod {
	s.t.Helper()
	seen := map[string]bool{}
	await(s, &corev1.PodList{}, fmt.Sprintf("%d pods of %s", n, gang), func(p *corev1.Pod) bool {
		if p.Labels[v1alpha1.LabelGang] == gang && p.DeletionTimestamp == nil && p.Status.Phase != corev1.PodFailed {
			seen[p.Name] = true
		}
		return len(seen) >= n
	})
	return s.pods(gang)
}

// say sets a pod's phase, as a kubelet does.
func (s *stage) say(p *corev1.Pod, phase corev1.PodPhase, reason, message string) {
	s.t.Helper()
	after := p.DeepCopy()
	after.Status.Phase, after.Status.Reason, after.Status.Message = phase, reason, message
	if err := s.api.Status().Patch(s.t.Context(), after, client.MergeFrom(p)); err != nil {
		s.t.Fatal(err)
	}
}

// letGo removes a pod that was told to end, as a kubelet does once it has.
func (s *stage) letGo(p *corev1.Pod) {
	s.t.Helper()
	await(s, &corev1.PodList{}, "the end of "+p.Name, func(o *corev1.Pod) bool { return o.UID == p.UID && o.DeletionTimestamp != nil })
	if err := s.api.Delete(s.t.Context(), p, client.GracePeriodSeconds(0)); err != nil {
		s.t.Fatal(err)
	}
}

// key names an object that is in no namespace.
func key(name string) client.ObjectKey { return client.ObjectKey{Name: name} }
