package scheduling

import (
	"github.com/muster-dev/muster/internal/scheduling/estimate"
	"github.com/muster-dev/muster/internal/scheduling/queue"
)

// Instant is a point in time, in nanoseconds since the Unix epoch. 0 means
// unknown.
type Instant int64

// add returns the instant that lies d later.
func (t Instant) add(d estimate.Span) Instant { return t + Instant(d) }

// since returns how long ago an earlier instant was; never less than 0.
func (t Instant) since(earlier Instant) estimate.Span { return max(0, estimate.Span(t-earlier)) }

// Clock writes an instant the way its reader's wall clock shows it.
type Clock func(Instant) string

// Snapshot is everything a decision depends on. The order of its lists does
// not matter.
type Snapshot struct {
	// Now is the time of the decision.
	Now Instant
	// Nodes are the nodes.
	Nodes []Node
	// Queues are the queues; without any, there is one that owns everything.
	Queues []queue.Spec
	// Quotas are what the namespaces allow. Namespaces that have none allow
	// everything.
	Quotas []Quota
	// Paused says who wants nothing new to be started, and since when; empty if
	// nobody does.
	Paused string
	// Usage and Users are what was written down of the usage of queues and of
	// users, for a core that is new.
	Usage []queue.Recollection
	Users queue.Users
	// Mix is what was learned about what usually comes, for a core that is new.
	Mix Mix
	// Calibration is what was learned from forecasts before.
	Calibration Calibration
	// Ended is work that succeeded before, the first to end first, for a core
	// that is new and has to learn from it.
	Ended []Ended
	// Requests are the gangs that are not finished and the pods that are not
	// bound. Those that are placed already are recognised by Placements.
	Requests []Request
	// Placements are the journalled plans.
	Placements []Placement
	// Pods are the pods that are on a node, members of gangs or not.
	Pods []Pod
}

// Ended is work that succeeded.
type Ended struct {
	// Evidence is what was known of it, and Ran for how long it ran in all.
	Evidence estimate.Evidence
	Ran      estimate.Span
}

// Node is a machine.
type Node struct {
	// Name identifies it.
	Name string
	// Labels are matched by selectors.
	Labels map[string]string
	// Taints keep off what does not tolerate them.
	Taints []Taint
	// Unschedulable is true for a cordoned node.
	Unschedulable bool
	// NotReady says why the node takes no pods; empty if it does.
	NotReady string
	// Allocatable is what pods may use in all.
	Allocatable Resources
	// Domains are where it is in the topology.
	Domains Domains
	// Ports is the range from which members are given a port each; nil where
	// every pod has an address of its own.
	Ports *PortRange
	// Devices are the node's GPUs that may be given out.
	Devices []Device
	// Counts is true for a node that only says how many GPUs it has, and picks
	// them itself: the names of its devices are made up and its own, no part of
	// one can be given, and what holds one without a name, or with a name that it
	// does not have, holds any.
	Counts bool
	// Whole is true where no part of a device can be given.
	Whole bool
	// Claims is true where GPUs are given by claims, of which a pod gets one.
	Claims bool
	// Unowned are the GPUs that are not given out, because the node is not
	// Muster's alone.
	Unowned []ModelCount
}

// PortRange is a range of TCP ports, both ends included.
type PortRange struct {
	First, Last int32
}

// size is the number of ports in the range.
func (r PortRange) size() int32 { return r.Last - r.First + 1 }

// Device is one GPU.
type Device struct {
	// UUID identifies it among the devices of its node.
	UUID string
	// Index is its position on the node.
	Index int
	// Model is the short name that users write.
	Model string
	// MemoryMiB is the size of its memory; 0 where it is not known.
	MemoryMiB int64
	// Unhealthy says why it must not be given out; empty if it may.
	Unhealthy string
	// Foreign are the processes on it that are not Muster's. A device that
	// has any is not given out.
	Foreign []Process
}

// Process is a process on a device that Muster did not start.
type Process struct {
	PID     int
	User    string
	Command string
}

// Taint keeps off pods that do not tolerate it.
type Taint struct {
	Key, Value, Effect string
}

// Toleration accepts taints. An empty Key accepts all keys, an empty Effect
// all effects. Exists ignores Value.
type Toleration struct {
	Key, Value, Effect string
	Exists             bool
}

