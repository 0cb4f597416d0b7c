//go:build embedded

package snapshot_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/controller/gang"
	"github.com/muster-dev/muster/internal/controlplane/planetest"
	"github.com/muster-dev/muster/internal/fencing"
	"github.com/muster-dev/muster/internal/nodetest"
	"github.com/muster-dev/muster/internal/snapshot"
)

// network is between one scheduler and the API server. It keeps requests back
// until they are let through, much later than anybody waits for their answers,
// and loses answers.
type network struct {
	next http.RoundTripper

	mu sync.Mutex
	// keeps reports whether the network keeps a request back, and loses whether it
	// loses the reply.
	keeps, loses func(*http.Request) bool
	kept         []func()
	// seen has an element once a placement is kept back.
	seen chan struct{}
}

var errCut = errors.New("the network is cut")

func (n *network) set(keeps, loses func(*http.Request) bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.keeps, n.loses = keeps, loses
}

// RoundTrip sends a request now, or keeps it until the network is mended.
func (n *network) RoundTrip(r *http.Request) (*http.Response, error) {
	n.mu.Lock()
	keep := n.keeps != nil && n.keeps(r)
	lose := n.loses != nil && n.loses(r)
	n.mu.Unlock()
	if !keep && !lose {
		return n.next.RoundTrip(r)
	}
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
		_ = r.Body.Close()
	}
	late := r.Clone(context.WithoutCancel(r.Context()))
	send := func() {
		late.Body = io.NopCloser(bytes.NewReader(body))
		if answer, err := n.next.RoundTrip(late); err == nil {
			_, _ = io.Copy(io.Discard, answer.Body)
			_ = answer.Body.Close()
		}
	}
	if lose {
		send()
		return nil, errCut
	}
	n.mu.Lock()
	n.kept = append(n.kept, send)
	n.mu.Unlock()
	if writes("placements")(r) {
		select {
		case n.seen <- struct{}{}:
		default:
		}
	}
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// deliver lets everything through that was kept back, and what comes from now
// on. It returns how many requests came late.
func (n *network) deliver() int {
	n.mu.Lock()
	kept := n.kept
	n.kept, n.keeps, n.loses = nil, nil, nil
	n.mu.Unlock()
	for _, send := range kept {
		send()
	}
	return len(kept)
}

// writes selects requests that change a kind of object.
func writes(kinds ...string) func(*http.Request) bool {
	return func(r *http.Request) bool {
		for _, kind := range kinds {
			if r.Method != http.MethodGet && strings.Contains(r.URL.Path, "/"+kind) {
				return true
			}
		}
		return false
	}
}

// duel is a real API server with the gang controller, a node that exists on
// paper and obeys its rule, and as many schedulers as the test starts.
type duel struct {
	*stage
	config *rest.Config
	wg     sync.WaitGroup

	mu sync.Mutex
	// held are GPUs by the pod that runs on them; begun counts starts by gang.
	held  map[string]string
	begun map[string]int
	// entered are the pods that were started.
	entered map[types.UID]bool
	// short makes pods end at once.
	short atomic.Bool
	// stops end schedulers in order, by name.
	stops map[string]context.CancelFunc
	// lease and request are the lease and the longest write of the next scheduler.
	lease, request time.Duration
}

// patient gives the next schedulers more time for a write than a slow machine needs. After a timeout
// of a write, a scheduler ends without the reply, and does not hand over in order.
func (d *duel) patient() { d.lease, d.request = 2*time.Minute, time.Minute }

func newDuel(t *testing.T) *duel {
	t.Helper()
	plane := planetest.Start(t)
	// The lease is short, because the successor of a disconnected scheduler waits for its end.
	d := &duel{lease: time.Second, request: 500 * time.Millisecond, config: plane.RESTConfig(), held: map[string]string{}, begun: map[string]int{}, entered: map[types.UID]bool{}, stops: map[string]context.CancelFunc{}}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() {
		cancel()
		d.wg.Wait()
	})
	mgr := d.manager(t, d.config)
	if err := gang.New(gang.Options{Client: mgr.GetClient(), Live: mgr.GetAPIReader()}).SetupWithManager(mgr); err != nil {
		t.Fatal(err)
	}
	direct, err := client.NewWithWatch(d.config, client.Options{Scheme: mgr.GetScheme()})
	if err != nil {
		t.Fatal(err)
	}
	d.stage = &stage{Cluster: nodetest.New(t, direct), t: t, api: direct}
	d.wg.Go(func() {
		if err := mgr.Start(ctx); err != nil {
			t.Error(err)
		}
	})
	informer, err := mgr.GetCache().GetInformer(ctx, &corev1.Pod{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) { d.node(ctx, o) }, UpdateFunc: func(_, o any) { d.node(ctx, o) },
	}); err != nil {
		t.Fatal(err)
	}
	d.makeNode(ctx)
	return d
}

