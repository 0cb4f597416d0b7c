package snapshot

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/scheduling"
	"github.com/muster-dev/muster/internal/scheduling/queue/manifest"
	"github.com/muster-dev/muster/internal/snapshot/conversion"
	"github.com/muster-dev/muster/internal/snapshot/dryrun"
)

// store is a store of objects in which everything happens at random, and that
// shows what happens to a loop, as a watch does.
type store struct {
	t    *testing.T
	rng  *rand.Rand
	loop *Loop
	now  time.Time
	next int

	nodes      map[string]*corev1.Node
	gangs      map[string]*v1alpha1.Gang
	placements map[string]*v1alpha1.Placement
	pods       map[string]*corev1.Pod
	queues     map[string]*v1alpha1.Queue
	classes    map[string]*schedulingv1.PriorityClass
	quotas     map[string]*corev1.ResourceQuota
	namespace  *corev1.Namespace
	claims     map[string]*corev1.PersistentVolumeClaim
	volumes    map[string]*corev1.PersistentVolume
	// places are the pods that ask for nodes.
	places map[string]*corev1.Pod
	// sent are writes of plans that have not arrived yet, and ordered what was
	// ordered back and does not show that yet.
	sent, ordered []*v1alpha1.Placement
	// varied is true if there are all kinds of gangs, and not whole GPUs alone.
	varied bool
	// grown and givenBack count replicas.
	grown, givenBack int
}

func newStore(t *testing.T, seed uint64) *store {
	t.Helper()
	api := testAPI(t, interceptor.Funcs{})
	loop, err := NewLoop(Options{Cache: &testCache{}, Client: api, Live: api, Location: time.UTC, DefaultScheduler: true})
	if err != nil {
		t.Fatal(err)
	}
	loop.epoch.Store(1)
	loop.settled.Store(1)
	loop.learn = func(_ context.Context, g *v1alpha1.Gang, _ time.Time) (dryrun.Answer, bool) {
		return dryrun.AsWritten(nil, g), true
	}
	s := &store{
		varied: seed%3 > 0,
		t:      t, rng: rand.New(rand.NewPCG(seed, 3)), loop: loop, now: time.Unix(1_700_000_000, 0),
		nodes: map[string]*corev1.Node{}, gangs: map[string]*v1alpha1.Gang{}, placements: map[string]*v1alpha1.Placement{},
		pods: map[string]*corev1.Pod{}, queues: map[string]*v1alpha1.Queue{}, classes: map[string]*schedulingv1.PriorityClass{}, quotas: map[string]*corev1.ResourceQuota{},
		claims: map[string]*corev1.PersistentVolumeClaim{}, volumes: map[string]*corev1.PersistentVolume{}, places: map[string]*corev1.Pod{},
		namespace: &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.SystemNamespace}},
	}
	for range 3 {
		s.node()
	}
	return s
}

// show shows an object as it is now, and as it was.
func (s *store) show(before, after client.Object) {
	s.next++
	after.SetResourceVersion(fmt.Sprint(s.next))
	if before == nil {
		s.loop.shown(nil, after)
		return
	}
	s.loop.shown(before, after)
}

// put stores an object and shows it.
func put[T client.Object](s *store, in map[string]T, o T) {
	key := o.GetNamespace() + "/" + o.GetName()
	if before, had := in[key]; had {
		s.show(before, o)
	} else {
		s.show(nil, o)
	}
	in[key] = o
}

// drop removes an object and shows that.
func drop[T client.Object](s *store, in map[string]T, o T) {
	delete(in, o.GetNamespace()+"/"+o.GetName())
	s.loop.gone(o)
}

// some is one of the objects.
func some[T client.Object](s *store, in map[string]T) (T, bool) {
	var none T
	all := values(in)
	if len(all) == 0 {
		return none, false
	}
	return all[s.rng.IntN(len(all))].DeepCopyObject().(T), true
}

