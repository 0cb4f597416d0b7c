package snapshot

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/allocation"
	"github.com/muster-dev/muster/internal/inventory"
	"github.com/muster-dev/muster/internal/scheduling"
	"github.com/muster-dev/muster/internal/snapshot/conversion"
	"github.com/muster-dev/muster/internal/snapshot/dryrun"
)

// cluster is one on which a driver names GPUs, and others allocate some of them to claims
// of theirs at random.
type cluster struct {
	t      *testing.T
	rng    *rand.Rand
	loop   *Loop
	next   int
	claims map[string]*resourcev1.ResourceClaim
	pods   map[string]*corev1.Pod
	gangs  map[types.UID]*v1alpha1.Gang
	// given are the thousandths of each GPU that Muster gave out, by node/GPU, and whose.
	given map[string]map[types.UID]int64
}

func newCluster(t *testing.T, seed uint64) *cluster {
	t.Helper()
	api := testAPI(t, interceptor.Funcs{})
	loop, err := NewLoop(Options{Cache: &testCache{}, Client: api, Live: api, Location: time.UTC})
	if err != nil {
		t.Fatal(err)
	}
	loop.learn = func(_ context.Context, g *v1alpha1.Gang, _ time.Time) (dryrun.Answer, bool) {
		return dryrun.AsWritten(nil, g), true
	}
	loop.epoch.Store(1)
	loop.settled.Store(1)
	return &cluster{t: t, rng: rand.New(rand.NewPCG(seed, 7)), loop: loop, claims: map[string]*resourcev1.ResourceClaim{}, pods: map[string]*corev1.Pod{},
		gangs: map[types.UID]*v1alpha1.Gang{}, given: map[string]map[types.UID]int64{}}
}

func (c *cluster) show(o client.Object) {
	c.next++
	o.SetResourceVersion(fmt.Sprint(c.next))
	c.loop.shown(nil, o)
}

// node shows a node with four GPUs; odd ones give whole GPUs only.
func (c *cluster) node(n int) {
	name := fmt.Sprint("n", n)
	node := testNode(0)
	node.Name, node.Annotations = name, nil
	node.Labels = map[string]string{v1alpha1.LabelOwned: "true"}
	if c.rng.IntN(8) == 0 {
		node.Labels = nil
	}
	driver := []string{"gpu.muster.dev", "gpu.nvidia.com"}[n%2]
	slice := namedSlice("s-"+name, name, driver, "A100", n%2 == 0, name+"-a", name+"-b", name+"-c", name+"-d")
	for _, o := range []client.Object{slice, node} {
		c.show(o)
	}
}

// other makes a claim of others, or changes or removes one.
func (c *cluster) other() {
	name := fmt.Sprint("theirs-", c.rng.IntN(8))
	if have := c.claims[name]; have != nil && c.rng.IntN(3) == 0 {
		delete(c.claims, name)
		c.loop.gone(have)
		return
	}
	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "others", Name: name, UID: types.UID("uid-" + name)}}
	if c.rng.IntN(2) == 0 { // of a template that pretends to be Muster's
		yes, owner := true, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "others", Name: "p-" + name, UID: types.UID("p-" + name)}, Spec: corev1.PodSpec{SchedulerName: "default-scheduler", NodeName: "n0"}}
		owner.Status.Phase = []corev1.PodPhase{corev1.PodRunning, corev1.PodSucceeded}[c.rng.IntN(2)]
		claim.Labels = map[string]string{v1alpha1.LabelGang: "x"}
		claim.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: owner.Name, UID: owner.UID, Controller: &yes}}
		if c.rng.IntN(2) == 0 {
			c.show(owner)
		}
		claim.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: owner.Name, UID: owner.UID}}
	}
	if c.rng.IntN(4) > 0 {
		claim.Status.Allocation = &resourcev1.AllocationResult{}
		for range 1 + c.rng.IntN(3) {
			claim.Status.Allocation.Devices.Results = append(claim.Status.Allocation.Devices.Results, c.result())
		}
	}
	c.claims[name] = claim
	c.show(claim)
}