// Expression is one condition on a node's labels. Operator is one of In,
// NotIn, Exists, DoesNotExist, Gt and Lt. Field compares the node's name
// instead of a label.
type Expression struct {
	Key      string
	Operator string
	Values   []string
	Field    bool
}

// Key names a request. In a reason that hides names of others, a key without a name
// stands for their user, which Namespace names.
type Key struct {
	Namespace, Name string
}

// String is namespace/name.
func (k Key) String() string {
	if k.Name == "" {
		return k.Namespace
	}
	return k.Namespace + "/" + k.Name
}

// Request is anything that wants resources together.
type Request struct {
	Key
	// UID tells requests of the same name apart.
	UID string
	// Pod is true for a lone pod; it is not given a port.
	Pod bool
	// Priority orders requests; the highest goes first.
	Priority int32
	// Created orders requests of one priority.
	Created Instant
	// Attempt counts the plans that were made for it before.
	Attempt int32
	// Suspended is true while its owner wants it stopped.
	Suspended bool
	// Draining is true while what an earlier plan started is being removed.
	Draining bool
	// Finished is true once its outcome is decided.
	Finished bool
	// NotBefore is the earliest time of the next attempt.
	NotBefore Instant
	// Refused is what the API server said when it was asked whether it would
	// accept the pods; empty if it would.
	Refused string
	// Missing names the objects of its pods that are missing or cannot be used yet, in
	// a sentence; empty: none. Nothing of it starts meanwhile.
	Missing string
	// LastEnd is the reason for the end of the last attempt, in words, while NotBefore is to come.
	LastEnd string
	// Unsupported says what of it can never be honoured, by field, and what to do;
	// empty if all can.
	Unsupported string
	// Queue is the queue that it is charged to; empty means the default one.
	Queue string
	// User is whose it is; empty where nobody is known.
	User string
	// Evidence is what is known of how long it will run, in all its attempts.
	Evidence estimate.Evidence
	// Ran is for how long it has run in the attempts before this one.
	Ran estimate.Span
	// Resumes is true for work that goes on from where it was last saved when
	// it is started again. Only such work is ever evicted for the sake of
	// shorter work.
	Resumes bool
	// Evictions counts how often it was evicted.
	Evictions int32
	// Topology says where its members are to be together.
	Topology Topology
	// Roles are its parts. Of what is placed they are given only if it is
	// elastic.
	Roles []Role
	// Grows is true for an elastic gang whose attempt is under way and is not to
	// end: it may be given further replicas, from NotBefore on.
	Grows bool
	// Asked is for how many of its members nodes were asked for, of whoever makes
	// nodes; 0: nobody was asked.
	Asked int32
	// extends is the UID of the placed gang that this is a wish of.
	extends string
	// claim is true for a claim of others, which holds GPUs.
	claim bool
}

// Role is one part of a request.
type Role struct {
	// Name is the role's name.
	Name string
	// Replicas is the number of members, indexed from 0.
	Replicas int32
	// Min is with how many members, of those that are not done, an elastic role
	// starts; what it has beyond them it gives back first. 0, or Replicas: it is
	// not elastic.
	Min int32
	// Done are the indices that ended successfully: they are given an address
	// and nothing else.
	Done []int32
	// GPUs is the number of GPUs of each member, all of one model.
	GPUs int32
	// Share is how much of one GPU each member needs, where GPUs is 0.
	Share Share
	// NoClaims is true of a pod of which several containers ask for GPUs: it gets
	// none where [Node.Claims].
	NoClaims bool
	// Askers are the names of those containers, in words.
	Askers string
	// Models are the models that will do, in order of preference. Empty: any.
	Models []string
	// Resources is what each member asks for beside GPUs.
	Resources Resources
	// FixedPorts are ports of the node that each member needs for itself.
	FixedPorts []int32
	// NodeLabels must all be on the node.
	NodeLabels map[string]string
	// NodeTerms are alternatives, each a list of conditions that must all
	// hold. Empty: any node.
	NodeTerms [][]Expression
	// Volumes are those that tie members to nodes.
	Volumes []Volume
	// Tolerations accept taints.
	Tolerations []Toleration
	// Avoid are nodes that are not to be used for now.
	Avoid []Avoided
	// Counted is what quotas ask of it beside its resources.
	Counted Counted
	// Prefers are terms whose nodes are liked better, wherever there is room.
	Prefers []Preference
	// Spread says how its members are to be apart.
	Spread Spread
	// Labels are those of its members, and Peers are rules about where members
	// are to be, given where others are.
	Labels map[string]string
	Peers  []Peers
}