// node adds or changes a node: its GPUs, its ports, whether it is there at all.
func (s *store) node() {
	n := testNode(1 + s.rng.IntN(4))
	n.Name = fmt.Sprint("n", s.rng.IntN(5))
	inventory := v1alpha1.NodeInventory{}
	if err := json.Unmarshal([]byte(n.Annotations[v1alpha1.AnnotationInventory]), &inventory); err != nil {
		s.t.Fatal(err)
	}
	for i := range inventory.GPUs {
		inventory.GPUs[i].UUID = n.Name + "-" + inventory.GPUs[i].UUID
	}
	if s.rng.IntN(2) == 0 {
		inventory.HostPorts = nil
	}
	text, err := json.Marshal(inventory)
	if err != nil {
		s.t.Fatal(err)
	}
	n.Annotations[v1alpha1.AnnotationInventory] = string(text)
	n.Spec.Unschedulable = s.rng.IntN(5) == 0
	if s.varied {
		s.locate(n)
		if n.Name[len(n.Name)-1]%2 == 1 {
			s.count(n, len(inventory.GPUs))
		}
	}
	put(s, s.nodes, n)
}

func (s *store) arrive() {
	s.next++
	g := testGang(fmt.Sprint("g", s.next), int32(1+s.rng.IntN(3)), fmt.Sprint(s.rng.IntN(3)))
	g.CreationTimestamp = metav1.NewTime(s.now)
	g.Spec.Queue = []string{"", "a", "b"}[s.rng.IntN(3)]
	g.Spec.Resumable = s.rng.IntN(2) == 0
	g.Spec.Roles[0].Template.Spec.PriorityClassName = []string{"", "high"}[s.rng.IntN(2)]
	g.Annotations = map[string]string{v1alpha1.AnnotationSubmitter: []string{"ann@x", "bob@x"}[s.rng.IntN(2)]}
	if s.varied {
		s.vary(g)
	}
	s.use(&g.Spec.Roles[0].Template.Spec)
	put(s, s.gangs, g)
}

// alter changes a gang as its controller or its owner do.
func (s *store) alter() {
	g, ok := some(s, s.gangs)
	if !ok {
		return
	}
	switch s.rng.IntN(9) {
	case 8:
		g.Status.Avoided = nil
		if s.rng.IntN(2) == 0 {
			g.Status.Avoided = []v1alpha1.AvoidedNode{{Node: fmt.Sprint("n", s.rng.IntN(5)), Until: metav1.NewTime(s.now), Why: "OutOfcpu"}}
		}
	case 0:
		g.Spec.Suspend = !g.Spec.Suspend
		g.Generation++
	case 1:
		s.begin(g)
	case 2:
		g.Status.Phase = v1alpha1.GangDraining
	case 3:
		at := metav1.NewTime(s.now)
		g.Status.Phase, g.Status.Outcome, g.Status.FinishTime = v1alpha1.GangSucceeded, v1alpha1.GangSucceeded, &at
		g.Status.RanSeconds = int64(s.rng.IntN(10_000))
	case 4:
		at := metav1.NewTime(s.now.Add(time.Minute))
		g.Status.Phase, g.Status.NotBefore, g.Status.Attempt = v1alpha1.GangPending, &at, s.attempt(g)
	case 5:
		g.Status.Done = append(slices.Clone(g.Status.Done), "worker-0")
	case 6:
		at := metav1.NewMicroTime(s.now)
		g.Status.SavedTime, g.Status.RanSeconds = &at, g.Status.RanSeconds+60
	case 7:
		at := metav1.NewTime(s.now)
		g.DeletionTimestamp = &at
	}
	put(s, s.gangs, g)
}

func (s *store) attempt(g *v1alpha1.Gang) int32 {
	attempt := g.Status.Attempt
	for _, p := range s.placements {
		if p.Spec.GangUID == g.UID {
			attempt = max(attempt, p.Spec.Attempt)
		}
	}
	return attempt
}

