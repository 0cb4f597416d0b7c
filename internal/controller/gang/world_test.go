package gang

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/time/rate"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/fencing"
	"github.com/muster-dev/muster/internal/memberstatus"
	"github.com/muster-dev/muster/internal/scheduling"
	"github.com/muster-dev/muster/internal/snapshot"
)

// kubeletFinalizer stands for the grace period: a deleted pod stays until the
// simulated kubelet has stopped it.
const kubeletFinalizer = "test.muster.dev/kubelet"

// fault says what happens to the nth write.
type fault struct {
	at int
	// done: the write happens although its answer is lost.
	done bool
	// crash: the controller's process ends at this write.
	crash bool
	// busy: there is so much news that it waits.
	busy bool
	// shared: the pods refer to one copy of the members' addresses.
	shared bool
}

// errLost is the answer to a write that fails.
var errLost = errors.New("connection lost")

// world is an API server in memory with a planner, a kubelet and the garbage
// collector, all moved step by step, and the controller under test, whose
// writes fail as told.
type world struct {
	t     *testing.T
	api   client.WithWatch
	ctl   *Controller
	clock time.Time
	fault fault
	count int
	dead  bool
	key   types.NamespacedName
	uids  int
	// exits are what members do instead of running on, by pod name.
	exits map[string]corev1.PodStatus
	// stuck are pods that no kubelet lets go any more.
	stuck map[string]bool
	// forbidden names the pod that a quota has no room for, if there is one.
	forbidden string
	// blind: the cache shows no pods.
	blind bool
}

// testScheme is made once: making it takes longer than most tests.
var testScheme = sync.OnceValues(func() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	return s, errors.Join(clientgoscheme.AddToScheme(s), v1alpha1.AddToScheme(s))
})

func newWorld(t *testing.T, f fault) *world {
	t.Helper()
	w := &world{
		t: t, clock: time.Date(2026, 5, 4, 14, 0, 0, 0, time.UTC), fault: f,
		key: types.NamespacedName{Namespace: "vision", Name: "resnet"}, exits: map[string]corev1.PodStatus{}, stuck: map[string]bool{},
	}
	scheme, err := testScheme()
	w.must(err)
	tracker := clienttesting.NewObjectTracker(scheme, serializer.NewCodecFactory(scheme).UniversalDecoder())
	w.api = reader{tracker, scheme}.over(fake.NewClientBuilder().WithScheme(scheme).WithObjectTracker(tracker).
		WithStatusSubresource(&v1alpha1.Gang{}, &corev1.Pod{}).Build())
	w.must(w.api.Create(t.Context(), testNode(4)))
	_, err = w.fence().Take(t.Context(), 0)
	w.must(err)
	w.settle(1)
	w.boot()
	return w
}

// fence is the scheduler's, which another scheduler takes each time.
func (w *world) fence() *fencing.Fence {
	return fencing.New(fencing.Options{Client: w.api, Live: w.api, Alone: true})
}

// settle finishes the takeover of an epoch.
func (w *world) settle(epoch int64) {
	w.t.Helper()
	lease := &coordinationv1.Lease{}
	w.must(w.api.Get(w.t.Context(), client.ObjectKey{Namespace: v1alpha1.SystemNamespace, Name: "muster-scheduler-epoch"}, lease))
	lease.Annotations = map[string]string{"muster.dev/settled-epoch": fencing.Text(epoch)}
	w.must(w.api.Update(w.t.Context(), lease))
}

func testNode(gpus int) *corev1.Node {
	inventory := v1alpha1.NodeInventory{HostPorts: &v1alpha1.PortRange{First: 20000, Last: 20099}}
	for i := range gpus {
		inventory.GPUs = append(inventory.GPUs, v1alpha1.GPUDevice{Index: i, UUID: fmt.Sprintf("GPU-%d", i), Model: "A100"})
	}
	text, _ := json.Marshal(inventory)
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "here", Annotations: map[string]string{v1alpha1.AnnotationInventory: string(text)}},
		Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("16"), corev1.ResourceMemory: resource.MustParse("64Gi"), corev1.ResourcePods: resource.MustParse("110"),
		}},
	}
}

