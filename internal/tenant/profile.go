package tenant

import (
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/people/owner"
)

// Profile is what differs between the tenants of a cluster and those of one machine. The
// zero value is the profile of a cluster, which is the stricter one.
type Profile struct {
	// Network is the choice of network policies for the tenant's pods.
	Network Network
	// PodSecurity is the level of Pod Security of the tenant's namespace.
	PodSecurity PodSecurity
	// Identity is the credential of the tenant.
	Identity Identity
	// Parent is the parent of the tenant's queue. It counts for a queue that Muster makes. Empty: none.
	Parent string
	// GIDs are the numbers of the groups of a Unix user, sorted, which pods may name.
	GIDs []uint32
}

// gids returns the value of [AnnotationGIDs].
func (p Profile) gids() string {
	texts := make([]string, 0, len(p.GIDs))
	for _, gid := range p.GIDs {
		texts = append(texts, strconv.FormatUint(uint64(gid), 10))
	}
	return strings.Join(texts, ",")
}

// Network is a choice of network policies.
type Network int

const (
	// GangNetwork has policies by which only members of gangs reach one another.
	GangNetwork Network = iota
	// HostNetwork has no network policies, since no part of one machine enforces them.
	HostNetwork
)

// PodSecurity is a level of Pod Security.
type PodSecurity int

const (
	// BaselinePods is the level baseline: no host path, host network or privileged container.
	BaselinePods PodSecurity = iota
	// PodsOfTheUser sets no label, so that hostPath is allowed. The node has to run each pod
	// as the user of its namespace.
	PodsOfTheUser
)

// Identity is a kind of credential.
type Identity int

const (
	// AccountIdentity is [Tenant.Identity], else a service account of their own; tokens of
	// another account are for the door.
	AccountIdentity Identity = iota
	// SocketIdentity is [Tenant.Identity] at a socket, without any service account.
	SocketIdentity
)

// OfMachine is the tenant for a Unix user of one machine. Parent is the queue above
// the user's queue; empty: none. All users of a parent have equal shares.
func OfMachine(uid uint32, parent string) Tenant {
	name := owner.Namespace(uid)
	return Tenant{
		Name: name, Queue: name, Identity: fmt.Sprintf("unix:%d", uid),
		Profile: Profile{Network: HostNetwork, PodSecurity: PodsOfTheUser, Identity: SocketIdentity, Parent: parent},
	}
}

// queue is the tenant's queue where it is made for them.
func (t Tenant) queue() *v1alpha1.Queue {
	return &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: t.Queue, Labels: t.labels()}, Spec: v1alpha1.QueueSpec{Parent: t.Profile.Parent}}
}

// accounts are the tenant's service accounts. The tokens of the door's speak for the
// namespace at the manager's door, and nowhere else: it has no rights.
func (t Tenant) accounts() []client.Object {
	if t.Profile.Identity == SocketIdentity {
		return nil
	}
	no := false
	out := []client.Object{&corev1.ServiceAccount{ObjectMeta: t.named(v1alpha1.DoorAccount), AutomountServiceAccountToken: &no}}
	if t.Identity == "" {
		out = append(out, &corev1.ServiceAccount{ObjectMeta: t.named(t.Name), AutomountServiceAccountToken: &no})
	}
	return out
}