// members makes the pod of one member of a placement, as the gang's controller
// does, or lets it go on.
func (s *store) members() {
	p, ok := some(s, s.placements)
	if !ok {
		return
	}
	members := slices.Collect(p.Spec.Each())
	m := members[s.rng.IntN(len(members))]
	name := fmt.Sprintf("%s-%s-%d", p.Spec.Gang, m.Role, m.Index)
	old := s.pods[p.Namespace+"/"+name]
	if old == nil {
		o := memberPod(p.Spec.GangUID)
		s.next++
		o.Namespace, o.Name, o.UID = p.Namespace, name, types.UID(fmt.Sprintf("uid-%s-%d", name, s.next))
		o.Labels[v1alpha1.LabelIndex] = fmt.Sprint(m.Index)
		o.Annotations = nil
		o.Spec.NodeName = p.Spec.Nodes[m.Node]
		put(s, s.pods, o)
		return
	}
	o := old.DeepCopy()
	switch s.rng.IntN(4) {
	case 0:
		o.Status.Phase = corev1.PodSucceeded
	case 1:
		o.Status.Phase = corev1.PodFailed
	case 2:
		at := metav1.NewTime(s.now)
		o.DeletionTimestamp = &at
	case 3:
		drop(s, s.pods, old)
		return
	}
	put(s, s.pods, o)
}

// foreign makes, binds or ends a pod that no gang made.
func (s *store) foreign() {
	if s.rng.IntN(2) == 0 {
		s.next++
		o := testPod(fmt.Sprint("p", s.next), fmt.Sprint(s.rng.IntN(2)))
		o.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 20000 + int32(s.rng.IntN(3))}}
		if o.Labels = map[string]string{"app": "a"}; s.varied && s.rng.IntN(12) == 0 {
			o.Spec.Affinity = apart("b")
		}
		o.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
		if s.rng.IntN(3) == 0 {
			o.Spec.SchedulerName, o.Spec.NodeName = "another", fmt.Sprint("n", s.rng.IntN(5))
		}
		s.use(&o.Spec)
		put(s, s.pods, o)
		return
	}
	o, ok := some(s, s.pods)
	if !ok || conversion.GangOf(o) != "" {
		return
	}
	switch s.rng.IntN(3) {
	case 0:
		o.Status.Phase = corev1.PodSucceeded
		put(s, s.pods, o)
	case 1:
		drop(s, s.pods, o)
	case 2:
		// It was deleted and made again while the watch was away.
		s.next++
		o.UID, o.Spec.NodeName = types.UID(fmt.Sprint("uid-again-", s.next)), ""
		put(s, s.pods, o)
	}
}

// settings changes queues, priority classes and the pause.
func (s *store) settings() {
	switch s.rng.IntN(7) {
	case 0:
		put(s, s.queues, &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: []string{"a", "b"}[s.rng.IntN(2)], Generation: int64(s.next)}, Spec: v1alpha1.QueueSpec{
			Guaranteed: v1alpha1.ResourceAmounts{"gpu": *resource.NewQuantity(int64(s.rng.IntN(4)), resource.DecimalSI)},
		}})
	case 1:
		if q, ok := some(s, s.queues); ok {
			drop(s, s.queues, q)
		}
	case 2:
		put(s, s.classes, &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: int32(s.rng.IntN(5))})
	case 3:
		if c, ok := some(s, s.classes); ok {
			drop(s, s.classes, c)
		}
	case 4:
		if n, ok := some(s, s.nodes); ok && len(s.nodes) > 2 {
			drop(s, s.nodes, n)
		}
	case 5:
		q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "vision", Name: "few"}}
		q.Spec.Hard = corev1.ResourceList{"requests.nvidia.com/gpu": *resource.NewQuantity(int64(2+s.rng.IntN(8)), resource.DecimalSI)}
		q.Status.Hard, q.Status.Used = q.Spec.Hard, corev1.ResourceList{"requests.nvidia.com/gpu": *resource.NewQuantity(int64(s.rng.IntN(3)), resource.DecimalSI)}
		put(s, s.quotas, q)
	case 6:
		if q, ok := some(s, s.quotas); ok {
			drop(s, s.quotas, q)
		}
	}
}

