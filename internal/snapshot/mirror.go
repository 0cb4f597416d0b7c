package snapshot

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/allocation"
	"github.com/muster-dev/muster/internal/departure"
	"github.com/muster-dev/muster/internal/inventory"
	"github.com/muster-dev/muster/internal/snapshot/conversion"
)

// mirror keeps the objects that decisions depend on, as the watch showed them
// last, and notes what changed since it was last taken. The objects belong to
// the cache and are not changed.
//
// What belongs together changes together: a unit is a gang with its placements
// and the pods of its members, or a pod that no gang made. It goes by the UID
// of the gang, or of the pod.
type mirror struct {
	mu         sync.Mutex
	nodes      map[string]*corev1.Node
	parts      map[string]map[string]*resourcev1.ResourceSlice // by node and name
	whole      map[string][]*resourcev1.ResourceSlice          // of each node what counts of them
	gangs      map[types.UID]*v1alpha1.Gang
	placements map[types.NamespacedName]*v1alpha1.Placement
	pods       map[types.UID]*corev1.Pod
	queues     map[string]*v1alpha1.Queue
	classes    map[string]*schedulingv1.PriorityClass
	quotas     map[types.NamespacedName]*corev1.ResourceQuota
	paused     string
	// gpus are the resources that count GPUs.
	gpus conversion.GPUResources
	// signs tell that a node is about to go.
	signs departure.Signs
	// counts reports whether a Placement holds something: it is not void.
	counts func(*v1alpha1.Placement) bool
	// tied are the UIDs of the gangs and pods that have rules about where others
	// are, and ties is whether there were any when that was last taken: only then
	// labels are shown to the core.
	tied map[types.UID]bool
	ties bool
	// journal and members are the placements and the pods of each gang.
	journal map[types.UID]map[types.NamespacedName]*v1alpha1.Placement
	members map[types.UID]map[types.UID]*corev1.Pod
	// seatings are the members of placements that were looked for.
	seatings map[types.NamespacedName]seating

	// departed are pods of each gang that went without a word: they are named when
	// the gang is told of the next time, for it may be known with them.
	departed map[types.UID]map[types.UID]bool
	// places are the placeholders of each gang.
	places map[types.UID]map[types.UID]bool
	// anchors say where the volumes of claims can be used.
	anchors *anchors
	// book holds the GPUs that are allocated to claims that Muster did not make, and owned the nodes
	// whose GPUs it knows.
	book  *allocation.Book
	owned map[string]bool

	dirty dirt
	// shared says of each node whether its pods share its ports. It is for the
	// one who takes alone.
	shared map[string]bool
}

// dirt is what has changed.
type dirt struct {
	nodes map[string]bool
	units map[types.UID]bool
	// pods are UIDs of pods, also of such as are gone.
	pods map[types.UID]bool
	// ended are members that have ended since, of units of which it may be all
	// that has changed.
	ended []memberOf
	// spaces are namespaces in which anything changed that quotas count.
	spaces map[string]bool
	queues bool
	// all is true if every unit is to be looked at again.
	all bool
}

func newDirt() dirt {
	return dirt{nodes: map[string]bool{}, units: map[types.UID]bool{}, pods: map[types.UID]bool{}, spaces: map[string]bool{}}
}

func newMirror() *mirror {
	m := &mirror{
		nodes: map[string]*corev1.Node{}, parts: map[string]map[string]*resourcev1.ResourceSlice{}, whole: map[string][]*resourcev1.ResourceSlice{}, gangs: map[types.UID]*v1alpha1.Gang{}, placements: map[types.NamespacedName]*v1alpha1.Placement{},
		pods: map[types.UID]*corev1.Pod{}, queues: map[string]*v1alpha1.Queue{}, classes: map[string]*schedulingv1.PriorityClass{},
		quotas:  map[types.NamespacedName]*corev1.ResourceQuota{},
		counts:  func(*v1alpha1.Placement) bool { return true },
		tied:    map[types.UID]bool{},
		journal: map[types.UID]map[types.NamespacedName]*v1alpha1.Placement{}, members: map[types.UID]map[types.UID]*corev1.Pod{},
		seatings: map[types.NamespacedName]seating{}, anchors: newAnchors(), departed: map[types.UID]map[types.UID]bool{}, places: map[types.UID]map[types.UID]bool{}, dirty: newDirt(), shared: map[string]bool{}, owned: map[string]bool{},
	}
	m.keepBook(false)
	return m
}

