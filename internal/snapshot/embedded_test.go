//go:build embedded

package snapshot_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/controller/gang"
	"github.com/muster-dev/muster/internal/controlplane/planetest"
	"github.com/muster-dev/muster/internal/nodetest"
	"github.com/muster-dev/muster/internal/scheduling"
	"github.com/muster-dev/muster/internal/snapshot"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

// stage is a real API server with the loop, the gang controller and a
// simulated kubelet.
type stage struct {
	*nodetest.Cluster
	t   *testing.T
	api client.WithWatch
}

func newStage(t *testing.T) *stage {
	t.Helper()
	plane := planetest.Start(t)
	ctx, cancel := context.WithCancel(t.Context())
	starting, started := context.WithTimeout(ctx, time.Minute)
	defer started()
	var wg sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		wg.Wait()
	})
	mgr, loop, api := wire(t, plane.RESTConfig())
	wg.Go(func() {
		if err := mgr.Start(ctx); err != nil {
			t.Error(err)
		}
	})
	select {
	case <-loop.Ready():
	case <-starting.Done():
		t.Fatal("the loop is not ready")
	}
	s := &stage{Cluster: nodetest.New(t, api), t: t, api: api}
	s.Kubelet(true)
	s.makeNode(ctx)
	return s
}

// wire puts a manager together as the product does.
func wire(t *testing.T, config *rest.Config) (ctrl.Manager, *snapshot.Loop, client.WithWatch) {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	yes := true // every test of this process sets up a controller of the same name
	options := ctrl.Options{Scheme: scheme, Metrics: server.Options{BindAddress: "0"}}
	options.Controller.SkipNameValidation = &yes
	mgr, err := ctrl.NewManager(config, options)
	if err != nil {
		t.Fatal(err)
	}
	loop, err := snapshot.NewLoop(snapshot.Options{Cache: mgr.GetCache(), Client: mgr.GetClient(), Live: mgr.GetAPIReader(), DefaultScheduler: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := mgr.Add(loop); err != nil {
		t.Fatal(err)
	}
	if err := gang.New(gang.Options{Client: mgr.GetClient(), Live: mgr.GetAPIReader()}).SetupWithManager(mgr); err != nil {
		t.Fatal(err)
	}
	direct, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return mgr, loop, direct
}

func (s *stage) makeNode(ctx context.Context) {
	s.t.Helper()
	s.addNode(ctx, "here", "GPU", 8, nil)
	s.Eventually("the default service account", func() bool {
		return s.api.Get(ctx, client.ObjectKey{Namespace: "default", Name: "default"}, &corev1.ServiceAccount{}) == nil
	})
}

// addNode makes a node with so many GPUs, whose UUIDs begin as given.
func (s *stage) addNode(ctx context.Context, name, uuid string, gpus int, labels map[string]string) {
	s.t.Helper()
	inventory := v1alpha1.NodeInventory{HostPorts: &v1alpha1.PortRange{First: 20000, Last: 29999}}
	for i := range gpus {
		inventory.GPUs = append(inventory.GPUs, v1alpha1.GPUDevice{Index: i, UUID: fmt.Sprintf("%s-%d", uuid, i), Model: "A100"})
	}
	text, _ := json.Marshal(inventory)
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels, Annotations: map[string]string{v1alpha1.AnnotationInventory: string(text)}}}
	s.Add(n, corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("256Gi"),
		corev1.ResourcePods: resource.MustParse("1000"), v1alpha1.ResourceGPU: *resource.NewQuantity(int64(gpus), resource.DecimalSI),
	})
	s.Eventually("a node without taints", func() bool {
		return s.api.Get(ctx, client.ObjectKey{Name: name}, n) == nil && len(n.Spec.Taints) == 0
	})
}

// submit makes a gang of this machine's own programs, which ends as the product's gangs do.
func (s *stage) submit(name string, workers int32, gpus string) *v1alpha1.Gang {
	s.t.Helper()
	return s.Gang(name, workers, gpus, func(g *v1alpha1.Gang) {
		g.Finalizers = []string{v1alpha1.GangFinalizer}
		g.Spec.Roles[0].Template.Spec.Containers[0].Image = "muster.dev/host"
	})
}

func (s *stage) gang(name string) *v1alpha1.Gang {
	s.t.Helper()
	g := &v1alpha1.Gang{}
	err := s.api.Get(s.t.Context(), client.ObjectKey{Namespace: "default", Name: name}, g)
	if client.IgnoreNotFound(err) != nil {
		s.t.Fatal(err)
	}
	if err != nil {
		return nil
	}
	return g
}

func (s *stage) running(name string) {
	s.t.Helper()
	s.Eventually(name+" running", func() bool { return s.gang(name).Status.Phase == v1alpha1.GangRunning })
}