// end takes away a placement, or a gang that is over.
func (s *store) end() {
	if p, ok := some(s, s.placements); ok {
		drop(s, s.placements, p)
	}
	if g, ok := some(s, s.gangs); ok && (g.Status.Outcome != "" || g.DeletionTimestamp != nil) {
		drop(s, s.gangs, g)
	}
}

// arriveWrites lets writes of plans arrive, get lost and be refused.
func (s *store) arriveWrites() {
	s.sent = slices.DeleteFunc(s.sent, func(p *v1alpha1.Placement) bool {
		switch s.rng.IntN(4) {
		case 0, 1:
			arrived := p.DeepCopy()
			s.next++
			arrived.UID = types.UID(fmt.Sprint("uid-placement-", s.next))
			put(s, s.placements, arrived)
			return true
		case 2:
			s.loop.assumed.noPlacement(p)
			return true
		}
		return false
	})
}

// flow lets something happen.
func (s *store) flow() {
	s.now = s.now.Add(time.Duration(s.rng.IntN(7200)) * time.Second)
	s.arriveWrites()
	s.obey()
	happenings := []func(){s.arrive, s.arrive, s.alter, s.alter, s.members, s.members, s.members, s.foreign, s.node, s.settings, s.end, s.storage, s.askForNodes}
	if s.varied {
		happenings = append(happenings, s.start, s.start)
	}
	if s.varied && s.rng.IntN(8) == 0 {
		happenings = append(happenings, s.late)
	}
	for range s.rng.IntN(8) {
		happenings[s.rng.IntN(len(happenings))]()
	}
}

// listed is the snapshot from lists of all there is, made by other code than
// the one that is tested, with what is assumed.
func (s *store) listed() scheduling.Snapshot {
	ahead := s.loop.assumed.copy()
	w := world{
		learn: func(g *v1alpha1.Gang) (dryrun.Answer, bool) { return dryrun.AsWritten(nil, g), true },
		mine:  s.loop.mine, highest: s.loop.assumed.highestOf(dereferenced(values(s.gangs))), priority: priorities(dereferenced(values(s.classes))),
		gangs: dereferenced(values(s.gangs)), placements: dereferenced(values(s.placements)),
		queues: manifest.Specs(dereferenced(values(s.queues))), quotas: dereferenced(values(s.quotas)), counted: conversion.GPUResources(nil).PodRole,
		leaving: ahead.leaving, anchors: newAnchors(), asked: map[types.UID]int32{},
	}
	s.listStorage(&w)
	w.placements = slices.DeleteFunc(w.placements, func(p v1alpha1.Placement) bool { return !s.loop.counts(&p) })
	for _, n := range values(s.nodes) {
		w.nodes = append(w.nodes, s.loop.mirror.gpus.Node(n))
	}
	for _, p := range values(s.pods) {
		if bound := ahead.bindings[p.UID]; bound != nil {
			p = bound
		}
		w.pods = append(w.pods, *p)
	}
	for _, p := range ahead.placements {
		if shown := s.placements[p.Namespace+"/"+p.Name]; shown == nil || !s.loop.counts(shown) {
			w.placements = append(w.placements, *p)
		}
	}
	return w.snapshot(s.now)
}

