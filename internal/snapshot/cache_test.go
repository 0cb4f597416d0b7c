package snapshot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/muster-dev/muster/api/v1alpha1"
)

var testScheme = sync.OnceValues(func() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	return s, errors.Join(clientgoscheme.AddToScheme(s), v1alpha1.AddToScheme(s))
})

// testAPI is an API server in memory that dry runs and binds.
func testAPI(t *testing.T, funcs interceptor.Funcs, objects ...client.Object) client.WithWatch {
	t.Helper()
	scheme, err := testScheme()
	if err != nil {
		t.Fatal(err)
	}
	tracker := clienttesting.NewObjectTracker(scheme, serializer.NewCodecFactory(scheme).UniversalDecoder())
	api := fake.NewClientBuilder().WithScheme(scheme).WithObjectTracker(tracker).
		WithStatusSubresource(&v1alpha1.Gang{}, &corev1.Pod{}).WithObjects(objects...).Build()
	if funcs.Create == nil {
		funcs.Create = func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if dryRun(opts) {
				return nil
			}
			return c.Create(ctx, o, opts...)
		}
	}
	if funcs.SubResourceCreate == nil {
		funcs.SubResourceCreate = bindAsServer
	}
	return interceptor.NewClient(api, funcs)
}

func dryRun(opts []client.CreateOption) bool {
	var o client.CreateOptions
	o.ApplyOptions(opts)
	return len(o.DryRun) > 0
}

// bindAsServer binds as the API server does: the annotations of the binding
// become the pod's.
func bindAsServer(ctx context.Context, c client.Client, _ string, o client.Object, sub client.Object, _ ...client.SubResourceCreateOption) error {
	b := sub.(*corev1.Binding)
	p := &corev1.Pod{}
	if err := c.Get(ctx, client.ObjectKeyFromObject(o), p); err != nil {
		return err
	}
	if b.ResourceVersion != "" && b.ResourceVersion != p.ResourceVersion || p.Spec.NodeName != "" {
		return apierrors.NewConflict(corev1.Resource("pods/binding"), p.Name, errors.New("the pod has changed"))
	}
	p.Spec.NodeName = b.Target.Name
	if p.Annotations == nil {
		p.Annotations = map[string]string{}
	}
	for k, v := range b.Annotations {
		p.Annotations[k] = v
	}
	return c.Update(ctx, p)
}

// testCache is an informer cache over the API in memory.
type testCache struct {
	cache.Cache
	api       client.WithWatch
	informers map[string]toolscache.SharedIndexInformer
}

// newTestCache watches every kind that the loop does and stops with the test.
func newTestCache(t *testing.T, api client.WithWatch) *testCache {
	t.Helper()
	c := &testCache{api: api, informers: map[string]toolscache.SharedIndexInformer{}}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	lists := map[client.Object]func() client.ObjectList{
		&corev1.Node{}:                func() client.ObjectList { return &corev1.NodeList{} },
		&corev1.Pod{}:                 func() client.ObjectList { return &corev1.PodList{} },
		&v1alpha1.Gang{}:              func() client.ObjectList { return &v1alpha1.GangList{} },
		&v1alpha1.Placement{}:         func() client.ObjectList { return &v1alpha1.PlacementList{} },
		&schedulingv1.PriorityClass{}: func() client.ObjectList { return &schedulingv1.PriorityClassList{} },
		&v1alpha1.Queue{}:             func() client.ObjectList { return &v1alpha1.QueueList{} },
		&corev1.Namespace{}:           func() client.ObjectList { return &corev1.NamespaceList{} },
		&corev1.ResourceQuota{}:       func() client.ObjectList { return &corev1.ResourceQuotaList{} },
		&resourcev1.ResourceSlice{}:   func() client.ObjectList { return &resourcev1.ResourceSliceList{} },

		&resourcev1.ResourceClaim{}:     func() client.ObjectList { return &resourcev1.ResourceClaimList{} },
		&corev1.PersistentVolumeClaim{}: func() client.ObjectList { return &corev1.PersistentVolumeClaimList{} },
		&corev1.PersistentVolume{}:      func() client.ObjectList { return &corev1.PersistentVolumeList{} },
	}
	for kind, list := range lists {
		lw := &toolscache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
				l := list()
				return l, api.List(ctx, l)
			},
			WatchFuncWithContext: func(ctx context.Context, _ metav1.ListOptions) (watch.Interface, error) {
				return api.Watch(ctx, list())
			},
		}
		informer := toolscache.NewSharedIndexInformer(noWatchList{lw}, kind, 0, toolscache.Indexers{})
		c.informers[fmt.Sprintf("%T", kind)] = informer
		wg.Go(func() { informer.RunWithContext(ctx) })
	}
	t.Cleanup(func() {
		cancel()
		wg.Wait()
	})
	return c
}

