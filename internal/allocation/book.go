package allocation

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-dev/muster/internal/inventory"
)

// Holding is the part of one GPU that a claim of others has.
type Holding struct {
	// ID identifies it among all holdings, pods and gangs. It sorts before UIDs: where
	// both a claim of others and a member have a GPU, the ledger gives it to the claim.
	ID string
	// Claim is the claim, and Pod the name of the only pod that it is reserved for;
	// empty if it is reserved for none, or for several.
	Claim types.NamespacedName
	Pod   string
	// Node and GPU name the GPU as plans do.
	Node, GPU string
	// Milli is the claim's part of the GPU, in thousandths, and MemoryMiB its part of the memory; 0:
	// unknown.
	Milli, MemoryMiB int64
	// Since is the time of the claim's allocation, or of its creation if that is unknown.
	Since time.Time
}

// Whole reports whether the claim has all of the GPU.
func (h *Holding) Whole() bool { return h.Milli >= 1000 }

// pool names a pool.
type pool struct{ driver, name string }

// place is a GPU of one of Muster's nodes.
type place struct{ node, gpu string }

// Book keeps the claims of a cluster. It belongs to one goroutine at a time.
type Book struct {
	// pod returns a pod by its UID, nil if it is not known; schedules reports whether
	// Muster schedules it.
	pod       func(types.UID) *corev1.Pod
	schedules func(*corev1.Pod) bool

	claims map[types.UID]*resourcev1.ResourceClaim
	spaces map[string]map[types.UID]*resourcev1.ResourceClaim
	// own are the claims that were seen to be Muster's: they stay so while they lose
	// their pods.
	own map[types.UID]bool
	// waits are claims whose owner is not known yet, by the UID of the owner.
	waits map[types.UID]map[types.UID]bool
	// gpus are the GPUs behind devices of Muster's nodes, by pool and device: a device
	// that overlaps with GPUs stands for each of them.
	gpus  map[pool]map[string][]place
	pools map[string][]pool // by node
	users map[pool]map[types.UID]bool
	dirty map[types.UID]bool
	told  map[types.UID][]Holding
}

// NewBook returns a book without claims.
func NewBook(pod func(types.UID) *corev1.Pod, schedules func(*corev1.Pod) bool) *Book {
	return &Book{
		pod: pod, schedules: schedules,
		claims: map[types.UID]*resourcev1.ResourceClaim{}, spaces: map[string]map[types.UID]*resourcev1.ResourceClaim{}, own: map[types.UID]bool{},
		waits: map[types.UID]map[types.UID]bool{}, gpus: map[pool]map[string][]place{}, pools: map[string][]pool{},
		users: map[pool]map[types.UID]bool{}, dirty: map[types.UID]bool{}, told: map[types.UID][]Holding{},
	}
}

// Shown takes over a claim that is new or changed. It reports whether that may change the holdings
// of others.
func (b *Book) Shown(c *resourcev1.ResourceClaim) bool {
	before := b.claims[c.UID]
	if before != nil {
		b.unlink(before)
	}
	b.claims[c.UID] = c
	if b.spaces[c.Namespace] == nil {
		b.spaces[c.Namespace] = map[types.UID]*resourcev1.ResourceClaim{}
	}
	b.spaces[c.Namespace][c.UID] = c
	for _, r := range Results(c) {
		link(b.users, pool{r.Driver, r.Pool}, c.UID)
	}
	return b.judge(c)
}

// judge marks a claim to be judged, and reports whether that may change the holdings.
func (b *Book) judge(c *resourcev1.ResourceClaim) bool {
	owner := Owner(c)
	switch {
	case owner == "":
	case b.pod(owner) == nil:
		link(b.waits, owner, c.UID)
	case Own(c, b.pod(owner), b.schedules):
		b.own[c.UID] = true
	}
	matters := len(b.told[c.UID]) > 0 || len(Results(c)) > 0 && !b.ours(c)
	if matters {
		b.dirty[c.UID] = true
	}
	return matters
}

// ours reports whether a claim is Muster's own, as far as it is known.
func (b *Book) ours(c *resourcev1.ResourceClaim) bool {
	return b.own[c.UID] && reservedFor(c, Owner(c))
}

// Gone forgets a claim that was deleted.
func (b *Book) Gone(c *resourcev1.ResourceClaim) bool {
	if have := b.claims[c.UID]; have != nil {
		b.unlink(have)
	}
	delete(b.claims, c.UID)
	delete(b.own, c.UID)
	unlink(b.waits, Owner(c), c.UID)
	if delete(b.spaces[c.Namespace], c.UID); len(b.spaces[c.Namespace]) == 0 {
		delete(b.spaces, c.Namespace)
	}
	if len(b.told[c.UID]) == 0 {
		delete(b.dirty, c.UID)
		return false
	}
	b.dirty[c.UID] = true
	return true
}