// carryOut does with plans what the loop does, but that the test says when a
// write arrives.
func (s *store) carryOut(plans []scheduling.Plan) {
	for _, plan := range plans {
		uid := types.UID(plan.UID)
		s.loop.mirror.touch(uid)
		if plan.Pod {
			p := s.loop.mirror.pod(uid).DeepCopy()
			p.Spec.NodeName = plan.Members[0].Node
			if len(plan.Members[0].GPUs) > 0 {
				p.Annotations = map[string]string{v1alpha1.AnnotationGPUs: plan.Members[0].GPUs[0]}
			}
			s.loop.assumed.binding(p)
			switch s.rng.IntN(3) {
			case 0:
				s.loop.assumed.noBinding(uid)
			case 1:
				put(s, s.pods, p.DeepCopy())
			}
			continue
		}
		p := placementOf(s.loop.mirror.gang(uid), plan, 1, s.now)
		if s.rng.IntN(2) == 0 { // as of a large plan
			each := slices.Collect(p.Spec.Each())
			p.Spec.Members = nil
			for _, m := range each {
				p.Spec.Add(m)
			}
		}
		s.loop.assumed.placement(p)
		s.sent = append(s.sent, p)
	}
}

// A loop that was told of one event after the other decides and explains, to
// the byte, like a core that is shown all objects each time.
func TestEventsLikeLists(t *testing.T) {
	grown, givenBack := 0, 0
	for seed := range uint64(150) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			s := newStore(t, seed)
			twin, taught := scheduling.NewCore(scheduling.Options{}), newHistory()
			for step := range 40 {
				s.flow()
				paused := s.loop.tell(t.Context(), s.now)
				all := s.listed()
				if diff := s.loop.core.Differences(all, 5); diff != nil {
					t.Fatalf("step %d: the core was not told: %v", step, diff)
				}
				twin.Sync(all)
				taught.learn(dereferenced(values(s.gangs)), twin)
				if paused != "" {
					t.Fatalf("paused: %q", paused)
				}
				at := conversion.Instant(s.now)
				var texts [2]string
				var result scheduling.Result
				for i, core := range []*scheduling.Core{s.loop.core, twin} {
					result = core.Decide(at)
					result.Waiting = core.Reasons(at, "")
					text, err := json.Marshal(result)
					if err != nil {
						t.Fatal(err)
					}
					texts[i] = string(text)
				}
				if texts[0] != texts[1] {
					t.Fatalf("step %d:\nby events %s\nby lists  %s", step, texts[0], texts[1])
				}
				s.carryOut(result.Plans)
				s.resize(result)
			}
			grown, givenBack = grown+s.grown, givenBack+s.givenBack
		})
	}
	if grown < 200 || givenBack < 20 {
		t.Errorf("%d replicas were added and %d given back: the gangs are hardly elastic", grown, givenBack)
	}
}

// The check finds what the core was not told of, says so and mends it; when
// nothing is missing it is silent.
func TestCheck(t *testing.T) {
	s := newStore(t, 1)
	for range 30 {
		s.flow()
		s.loop.tell(t.Context(), s.now)
		if err := s.loop.check(t.Context(), s.now); err != nil {
			t.Fatal(err)
		}
		result := s.loop.core.Decide(conversion.Instant(s.now))
		s.carryOut(result.Plans)
		s.resize(result)
	}
	s.loop.tell(t.Context(), s.now)
	g := testGang("missed", 1, "1")
	s.loop.mirror.shown(g)
	s.loop.mirror.dirty = newDirt() // as if nobody had noticed
	if err := s.loop.check(t.Context(), s.now); err == nil {
		t.Error("a gang that the core was not told of is not found")
	}
	if err := s.loop.check(t.Context(), s.now); err != nil {
		t.Errorf("not mended: %v", err)
	}
}

// The pause reaches the loop and goes again.
func TestPauseByEvent(t *testing.T) {
	s := newStore(t, 1)
	for _, want := range []string{"ann, since noon", ""} {
		n := s.namespace.DeepCopy()
		if n.Annotations = nil; want != "" {
			n.Annotations = map[string]string{v1alpha1.AnnotationPaused: want}
		}
		s.show(s.namespace, n)
		s.namespace = n
		if got := s.loop.tell(t.Context(), s.now); got != want {
			t.Errorf("paused %q, want %q", got, want)
		}
	}
}