// boot starts the controller anew, without memory.
func (w *world) boot() {
	w.dead = false
	c := interceptor.NewClient(w.api, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if _, pods := list.(*corev1.PodList); pods && w.blind {
				return nil
			}
			return c.List(ctx, list, opts...)
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return w.write(func() error {
				if _, ok := o.(*corev1.ConfigMap); ok && w.forbidden == "maps" {
					return apierrors.NewForbidden(corev1.Resource("configmaps"), o.GetName(), errors.New("exceeded quota: few maps"))
				}
				if p, ok := o.(*corev1.Pod); ok {
					if p.Name == w.forbidden {
						return apierrors.NewForbidden(corev1.Resource("pods"), p.Name, errors.New("exceeded quota: small"))
					}
					w.uids++
					p.UID = types.UID(fmt.Sprintf("pod-%d", w.uids))
					controllerutil.AddFinalizer(p, kubeletFinalizer)
				}
				return c.Create(ctx, o, opts...)
			})
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return w.write(func() error {
				if pod, ok := o.(*corev1.Pod); ok && byForce(opts) {
					return w.vanish(ctx, pod)
				}
				return c.Delete(ctx, o, opts...)
			})
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			return w.write(func() error { return c.Patch(ctx, o, p, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			return w.write(func() error { return c.SubResource(sub).Patch(ctx, o, p, opts...) })
		},
	})
	most := 0
	if w.fault.shared {
		most = 1
	}
	w.ctl = New(Options{Client: c, Live: w.api, Now: func() time.Time { return w.clock }, InFlight: 1, MostCopied: most})
	if w.fault.busy {
		w.ctl.news = rate.NewLimiter(0, 0)
	}
}

// byForce reports whether a deletion leaves no grace period.
func byForce(opts []client.DeleteOption) bool {
	options := client.DeleteOptions{}
	options.ApplyOptions(opts)
	return options.GracePeriodSeconds != nil && *options.GracePeriodSeconds == 0
}

// vanish removes a pod at once, whatever its kubelet does.
func (w *world) vanish(ctx context.Context, pod *corev1.Pod) error {
	now := &corev1.Pod{}
	if err := w.api.Get(ctx, client.ObjectKeyFromObject(pod), now); err != nil {
		return err
	}
	delete(w.stuck, now.Name)
	controllerutil.RemoveFinalizer(now, kubeletFinalizer)
	if now.DeletionTimestamp != nil {
		return w.api.Update(ctx, now)
	}
	if err := w.api.Update(ctx, now); err != nil {
		return err
	}
	return w.api.Delete(ctx, now)
}

// write performs one write, or fails it as told.
func (w *world) write(do func() error) error {
	if w.dead {
		return errLost
	}
	w.count++
	if w.count != w.fault.at {
		return do()
	}
	if w.fault.done {
		_ = do()
	}
	w.dead = w.fault.crash
	return errLost
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// round moves everything by one step and a second, and checks what must always
// hold.
func (w *world) round() {
	w.t.Helper()
	ctx := w.t.Context()
	w.plan(ctx)
	_, _ = w.ctl.Reconcile(ctx, ctrl.Request{NamespacedName: w.key})
	if w.dead {
		w.boot()
	}
	w.check(ctx)
	w.kubelet(ctx)
	w.collect(ctx)
	w.clock = w.clock.Add(time.Second)
	w.check(ctx)
}

// plan does what the scheduling loop does.
func (w *world) plan(ctx context.Context) {
	w.t.Helper()
	s, err := snapshot.Take(ctx, w.api, w.clock)
	w.must(err)
	result := scheduling.Decide(s)
	w.resize(ctx, result)
	for _, plan := range result.Plans {
		p := &v1alpha1.Placement{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: plan.Namespace, Name: fmt.Sprintf("%s-%d", plan.Name, plan.Attempt), UID: types.UID(fmt.Sprintf("placement-%s-%d", plan.Name, plan.Attempt)),
				Labels: map[string]string{v1alpha1.LabelGang: plan.Name}, Finalizers: []string{v1alpha1.GangFinalizer},
			},
			Spec: v1alpha1.PlacementSpec{Gang: plan.Name, GangUID: types.UID(plan.UID), Attempt: plan.Attempt, Epoch: 1, Nodes: []string{"here"}},
		}
		for _, m := range plan.Members {
			p.Spec.Add(v1alpha1.PlacedMember{Role: m.Role, Index: m.Index, GPUs: m.GPUs, Port: v1alpha1.DefaultPort})
		}
		w.must(w.api.Create(ctx, p))
	}
}

// kubelet starts what is new, ends what is told to, and lets deleted pods go.
func (w *world) kubelet(ctx context.Context) {
	w.t.Helper()
	for _, p := range w.pods(ctx) {
		if w.stuck[p.Name] {
			continue
		}
		if p.DeletionTimestamp != nil {
			if !memberstatus.Ended(&p) {
				p.Status.Phase = corev1.PodFailed
				w.must(w.api.Status().Update(ctx, &p))
			}
			w.ctl.buried(p.DeepCopy())
			controllerutil.RemoveFinalizer(&p, kubeletFinalizer)
			w.must(w.api.Update(ctx, &p))
			continue
		}
		exit, told := w.exits[p.Name]
		switch {
		case told && exit.Phase == corev1.PodPending: // never starts
			if len(p.Status.ContainerStatuses) > 0 {
				continue
			}
			p.Status = *exit.DeepCopy()
		case told && memberstatus.NeverRan(&corev1.Pod{Status: exit}): // never runs
			delete(w.exits, p.Name)
			p.Status = *exit.DeepCopy()
		case p.Status.Phase == "" || p.Status.Phase == corev1.PodPending:
			at := metav1.NewTime(w.clock)
			p.Status = corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &at}
		case p.Status.Phase == corev1.PodRunning && told:
			delete(w.exits, p.Name)
			p.Status = *exit.DeepCopy()
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
				Type: v1alpha1.ConditionPodUsage, Status: corev1.ConditionTrue, Message: `{"cpuSeconds":2,"gpuSeconds":3}`,
			})
		default:
			continue
		}
		w.must(w.api.Status().Update(ctx, &p))
	}
}