// Volume is a claim whose volume not every node can use.
type Volume struct {
	// Claim is the claim's name.
	Claim string
	// Terms are alternatives, as in NodeTerms.
	Terms [][]Expression
}

// Avoided is a node that is not to be used, and why, as in "refused it a moment
// ago".
type Avoided struct {
	Node, Why string
}

// done reports whether the member with this index ended successfully.
func (r Role) done(index int32) bool {
	for _, d := range r.Done {
		if d == index {
			return true
		}
	}
	return false
}

// Placement is a journalled plan.
type Placement struct {
	// Gang is whose plan it is.
	Gang Key
	// UID is the gang's UID.
	UID string
	// Attempt counts the gang's plans, from 1.
	Attempt int32
	// Created is when it was journalled.
	Created Instant
	// Saved is when its work was last saved in this attempt; 0: not yet.
	Saved Instant
	// Members are the plan.
	Members []PlacedMember
	// Extends is true for replicas beyond the minimum of an elastic gang, in the
	// attempt that a placement of the same number began.
	Extends bool
	// Journal is the UID of the journal's entry, where it extends an attempt;
	// empty while the entry is only assumed.
	Journal string
	// Leaving is true once what it names was ordered back.
	Leaving bool
}

// PlacedMember is one row of a journalled plan.
type PlacedMember struct {
	// Assignment is what the member was given.
	Assignment
	// Resources is what it asks for beside GPUs.
	Resources Resources
	// Labels and Peers are those of the role, where anybody has rules about
	// where others are.
	Labels map[string]string
	Peers  []Peers
	// Released is true once the member has ended and will not run again: it
	// holds nothing more.
	Released bool
}

// Pod is a pod on a node.
type Pod struct {
	Key
	// UID tells pods of the same name apart.
	UID string
	// Claim is true for no pod, but a claim of GPUs that Muster did not allocate; the
	// key is the claim's.
	Claim bool
	// Gang is the UID of the gang that it is a member of; empty if none.
	Gang string
	// Role and Index are its place in the gang.
	Role  string
	Index int32
	// Node is where it is.
	Node string
	// Since is when it began to hold what it holds.
	Since Instant
	// GPUs are the UUIDs of its GPUs; Share is how much it has of the one, where
	// that is not all.
	GPUs  []string
	Share Share
	// Loose is how many GPUs it has of a node that counts them, beside those that
	// are named.
	Loose int32
	// Ports are the node's ports that it uses.
	Ports []int32
	// Resources is what it asks for beside GPUs.
	Resources Resources
	// Labels and Peers are the pod's, where anybody has rules about where
	// others are.
	Labels map[string]string
	Peers  []Peers
	// Ended is true once its processes are gone: it holds nothing more.
	Ended bool
}

// Assignment is what one member is given.
type Assignment struct {
	// Role and Index name the member.
	Role  string
	Index int32
	// Node is where it goes.
	Node string
	// GPUs are the UUIDs of its GPUs; Share is how much it has of the one, where
	// that is not all.
	GPUs  []string
	Share Share
	// Port is the node's port that it listens on; 0 where it has an address
	// of its own.
	Port int32
}

// Plan is where every member of a request goes.
type Plan struct {
	Key
	// UID is the request's UID.
	UID string
	// Pod is true for a lone pod.
	Pod bool
	// Attempt counts the request's plans, from 1.
	Attempt int32
	// Members has one entry a member, in the order of roles and indices.
	Members []Assignment
}

// Waiting is a request that stays where it is, and why.
type Waiting struct {
	Key
	// UID is the request's UID.
	UID string
	// Pod is true for a lone pod.
	Pod bool
	// Reason says what it waits for.
	Reason Reason
	// Asked is as in [Request].
	Asked int32
}