// result is one device: of either driver, of none of Muster's pools, whole or in part, or
// for an administrator.
func (c *cluster) result() resourcev1.DeviceRequestAllocationResult {
	n := c.rng.IntN(4)
	node := fmt.Sprint("n", n)
	r := resourcev1.DeviceRequestAllocationResult{Driver: []string{"gpu.muster.dev", "gpu.nvidia.com"}[n%2], Pool: node, Device: node + "-" + []string{"a", "b", "c", "d"}[c.rng.IntN(4)]}
	switch admin := true; c.rng.IntN(6) {
	case 0:
		r.AdminAccess = &admin
	case 1:
		r.Driver, r.Device = "net.example.com", "nic-0"
	case 2:
		if n%2 == 0 {
			part := &v1alpha1.GPUShare{Milli: 300, MemoryMiB: 20 << 10}
			to, err := inventory.Allocation(node, []inventory.GPU{{Driver: r.Driver, Pool: r.Pool, Name: r.Device, Shared: true}}, part)
			if err != nil {
				c.t.Fatal(err)
			}
			r = to.Devices.Results[0]
		}
	}
	return r
}

// theirs is the part of each GPU that others have by the API, counted by other code than the one
// that is tested.
func (c *cluster) theirs() map[string]int64 {
	out := map[string]int64{}
	for _, claim := range c.claims {
		if claim.Status.Allocation == nil {
			continue
		}
		for _, r := range claim.Status.Allocation.Devices.Results {
			if r.AdminAccess != nil || r.Driver == "net.example.com" {
				continue
			}
			milli := int64(1000)
			if q, part := r.ConsumedCapacity["compute"]; part {
				milli = q.Value()
			}
			out[r.Pool+"/"+r.Device] += milli
		}
	}
	return out
}

// carryOut shows what Muster writes for plans: placements, pods, and claims of its own.
func (c *cluster) carryOut(plans []scheduling.Plan) {
	theirs := c.theirs()
	for _, plan := range plans {
		g := c.gangs[types.UID(plan.UID)]
		p := placementOf(g, plan, 1, time.Unix(1, 0))
		c.show(p)
		for _, m := range plan.Members {
			for _, gpu := range m.GPUs {
				at, milli := m.Node+"/"+gpu, int64(1000)
				if m.Share.Milli > 0 {
					milli = m.Share.Milli
				}
				sum := theirs[at] + milli
				for _, had := range c.given[at] {
					sum += had
				}
				if sum > 1000 {
					c.t.Fatalf("GPU %s is given out twice: claims of others have %d of it, Muster gave out %v, and now %d", at, theirs[at], c.given[at], milli)
				}
				if c.given[at] == nil {
					c.given[at] = map[types.UID]int64{}
				}
				c.given[at][g.UID] = milli
			}
			c.member(g, m)
		}
	}
}

// member shows a member's pod and its claim, in either order.
func (c *cluster) member(g *v1alpha1.Gang, m scheduling.Assignment) {
	name := fmt.Sprintf("%s-worker-%d", g.Name, m.Index)
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: g.Namespace, Name: name, UID: types.UID("pod-" + name), Labels: map[string]string{v1alpha1.LabelGang: g.Name, v1alpha1.LabelRole: "worker", v1alpha1.LabelIndex: fmt.Sprint(m.Index)},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(g, v1alpha1.GroupVersion.WithKind("Gang"))}}, Spec: g.Spec.Roles[0].Template.Spec}
	p.Spec.NodeName, p.Spec.SchedulerName = m.Node, v1alpha1.SchedulerName
	claim := inventory.Claim(p, name+"-x", len(m.GPUs), conversion.JournalShare(m.Share))
	claim.UID = types.UID("claim-" + name)
	claim.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: p.Name, UID: p.UID}}
	claim.Status.Allocation = &resourcev1.AllocationResult{}
	for _, gpu := range m.GPUs {
		claim.Status.Allocation.Devices.Results = append(claim.Status.Allocation.Devices.Results, resourcev1.DeviceRequestAllocationResult{Driver: inventory.Driver, Pool: m.Node, Device: gpu})
	}
	both := []client.Object{p, claim}
	if c.rng.IntN(2) == 0 {
		both[0], both[1] = both[1], both[0]
	}
	for _, o := range both {
		c.show(o)
	}
	c.pods[name] = p
}