// noWatchList makes the informer list and then watch: the API in memory cannot
// stream its lists.
type noWatchList struct{ *toolscache.ListWatch }

// IsWatchListSemanticsUnSupported tells the informer so.
func (noWatchList) IsWatchListSemanticsUnSupported() bool { return true }

func (c *testCache) GetInformer(_ context.Context, o client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	return c.informers[fmt.Sprintf("%T", o)], nil
}

func (c *testCache) GetInformerForKind(context.Context, schema.GroupVersionKind, ...cache.InformerGetOption) (cache.Informer, error) {
	return nil, errors.New("not used")
}

// Get reads from the informer, as the real cache does.
func (c *testCache) Get(_ context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	item, ok, _ := c.informers[fmt.Sprintf("%T", o)].GetStore().GetByKey(key.String())
	if !ok {
		return errors.New("not in the cache")
	}
	reflect.ValueOf(o).Elem().Set(reflect.ValueOf(item.(client.Object).DeepCopyObject()).Elem())
	return nil
}

// List reads from the informers, as the real cache does.
func (c *testCache) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	switch l := list.(type) {
	case *corev1.NodeList:
		fill(c, &l.Items)
	case *corev1.PodList:
		fill(c, &l.Items)
	case *v1alpha1.GangList:
		fill(c, &l.Items)
	case *v1alpha1.PlacementList:
		fill(c, &l.Items)
	case *schedulingv1.PriorityClassList:
		fill(c, &l.Items)
	case *v1alpha1.QueueList:
		fill(c, &l.Items)
	case *corev1.NamespaceList:
		fill(c, &l.Items)
	case *corev1.ResourceQuotaList:
		fill(c, &l.Items)
	case *resourcev1.ResourceSliceList:
		fill(c, &l.Items)
	}
	return nil
}

func fill[T any](c *testCache, items *[]T) {
	for _, o := range c.informers[fmt.Sprintf("%T", new(T))].GetStore().List() {
		if item, ok := o.(*T); ok {
			*items = append(*items, *item)
		}
	}
}

// run starts a loop over the API and stops it with the test.
func run(t *testing.T, api client.WithWatch, with ...func(*Options)) *Loop {
	t.Helper()
	options := Options{Cache: newTestCache(t, api), Client: api, Live: api, Location: time.UTC}
	for _, edit := range with {
		edit(&options)
	}
	loop, err := NewLoop(options)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- loop.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the loop ended with %v", err)
		}
	})
	select {
	case <-loop.Ready():
	case <-time.After(10 * time.Second):
		t.Fatal("the loop is not ready after 10 s")
	}
	return loop
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(10 * time.Second)
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not after 10 s: %s", what)
		}
	}
}

func testNode(gpus int) *corev1.Node {
	inventory := v1alpha1.NodeInventory{HostPorts: &v1alpha1.PortRange{First: 20000, Last: 29999}}
	for i := range gpus {
		inventory.GPUs = append(inventory.GPUs, v1alpha1.GPUDevice{Index: i, UUID: fmt.Sprintf("GPU-%d", i), Model: "A100"})
	}
	text, _ := json.Marshal(inventory)
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "here", Annotations: map[string]string{v1alpha1.AnnotationInventory: string(text)}},
		Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("16"), corev1.ResourceMemory: resource.MustParse("64Gi"), corev1.ResourcePods: resource.MustParse("1100"),
		}},
	}
}

func testGang(name string, workers int32, gpus string) *v1alpha1.Gang {
	q := resource.MustParse(gpus)
	return &v1alpha1.Gang{
		ObjectMeta: metav1.ObjectMeta{Namespace: "vision", Name: name, UID: types.UID("uid-" + name), Generation: 1},
		Status:     v1alpha1.GangStatus{Phase: v1alpha1.GangPending},
		Spec: v1alpha1.GangSpec{DoneWhen: []string{"worker"}, Roles: []v1alpha1.GangRole{{
			Name: "worker", Replicas: workers, GPUs: &q,
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main"}}}},
		}}},
	}
}

func testPod(name string, gpus string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "vision", Name: name, UID: types.UID("uid-" + name)},
		Spec: corev1.PodSpec{SchedulerName: v1alpha1.SchedulerName, Containers: []corev1.Container{{
			Name:      "main",
			Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{v1alpha1.ResourceGPU: resource.MustParse(gpus)}},
		}}},
	}
}