func (d *duel) manager(t *testing.T, config *rest.Config) ctrl.Manager {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	yes := true
	options := ctrl.Options{Scheme: scheme, Metrics: server.Options{BindAddress: "0"}}
	options.Controller.SkipNameValidation = &yes
	mgr, err := ctrl.NewManager(config, options)
	if err != nil {
		t.Fatal(err)
	}
	return mgr
}

// scheduler starts a loop behind a network of its own. The channel gives what
// its run returned.
func (d *duel) scheduler(t *testing.T, name string) (*network, *snapshot.Loop, <-chan error) {
	t.Helper()
	n := &network{seen: make(chan struct{}, 1)}
	config := rest.CopyConfig(d.config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		n.next = next
		return n
	})
	mgr := d.manager(t, config)
	loop, err := snapshot.NewLoop(snapshot.Options{
		Cache: mgr.GetCache(), Client: mgr.GetClient(), Live: mgr.GetAPIReader(), DefaultScheduler: true,
		Identity: name, LeaseDuration: d.lease, LongestRequest: d.request,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := mgr.Add(loop); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	d.stops[name] = cancel
	ended, done := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(done)
		ended <- mgr.Start(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		n.deliver()
		<-done
	})
	return n, loop, ended
}

// node does with a pod what a node does: it starts it if the Placement of which
// it was made stands, and lets it go when it is deleted.
func (d *duel) node(ctx context.Context, o any) {
	p, ok := o.(*corev1.Pod)
	if !ok || p.Spec.NodeName != "here" {
		return
	}
	p = p.DeepCopy()
	d.wg.Go(func() {
		if p.DeletionTimestamp != nil {
			d.leave(p)
			_ = d.api.Delete(ctx, p, client.GracePeriodSeconds(0))
			return
		}
		if p.Status.Phase != corev1.PodPending || p.Status.StartTime != nil {
			return
		}
		now := metav1.Now()
		p.Status.StartTime, p.Status.Phase = &now, corev1.PodRunning
		if !d.stands(ctx, p) {
			p.Status.Phase, p.Status.Reason = corev1.PodFailed, v1alpha1.ReasonRefused
		} else if !d.enter(p) {
			return
		}
		if !d.tell(ctx, p) {
			return
		}
		if p.Status.Phase == corev1.PodRunning && d.short.Load() {
			d.leave(p)
			p.Status.Phase = corev1.PodSucceeded
			d.tell(ctx, p)
		}
	})
}

// tell writes a pod's status until it is written; false if the pod is gone.
func (d *duel) tell(ctx context.Context, p *corev1.Pod) bool {
	status := p.Status
	for ctx.Err() == nil {
		p.Status = status
		err := d.api.Status().Update(ctx, p)
		if err == nil {
			return true
		}
		have := &corev1.Pod{}
		if err := d.api.Get(ctx, client.ObjectKeyFromObject(p), have); apierrors.IsNotFound(err) || err == nil && have.UID != p.UID {
			d.leave(p)
			return false
		} else if err == nil {
			*p = *have
		}
	}
	return false
}

func (d *duel) stands(ctx context.Context, p *corev1.Pod) bool {
	name, from, ok := fencing.ParseOrigin(p.Annotations[v1alpha1.AnnotationPlacement])
	if !ok {
		return true
	}
	have := &v1alpha1.Placement{}
	_ = d.api.Get(ctx, client.ObjectKey{Namespace: p.Namespace, Name: name}, have)
	return fencing.MayRun(string(from), string(have.UID), have.DeletionTimestamp != nil)
}

// enter notes that a pod runs, once. No GPU may be held by another.
func (d *duel) enter(p *corev1.Pod) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.entered[p.UID] {
		return false // an event that is behind
	}
	d.entered[p.UID] = true
	d.begun[p.Labels[v1alpha1.LabelGang]]++
	for _, g := range strings.Split(p.Annotations[v1alpha1.AnnotationGPUs], ",") {
		if other := d.held[g]; g != "" && other != "" && other != string(p.UID) {
			d.t.Errorf("%s of pod %s is held by pod %s", g, p.Name, other)
		}
		d.held[g] = string(p.UID)
	}
	return true
}

func (d *duel) leave(p *corev1.Pod) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for g, uid := range d.held {
		if uid == string(p.UID) {
			delete(d.held, g)
		}
	}
}

// starts is how many pods of a gang were started so far.
func (d *duel) starts(gang string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.begun[gang]
}

func (d *duel) ready(t *testing.T, loop *snapshot.Loop) {
	t.Helper()
	select {
	case <-loop.Ready():
	case <-time.After(30 * time.Second):
		t.Fatal("the scheduler does not lead after 30 s")
	}
}

func (d *duel) deposed(t *testing.T, ended <-chan error) {
	t.Helper()
	select {
	case err := <-ended:
		if !errors.Is(err, fencing.ErrDeposed) {
			t.Errorf("the old scheduler ended with %v; want that it stands down", err)
		}
	case <-time.After(30 * time.Second):
		t.Error("the old scheduler does not stand down")
	}
}