// Pod tells the book that a pod is known: claims that it owns may be Muster's.
func (b *Book) Pod(uid types.UID) {
	waits := b.waits[uid]
	delete(b.waits, uid)
	for claim := range waits {
		if c := b.claims[claim]; c != nil {
			b.judge(c)
		}
	}
}

// Node tells the book the GPUs of a node of Muster's; none for other nodes.
func (b *Book) Node(name string, parts []*resourcev1.ResourceSlice) {
	for _, p := range b.pools[name] {
		maps.Copy(b.dirty, b.users[p])
		delete(b.gpus, p)
	}
	delete(b.pools, name)
	for _, d := range inventory.Devices(parts) {
		p := pool{d.Driver, d.Pool}
		if b.gpus[p] == nil {
			b.gpus[p] = map[string][]place{}
			b.pools[name] = append(b.pools[name], p)
			maps.Copy(b.dirty, b.users[p])
		}
		b.gpus[p][d.Name] = append(b.gpus[p][d.Name], place{name, d.GPU})
	}
}

// Gives reports whether drivers name GPUs of any of Muster's nodes.
func (b *Book) Gives() bool { return len(b.gpus) > 0 }

// In are the claims of a namespace, allocated or not.
func (b *Book) In(namespace string) []*resourcev1.ResourceClaim {
	return slices.Collect(maps.Values(b.spaces[namespace]))
}

// Changed reports whether [Book.Take] would return anything.
func (b *Book) Changed() bool { return len(b.dirty) > 0 }

// Take returns the changes since the last call: the IDs of all holdings that are new, different or
// gone, and the holdings that exist. With all, every holding counts as changed.
func (b *Book) Take(all bool) (about []string, held []Holding) {
	if all {
		for uid := range b.claims {
			b.dirty[uid] = true
		}
	}
	for _, uid := range slices.Sorted(maps.Keys(b.dirty)) {
		now := b.holdings(b.claims[uid])
		for _, h := range b.told[uid] {
			about = append(about, h.ID)
		}
		for _, h := range now {
			about = append(about, h.ID)
		}
		held = append(held, now...)
		if b.told[uid] = now; len(now) == 0 {
			delete(b.told, uid)
		}
	}
	clear(b.dirty)
	slices.Sort(about)
	return slices.Compact(about), held
}

// On are the holdings of one GPU, whether they were taken or not.
func (b *Book) On(d Device) []Holding {
	var out []Holding
	for _, at := range b.gpus[pool{d.Driver, d.Pool}][d.Name] {
		for _, p := range b.pools[at.node] {
			for uid := range b.users[p] {
				out = append(out, slices.DeleteFunc(b.holdings(b.claims[uid]), func(h Holding) bool { return h.Node != at.node || h.GPU != at.gpu })...)
			}
		}
	}
	slices.SortFunc(out, func(x, y Holding) int { return strings.Compare(x.ID, y.ID) })
	return slices.CompactFunc(out, func(x, y Holding) bool { return x.ID == y.ID })
}

// holdings returns the holdings of a claim of others.
func (b *Book) holdings(c *resourcev1.ResourceClaim) []Holding {
	if c == nil || b.ours(c) {
		return nil
	}
	var out []Holding
	for _, r := range Results(c) {
		places := b.gpus[pool{r.Driver, r.Pool}][r.Device]
		for _, at := range places {
			h := Holding{Claim: types.NamespacedName{Namespace: c.Namespace, Name: c.Name}, Node: at.node, GPU: at.gpu, Since: since(c)}
			h.Milli, h.MemoryMiB = inventory.Part(r)
			h.ID = "!claim/" + string(c.UID) + "/" + DeviceOf(r).String() + "/" + at.gpu
			if r.ShareID != nil {
				h.ID += "/" + string(*r.ShareID)
			}
			if one := c.Status.ReservedFor; len(one) == 1 && one[0].Resource == "pods" && one[0].APIGroup == "" {
				h.Pod = one[0].Name
			}
			out = append(out, h)
		}
	}
	slices.SortFunc(out, func(x, y Holding) int { return cmp.Compare(x.ID, y.ID) })
	return slices.CompactFunc(out, func(x, y Holding) bool { return x.ID == y.ID })
}

func since(c *resourcev1.ResourceClaim) time.Time {
	if t := c.Status.Allocation.AllocationTimestamp; t != nil && !t.IsZero() {
		return t.Time
	}
	return c.CreationTimestamp.Time
}

// unlink takes a claim out of the indices.
func (b *Book) unlink(c *resourcev1.ResourceClaim) {
	for _, r := range Results(c) {
		unlink(b.users, pool{r.Driver, r.Pool}, c.UID)
	}
}

func link[A, B comparable](sets map[A]map[B]bool, a A, b B) {
	if sets[a] == nil {
		sets[a] = map[B]bool{}
	}
	sets[a][b] = true
}

func unlink[A, B comparable](sets map[A]map[B]bool, a A, b B) {
	if delete(sets[a], b); len(sets[a]) == 0 {
		delete(sets, a)
	}
}