// collect is the garbage collector: dependants of a gang that is gone, or that
// is deleted in the foreground, are deleted.
func (w *world) collect(ctx context.Context) {
	w.t.Helper()
	g := w.gang(ctx)
	if g != nil && !slices.Contains(g.Finalizers, metav1.FinalizerDeleteDependents) {
		return
	}
	if g != nil && g.DeletionTimestamp == nil {
		return
	}
	left := 0
	for _, p := range w.pods(ctx) {
		left++
		w.must(client.IgnoreNotFound(w.api.Delete(ctx, &p)))
	}
	for _, p := range w.placements(ctx) {
		left++
		w.must(client.IgnoreNotFound(w.api.Delete(ctx, &p)))
	}
	if g != nil && left == 0 {
		controllerutil.RemoveFinalizer(g, metav1.FinalizerDeleteDependents)
		w.must(w.api.Update(ctx, g))
	}
}

// check asserts what holds at every instant: no GPU twice, and all pods that
// run are of one attempt.
func (w *world) check(ctx context.Context) {
	w.t.Helper()
	s, err := snapshot.Take(ctx, w.api, w.clock)
	w.must(err)
	if twice := scheduling.NewLedger(s).Twice(); len(twice) > 0 {
		w.t.Fatalf("GPUs are held twice: %v", twice)
	}
	attempts := map[int32]bool{}
	for _, p := range w.pods(ctx) {
		if !memberstatus.Ended(&p) {
			attempts[attemptOf(&p)] = true
		}
	}
	if len(attempts) > 1 {
		w.t.Fatalf("members of several attempts run together: %v", attempts)
	}
}

func (w *world) gang(ctx context.Context) *v1alpha1.Gang {
	w.t.Helper()
	g := &v1alpha1.Gang{}
	err := w.api.Get(ctx, w.key, g)
	if apierrors.IsNotFound(err) {
		return nil
	}
	w.must(err)
	return g
}

func (w *world) pods(ctx context.Context) []corev1.Pod {
	w.t.Helper()
	list := &corev1.PodList{}
	w.must(w.api.List(ctx, list))
	return list.Items
}

func (w *world) placements(ctx context.Context) []v1alpha1.Placement {
	w.t.Helper()
	list := &v1alpha1.PlacementList{}
	w.must(w.api.List(ctx, list))
	return list.Items
}

// until makes rounds until a condition holds.
func (w *world) until(what string, holds func() bool) {
	w.t.Helper()
	for range 100 {
		if holds() {
			return
		}
		w.round()
	}
	g := w.gang(w.t.Context())
	if g == nil {
		w.t.Fatalf("never: %s; the gang is gone", what)
	}
	w.t.Fatalf("never: %s; the gang's status is %+v", what, g.Status)
}

func (w *world) phase(want v1alpha1.GangPhase) {
	w.t.Helper()
	w.until("phase "+string(want), func() bool {
		g := w.gang(w.t.Context())
		return g != nil && g.Status.Phase == want
	})
}

// change edits the gang as its owner would.
func (w *world) change(edit func(*v1alpha1.Gang)) {
	w.t.Helper()
	g := w.gang(w.t.Context())
	edit(g)
	w.must(w.api.Update(w.t.Context(), g))
}

// testGang is 1 parameter server and 2 workers with a GPU each.
func testGang() *v1alpha1.Gang {
	one := resource.MustParse("1")
	template := corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "muster.dev/host"}}}}
	return &v1alpha1.Gang{
		ObjectMeta: metav1.ObjectMeta{Namespace: "vision", Name: "resnet", UID: "gang-1", Labels: map[string]string{v1alpha1.LabelJob: "resnet"}},
		Spec: v1alpha1.GangSpec{
			Roles: []v1alpha1.GangRole{
				{Name: "ps", Replicas: 1, RestartPolicy: v1alpha1.RestartOnFailure, Template: template},
				{Name: "worker", Replicas: 2, GPUs: &one, RestartPolicy: v1alpha1.RestartOnFailure, Template: template},
			},
			Rendezvous: v1alpha1.FrameworkTensorFlow, Restart: v1alpha1.RestartScopeMember,
			DoneWhen: []string{"worker"}, BackoffLimit: 3,
		},
	}
}