func (s *stage) remove(name string, policy metav1.DeletionPropagation) {
	s.t.Helper()
	if err := s.api.Delete(s.t.Context(), s.gang(name), client.PropagationPolicy(policy)); err != nil {
		s.t.Fatal(err)
	}
	s.Eventually("nothing left of "+name, func() bool {
		list := &v1alpha1.PlacementList{}
		return s.gang(name) == nil && len(s.Pods(name)) == 0 &&
			s.api.List(s.t.Context(), list, client.MatchingLabels{v1alpha1.LabelGang: name}) == nil && len(list.Items) == 0
	})
}

// TestAgainstTheRealThing runs whole lives of gangs over a real API server.
func TestAgainstTheRealThing(t *testing.T) {
	s := newStage(t)
	for _, tt := range []struct {
		members int32
		gpus    string
	}{{5, "1"}, {5, "1"}, {5, "1"}, {100, "0"}, {100, "0"}} {
		begin := time.Now()
		s.submit("speed", tt.members, tt.gpus)
		s.Eventually("pods", func() bool { return len(s.Pods("speed")) == int(tt.members) })
		made := time.Since(begin)
		s.running("speed")
		t.Logf("%d members: submit to pods created %s, to running %s", tt.members, made, time.Since(begin))
		if g := s.gang("speed"); g.Status.Attempt != 1 || g.Status.Restarts != 0 {
			t.Errorf("not placed at once: %+v", g.Status)
		}
		begin = time.Now()
		s.remove("speed", metav1.DeletePropagationForeground)
		t.Logf("%d members: deleted in %s", tt.members, time.Since(begin))
	}
	t.Run("the next gang takes over", func(t *testing.T) { s.handover(t) })
	t.Run("a foreign pod", func(t *testing.T) { s.foreign(t) })
	t.Run("a thousand submits at once", func(t *testing.T) { s.thousand(t) })
}

func (s *stage) handover(t *testing.T) {
	s.submit("first", 4, "2")
	s.running("first")
	s.submit("second", 1, "8")
	s.Eventually("a reason", func() bool { return s.gang("second").Status.Message != "" })
	t.Log(s.gang("second").Status.Message)
	taken, err := snapshot.Take(t.Context(), s.api, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	x, ok := scheduling.Account(taken, scheduling.Key{Namespace: "default", Name: "second"}, false)
	if !ok || x.Reason.Code() != scheduling.CodeGPUs {
		t.Errorf("explained: %+v, %v", x, ok)
	}
	pods := s.Pods("first")
	begin := time.Now()
	for i := range pods {
		s.Eventually("a member ended", func() bool {
			p := &corev1.Pod{}
			if err := s.api.Get(t.Context(), client.ObjectKeyFromObject(&pods[i]), p); err != nil {
				t.Fatal(err)
			}
			p.Status.Phase = corev1.PodSucceeded
			return !apierrors.IsConflict(s.api.Status().Update(t.Context(), p))
		})
	}
	s.Eventually("the next pod", func() bool { return len(s.Pods("second")) == 1 })
	t.Logf("first of 4 members ended to next gang's pod created: %s", time.Since(begin))
	s.Eventually("success", func() bool { return s.gang("first").Status.Phase == v1alpha1.GangSucceeded })
	s.remove("first", metav1.DeletePropagationBackground)
	s.remove("second", metav1.DeletePropagationBackground)
}

func (s *stage) foreign(t *testing.T) {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "foreign"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "x", Resources: corev1.ResourceRequirements{
			Limits: corev1.ResourceList{v1alpha1.ResourceGPU: resource.MustParse("2")},
		}}}},
	}
	if err := s.api.Create(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	s.Eventually("bound", func() bool {
		return s.api.Get(t.Context(), client.ObjectKeyFromObject(p), p) == nil && p.Spec.NodeName == "here"
	})
	if len(p.Annotations[v1alpha1.AnnotationGPUs]) != len("GPU-0,GPU-1") {
		t.Errorf("annotations %v", p.Annotations)
	}
	if err := s.api.Delete(t.Context(), p, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
}

func (s *stage) thousand(t *testing.T) {
	begin := time.Now()
	var wg sync.WaitGroup
	slots := make(chan struct{}, 32)
	for i := range 1000 {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			s.submit(fmt.Sprintf("many-%d", i), 1, "1")
		})
	}
	wg.Wait()
	t.Logf("1000 gangs submitted in %s", time.Since(begin))
	s.Eventually("8 placed", func() bool {
		list := &v1alpha1.PlacementList{}
		return s.api.List(t.Context(), list) == nil && len(list.Items) == 8
	})
	s.Eventually("each has a reason", func() bool {
		list := &v1alpha1.GangList{}
		if err := s.api.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, g := range list.Items {
			if g.Status.Message != "" {
				n++
			}
		}
		return n == 992
	})
	t.Logf("8 placed and 992 told why not after %s", time.Since(begin))
}