// gang shows one that waits, or ends one: its pods and its placement go, and its claims
// after them.
func (c *cluster) gang() {
	if len(c.gangs) > 5 {
		for uid, g := range c.gangs {
			delete(c.gangs, uid)
			c.loop.gone(g)
			for _, o := range slices.Collect(maps.Values(c.loop.mirror.placements)) {
				if o.Spec.GangUID == uid {
					c.loop.gone(o)
				}
			}
			for _, held := range c.given {
				delete(held, uid)
			}
			for i := range 3 {
				name := fmt.Sprintf("%s-worker-%d", g.Name, i)
				if p := c.pods[name]; p != nil {
					c.loop.gone(p)
					delete(c.pods, name)
				}
			}
			return
		}
	}
	c.next++
	g := testGang(fmt.Sprint("g", c.next), 1+c.rng.Int32N(3), []string{"1", "2", "300m"}[c.rng.IntN(3)])
	c.gangs[g.UID] = g
	c.show(g)
}

// Whatever claims others make, allocate, share and release: Muster never gives out a GPU that they
// have, gives out GPUs that they released, and its state from events is its state from lists.
func TestOthersClaimsAreNeverGivenOut(t *testing.T) {
	plans, turnedDown := 0, 0
	for seed := range uint64(30) {
		c := newCluster(t, seed)
		now := time.Unix(1_700_000_000, 0)
		for n := range 4 {
			c.node(n)
		}
		for range 60 {
			now = now.Add(time.Minute)
			for range 1 + c.rng.IntN(4) {
				[]func(){c.other, c.other, c.gang, func() { c.node(c.rng.IntN(4)) }}[c.rng.IntN(4)]()
			}
			c.loop.tell(t.Context(), now)
			if err := c.loop.check(t.Context(), now); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if _, held := c.loop.mirror.book.Take(true); slices.ContainsFunc(held, func(h allocation.Holding) bool { return h.Claim.Namespace != "others" }) {
				t.Fatalf("seed %d: a claim of Muster's own counts as one of others: %v", seed, held)
			}
			result := c.loop.core.Decide(conversion.Instant(now))
			plans += len(result.Plans)
			c.carryOut(result.Plans)
			turnedDown += len(c.loop.core.Reasons(conversion.Instant(now), ""))
		}
	}
	if plans < 300 || turnedDown < 300 {
		t.Errorf("%d plans, and %d reasons to wait: hardly anything was tried", plans, turnedDown)
	}
}

// A claim of others holds its GPU in the output for users, from the moment that it is allocated to
// the moment that it is deallocated.
func TestAClaimOfOthersHolds(t *testing.T) {
	c := newCluster(t, 1)
	c.show(namedSlice("s", "n0", inventory.Driver, "A100", true, "u0", "u1"))
	node := testNode(0)
	node.Name, node.Annotations, node.Labels = "n0", nil, map[string]string{v1alpha1.LabelOwned: "true"}
	c.show(node)
	g := testGang("both", 2, "1")
	c.show(g)
	now := time.Unix(1_700_000_000, 0)
	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "others", Name: "takes", UID: "takes"}}
	claim.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{{Driver: inventory.Driver, Pool: "n0", Device: "u1"}}}}
	c.show(claim)
	decide := func() scheduling.Result {
		c.loop.tell(t.Context(), now)
		return c.loop.core.Decide(conversion.Instant(now))
	}
	if got := decide(); len(got.Plans) != 0 {
		t.Fatalf("planned on a GPU of others: %v", got.Plans)
	}
	reasons := c.loop.core.Reasons(conversion.Instant(now), "")
	const want = "needs 2 GPUs at once; 1 is free here, 1 is held by claim others/takes (not Muster's)"
	if text := reasons[0].Reason.Render(Clock(now, time.UTC)); len(reasons) != 1 || text != want {
		t.Errorf("it says %q, want %q", text, want)
	}
	free := claim.DeepCopy()
	free.Status.Allocation = nil
	c.show(free)
	if got := decide(); len(got.Plans) != 1 {
		t.Error("not planned although the claim was deallocated")
	}
}
