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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/controlplane/planetest"
	"github.com/muster-dev/muster/internal/manager"
	"github.com/muster-dev/muster/internal/nodetest"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

// stage is a real API server with simulated nodes.
type stage struct {
	*nodetest.Cluster
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
	s := &stage{Cluster: nodetest.New(t, api), t: t, api: api, config: plane.RESTConfig()}
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
	return s.Pods(gang)
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