// touch notes that something that is not the watch's changed for a unit: what
// is assumed of it, or what the API server said of its pods.
func (m *mirror) touch(unit types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dirty.units[unit] = true
}

// shown takes over an object that was added or changed.
func (m *mirror) shown(object client.Object) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !ofStorage(object) {
		m.dirty.spaces[object.GetNamespace()] = true
	}
	switch o := object.(type) {
	case *corev1.ResourceQuota:
		m.quotas[client.ObjectKeyFromObject(o)] = o
	case *corev1.Node:
		m.nodes[o.Name], m.dirty.nodes[o.Name] = o, true
		if conversion.Owned(o) != m.owned[o.Name] {
			m.stock(o.Name)
		}
	case *resourcev1.ResourceSlice:
		into(m.parts, nodeOf(o), o.Name, o)
		m.published(nodeOf(o))
	case *resourcev1.ResourceClaim:
		m.book.Shown(o)
	case *v1alpha1.Gang:
		m.gangs[o.UID], m.dirty.units[o.UID] = o, true
		m.tie(o.UID, conversion.TiedGang(o))
		m.anchors.names(o.UID, claimsOf(o.Namespace, templates(o)...))
	case *v1alpha1.Placement:
		if old := m.placements[keyOf(o)]; old != nil && old.Spec.GangUID != o.Spec.GangUID {
			m.lostPlacement(old)
		}
		m.placements[keyOf(o)] = o
		into(m.journal, o.Spec.GangUID, keyOf(o), o)
		m.dirty.units[o.Spec.GangUID] = true
	case *corev1.Pod:
		m.shownPod(o)
	case *corev1.PersistentVolumeClaim:
		maps.Copy(m.dirty.units, m.anchors.claim(client.ObjectKeyFromObject(o), o))
	case *corev1.PersistentVolume:
		maps.Copy(m.dirty.units, m.anchors.volume(o.Name, o))
	case *v1alpha1.Queue:
		m.queues[o.Name], m.dirty.queues = o, true
	case *schedulingv1.PriorityClass:
		m.classes[o.Name], m.dirty.all = o, true
	case *corev1.Namespace:
		if o.Name == v1alpha1.SystemNamespace {
			m.paused = o.Annotations[v1alpha1.AnnotationPaused]
		}
	}
}

// published looks at what drivers name on a node by now.
func (m *mirror) published(node string) {
	m.dirty.nodes[node] = true
	if m.whole[node] = inventory.Whole(m.whole[node], values(m.parts[node])); len(m.whole[node]) == 0 {
		delete(m.whole, node)
	}
	m.stock(node)
}

// shownPod takes over a pod that is new or changed.
func (m *mirror) shownPod(o *corev1.Pod) {
	if gang := standsFor(o); gang != "" {
		into(m.places, gang, o.UID, true)
		m.dirty.units[gang] = true
		return
	}
	old := m.pods[o.UID]
	if old != nil && conversion.GangOf(old) != conversion.GangOf(o) {
		outOf(m.members, conversion.GangOf(old), o.UID)
		m.dirtyPod(old)
	}
	switch m.effect(old, o) {
	case ends:
		m.dirty.ended = append(m.dirty.ended, memberOf{conversion.GangOf(o), o.Labels[v1alpha1.LabelRole], o.Labels[v1alpha1.LabelIndex]})
	case unclear:
		m.dirtyPod(o)
	}
	m.pods[o.UID] = o
	m.book.Pod(o.UID)
	m.tie(o.UID, conversion.Tied(&o.Spec))
	if o.Spec.NodeName == "" {
		m.anchors.names(o.UID, claimsOf(o.Namespace, &o.Spec))
	} else {
		m.anchors.names(o.UID, nil)
	}
	if gang := conversion.GangOf(o); gang != "" {
		into(m.members, gang, o.UID, o)
	}
}