func (d *duel) suspend(t *testing.T, name string, yes bool) {
	t.Helper()
	d.Eventually("a change of "+name, func() bool {
		g := d.gang(name)
		g.Spec.Suspend = yes
		return d.api.Update(t.Context(), g) == nil
	})
}

// TestTakeover lets two schedulers meet on one API server.
func TestTakeover(t *testing.T) {
	t.Run("a placement that comes late is undone", testLatePlacement)
	t.Run("a placement whose answer was lost is adopted", testLostAnswer)
	t.Run("under load everything starts once", testTakeoverUnderLoad)
	t.Run("in order under load everything starts once, and nothing is stamped", testHandOverUnderLoad)
	t.Run("in order with an answer lost everything is adopted", testHandOverUnclear)
}

// testLatePlacement keeps the old scheduler's Placement back until the new one
// has given its GPUs to another gang.
func testLatePlacement(t *testing.T) {
	d := newDuel(t)
	network, loop, ended := d.scheduler(t, "old")
	d.ready(t, loop)
	network.set(writes("placements", "leases"), nil)
	d.submit("first", 1, "8")
	select {
	case <-network.seen:
	case <-time.After(30 * time.Second):
		t.Fatal("the old scheduler plans nothing")
	}
	d.suspend(t, "first", true)
	_, next, _ := d.scheduler(t, "new")
	d.ready(t, next)
	d.submit("second", 1, "8")
	d.running("second")
	if n := network.deliver(); n == 0 {
		t.Fatal("nothing was kept back")
	}
	d.deposed(t, ended)
	d.Eventually("the late placement undone and its attempt passed over", func() bool {
		list := &v1alpha1.PlacementList{}
		return d.api.List(t.Context(), list) == nil && len(list.Items) == 1 && list.Items[0].Spec.Gang == "second" && d.gang("first").Status.Attempt == 1
	})
	if n := d.starts("first"); n != 0 {
		t.Errorf("%d members of the late placement were started", n)
	}
	// The gang is not worse off for it.
	d.short.Store(true)
	d.remove("second", metav1.DeletePropagationBackground)
	d.suspend(t, "first", false)
	d.Eventually("success", func() bool { return d.gang("first").Status.Phase == v1alpha1.GangSucceeded })
	if g := d.gang("first"); g.Status.Attempt != 2 || d.starts("first") != 1 {
		t.Errorf("attempt %d, %d starts", g.Status.Attempt, d.starts("first"))
	}
}

// testLostAnswer cuts the old scheduler off right after its Placement arrived.
func testLostAnswer(t *testing.T) {
	d := newDuel(t)
	network, loop, _ := d.scheduler(t, "old")
	d.ready(t, loop)
	network.set(writes("leases"), writes("placements"))
	d.submit("first", 2, "4")
	_, next, _ := d.scheduler(t, "new")
	d.ready(t, next)
	d.running("first")
	list := &v1alpha1.PlacementList{}
	if err := d.api.List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != 1 || list.Items[0].Spec.Epoch != 1 || fencing.Of(&list.Items[0]) != 2 {
		t.Errorf("placements %+v; want one of epoch 1, adopted by epoch 2", list.Items)
	} else if n := len(list.Items[0].ManagedFields); n != 0 {
		t.Errorf("the API server compares the placement's fields for %d managers", n)
	}
	if n := d.starts("first"); n != 2 {
		t.Errorf("%d members were started, want 2", n)
	}
}

// testTakeoverUnderLoad replaces a scheduler while it places, and lets its
// requests of the last moments arrive at the end.
func testTakeoverUnderLoad(t *testing.T) {
	d := newDuel(t)
	d.short.Store(true)
	network, loop, ended := d.scheduler(t, "old")
	d.ready(t, loop)
	const gangs = 60
	for i := range gangs {
		d.submit(fmt.Sprintf("load-%d", i), 2, "1")
		if i == gangs/3 {
			var n atomic.Int64
			write := writes("placements")
			some := func(r *http.Request) bool { return write(r) && n.Add(1)%2 == 0 }
			cut := writes("leases")
			network.set(func(r *http.Request) bool { return cut(r) || some(r) }, nil)
		}
	}
	_, next, _ := d.scheduler(t, "new")
	d.ready(t, next)
	late := network.deliver()
	d.deposed(t, ended)
	t.Logf("%d requests of the old scheduler came after the takeover", late)
	for i := range gangs {
		name := fmt.Sprintf("load-%d", i)
		d.Eventually(name+" succeeded", func() bool { return d.gang(name).Status.Phase == v1alpha1.GangSucceeded })
		if n := d.starts(name); n != 2 {
			t.Errorf("%d members of %s were started, want 2", n, name)
		}
	}
	d.Eventually("no placement left", func() bool {
		list := &v1alpha1.PlacementList{}
		return d.api.List(t.Context(), list) == nil && len(list.Items) == 0
	})
}