// gone lets go of an object that was deleted.
func (m *mirror) gone(object client.Object) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !ofStorage(object) {
		m.dirty.spaces[object.GetNamespace()] = true
	}
	switch o := object.(type) {
	case *corev1.ResourceQuota:
		delete(m.quotas, client.ObjectKeyFromObject(o))
	case *corev1.Node:
		delete(m.nodes, o.Name)
		m.dirty.nodes[o.Name] = true
		m.stock(o.Name)
	case *resourcev1.ResourceSlice:
		outOf(m.parts, nodeOf(o), o.Name)
		m.published(nodeOf(o))
	case *resourcev1.ResourceClaim:
		m.book.Gone(o)
	case *v1alpha1.Gang:
		delete(m.gangs, o.UID)
		m.tie(o.UID, false)
		m.anchors.names(o.UID, nil)
		m.dirty.units[o.UID] = true
	case *v1alpha1.Placement:
		m.lostPlacement(o)
	case *corev1.Pod:
		if gang := standsFor(o); gang != "" {
			outOf(m.places, gang, o.UID)
			m.dirty.units[gang] = true
			return
		}
		if old := m.pods[o.UID]; old == nil || m.effect(old, nil) != silent {
			m.dirtyPod(o)
		} else {
			into(m.departed, conversion.GangOf(o), o.UID, true)
		}
		delete(m.pods, o.UID)
		m.tie(o.UID, false)
		m.anchors.names(o.UID, nil)
		outOf(m.members, conversion.GangOf(o), o.UID)
	case *corev1.PersistentVolumeClaim:
		maps.Copy(m.dirty.units, m.anchors.claim(client.ObjectKeyFromObject(o), nil))
	case *corev1.PersistentVolume:
		maps.Copy(m.dirty.units, m.anchors.volume(o.Name, nil))
	case *v1alpha1.Queue:
		delete(m.queues, o.Name)
		m.dirty.queues = true
	case *schedulingv1.PriorityClass:
		delete(m.classes, o.Name)
		m.dirty.all = true
	case *corev1.Namespace:
		if o.Name == v1alpha1.SystemNamespace {
			m.paused = ""
		}
	}
}

// tie notes whether a gang or pod has rules about where others are.
func (m *mirror) tie(uid types.UID, tied bool) {
	if tied {
		m.tied[uid] = true
	} else {
		delete(m.tied, uid)
	}
}

func (m *mirror) lostPlacement(p *v1alpha1.Placement) {
	delete(m.placements, keyOf(p))
	delete(m.seatings, keyOf(p))
	outOf(m.journal, p.Spec.GangUID, keyOf(p))
	m.dirty.units[p.Spec.GangUID] = true
}

func (m *mirror) dirtyPod(p *corev1.Pod) {
	m.dirty.pods[p.UID] = true
	m.dirty.units[unitOf(p)] = true
}

// unitOf is the unit that a pod belongs to.
func unitOf(p *corev1.Pod) types.UID {
	if gang := conversion.GangOf(p); gang != "" {
		return gang
	}
	return p.UID
}

// into puts a value into one of several maps.
func into[A, B comparable, V any](maps map[A]map[B]V, a A, b B, value V) {
	if maps[a] == nil {
		maps[a] = map[B]V{}
	}
	maps[a][b] = value
}

// outOf takes a value out of one of several maps.
func outOf[A, B comparable, V any](maps map[A]map[B]V, a A, b B) {
	delete(maps[a], b)
	if len(maps[a]) == 0 {
		delete(maps, a)
	}
}

// gang returns the gang with this UID, or nil.
func (m *mirror) gang(uid types.UID) *v1alpha1.Gang {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.gangs[uid]
}

// placement returns the Placement of a gang with this UID, or nil.
func (m *mirror) placement(gang, uid types.UID) *v1alpha1.Placement {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.journal[gang] {
		if p.UID == uid && uid != "" {
			return p
		}
	}
	return nil
}

// pod returns the pod with this UID, or nil.
func (m *mirror) pod(uid types.UID) *corev1.Pod {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pods[uid]
}

// queueObjects are the queues, in order of their names.
func (m *mirror) queueObjects() []*v1alpha1.Queue {
	m.mu.Lock()
	defer m.mu.Unlock()
	return values(m.queues)
}

// values are what a map holds, in the order of its keys.
func values[K cmp.Ordered, V any](from map[K]V) []V {
	out := make([]V, 0, len(from))
	for _, key := range slices.Sorted(maps.Keys(from)) {
		out = append(out, from[key])
	}
	return out
}
