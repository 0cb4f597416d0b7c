package network

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"sync"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// Tenant is whose a pod is, on a machine of several users.
type Tenant struct {
	// Namespace is the pod's namespace. Pods of one namespace reach one another.
	Namespace string
	// UID is the user of the machine whose processes reach the pod; root's do in any case.
	UID uint32
}

// check refuses what does not fit into the alias of a link.
func (t Tenant) check() error {
	const most = 63
	if len(t.Namespace) > most || strings.ContainsAny(t.Namespace, " \n\x00") {
		return fmt.Errorf("the namespace %q of a pod has blanks or more than %d characters", t.Namespace, most)
	}
	return nil
}

// tenantAlias is the end of the alias of a pod's link. Empty: the pod has no tenant.
func tenantAlias(t Tenant) string {
	if t == (Tenant{}) {
		return ""
	}
	return " " + strconv.FormatUint(uint64(t.UID), 10) + " " + t.Namespace
}

// parseTenant reads what tenantAlias wrote. A pod without it has no tenant: only root reaches it.
func parseTenant(alias string) (Tenant, bool) {
	if alias == "" {
		return Tenant{}, true
	}
	number, namespace, ok := strings.Cut(alias, " ")
	uid, err := strconv.ParseUint(number, 10, 32)
	return Tenant{Namespace: namespace, UID: uint32(uid)}, ok && err == nil
}

// tenants is the table that keeps users of the machine to their own pods. A process reaches a pod if
// its user is the pod's or root, and a pod reaches those of its namespace. The network's own table is
// made anew with each change of services, so this one is separate.
type tenants struct {
	table *nftables.Table
	// namespaces gives the number of the namespace for the address of a pod.
	namespaces *nftables.Set
	// peers are pairs of a namespace and the address of a pod of it, users those of a user and the
	// address of a pod of theirs.
	peers, users *nftables.Set
	firewall     *firewall
	// numbers are those of namespaces, by name. They hold until the table is made anew.
	mu      sync.Mutex
	numbers map[string]uint32
}

func newTenants(f *firewall) *tenants {
	t := &tenants{firewall: f, numbers: map[string]uint32{}, table: &nftables.Table{Family: nftables.TableFamilyIPv4, Name: tenantsPrefix + f.bridge}}
	pair := nftables.MustConcatSetType(nftables.TypeMark, nftables.TypeIPAddr)
	t.namespaces = &nftables.Set{Table: t.table, Name: "namespaces", IsMap: true, KeyType: nftables.TypeIPAddr, DataType: nftables.TypeMark}
	t.peers = &nftables.Set{Table: t.table, Name: "peers", Concatenation: true, KeyType: pair}
	t.users = &nftables.Set{Table: t.table, Name: "users", Concatenation: true, KeyType: pair}
	return t
}

// tenantsPrefix begins the names of these tables. It does not begin with tablePrefix, by which the
// networks' own tables are found.
const tenantsPrefix = "mustertenants_"

// icmpUnreachable is the type of ICMP messages about packets that do not arrive, RFC 792.
const icmpUnreachable = 3

// icmpProhibited is "communication administratively prohibited", RFC 1812.
const icmpProhibited = 13

// afterDestination is behind the rewriting of destinations to the back-ends of services.
var afterDestination = nftables.ChainPriorityRef(*nftables.ChainPriorityFilter + 5)

// replace makes the table anew, for the pods that are there.
func (t *tenants) replace(pods []Pod) error {
	conn, err := t.firewall.connect()
	if err != nil {
		return fmt.Errorf("opening nftables: %w", err)
	}
	conn.AddTable(t.table)
	conn.DelTable(t.table)
	conn.AddTable(t.table)
	b := &builder{conn: conn, table: t.table}
	var namespaces, peers, users []nftables.SetElement
	for _, pod := range pods {
		e := t.elements(pod)
		namespaces, peers, users = append(namespaces, e.namespace), append(peers, e.peer), append(users, e.user)
	}
	if err := errors.Join(b.set(t.namespaces, namespaces), b.set(t.peers, peers), b.set(t.users, users)); err != nil {
		return fmt.Errorf("composing the nftables table %s: %w", t.table.Name, err)
	}
	t.rules(b)
	if err := conn.Flush(); err != nil {
		return fmt.Errorf("writing the nftables table %s: %w", t.table.Name, err)
	}
	return nil
}

// rules refuse what is not allowed; a pod that the sets do not have is reached by root alone.
func (t *tenants) rules(b *builder) {
	refuse := []expr.Any{&expr.Reject{Type: unix.NFT_REJECT_ICMP_UNREACH, Code: icmpProhibited}}
	// 1. Processes of the machine. The kernel knows the user of a socket; packets without one, such as
	//    answers of the kernel itself, belong to connections that are known.
	output := b.chain("output", nftables.ChainTypeFilter, nftables.ChainHookOutput, afterDestination)
	toPod := destinationIn(t.firewall.podCIDR)
	gateway := netip.PrefixFrom(t.firewall.gateway, 32)
	b.rule(output, destinationIn(gateway), accept())
	b.rule(output, toPod, established(), accept())
	b.rule(output, toPod, userIsRoot(), accept())
	b.rule(output, toPod, lookupUser(t.users), accept())
	//    The kernel tells pods about what is refused below; users can send no such message.
	b.rule(output, toPod, protocolIs(unix.IPPROTO_ICMP), icmpTypeIs(icmpUnreachable), accept())
	b.rule(output, toPod, refuse)
	// 2. Pods. Each packet of a pod is judged, and answers pass.
	forward := b.chain("forward", nftables.ChainTypeFilter, nftables.ChainHookForward, afterDestination)
	between := append(inIs(t.firewall.bridge), outIs(t.firewall.bridge)...)
	b.rule(forward, between, isAnswer(), accept())
	b.rule(forward, between, lookupPeer(t.namespaces, t.peers), accept())
	b.rule(forward, between, refuse)
}

// admit lets a pod be reached by its namespace and its user.
func (t *tenants) admit(pod Pod) error {
	return t.change(pod, (*nftables.Conn).SetAddElements)
}

// forget takes back what admit did. It is no error if it was never done.
func (t *tenants) forget(pod Pod) error {
	err := t.change(pod, (*nftables.Conn).SetDeleteElements)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

func (t *tenants) change(pod Pod, change func(*nftables.Conn, *nftables.Set, []nftables.SetElement) error) error {
	conn, err := t.firewall.connect()
	if err != nil {
		return fmt.Errorf("opening nftables: %w", err)
	}
	e := t.elements(pod)
	err = errors.Join(change(conn, t.namespaces, []nftables.SetElement{e.namespace}),
		change(conn, t.peers, []nftables.SetElement{e.peer}), change(conn, t.users, []nftables.SetElement{e.user}))
	if err == nil {
		err = conn.Flush()
	}
	if err != nil {
		return fmt.Errorf("changing who reaches the pod at %v: %w", pod.IP, err)
	}
	return nil
}

// remove deletes the table. It is no error if there is none.
func (t *tenants) remove() error {
	conn, err := t.firewall.connect()
	if err != nil {
		return fmt.Errorf("opening nftables: %w", err)
	}
	conn.AddTable(t.table)
	conn.DelTable(t.table)
	if err := conn.Flush(); err != nil {
		return fmt.Errorf("removing the nftables table %s: %w", t.table.Name, err)
	}
	return nil
}

// tenantElements are the elements of one pod in the three sets.
type tenantElements struct{ namespace, peer, user nftables.SetElement }

func (t *tenants) elements(pod Pod) tenantElements {
	address := pod.IP.AsSlice()
	number := binary.NativeEndian.AppendUint32(nil, t.number(pod))
	user := binary.NativeEndian.AppendUint32(nil, pod.Tenant.UID)
	return tenantElements{
		namespace: nftables.SetElement{Key: address, Val: number},
		peer:      nftables.SetElement{Key: append(append([]byte(nil), number...), address...)},
		user:      nftables.SetElement{Key: append(user, address...)},
	}
}

// number is that of a pod's namespace. A pod without one is alone.
func (t *tenants) number(pod Pod) uint32 {
	name := pod.Tenant.Namespace
	if name == "" {
		name = "/" + pod.UID // no namespace has such a name
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.numbers[name]; !ok {
		t.numbers[name] = uint32(len(t.numbers))
	}
	return t.numbers[name]
}

func accept() []expr.Any { return []expr.Any{&expr.Verdict{Kind: expr.VerdictAccept}} }

// isAnswer holds for packets of a known connection in the direction of its answers, and for messages
// about it.
func isAnswer() []expr.Any {
	const reply = 1
	return append(established(),
		&expr.Ct{Key: expr.CtKeyDIRECTION, Register: reg0},
		&expr.Cmp{Op: expr.CmpOpEq, Register: reg0, Data: []byte{reply}})
}

// userIsRoot holds for packets of root's sockets.
func userIsRoot() []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeySKUID, Register: reg0},
		&expr.Cmp{Op: expr.CmpOpEq, Register: reg0, Data: make([]byte, 4)},
	}
}

// lookupUser holds for packets whose socket's user and destination are in the set.
func lookupUser(users *nftables.Set) []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeySKUID, Register: reg0},
		loadAddr(destinationOffset, reg1),
		&expr.Lookup{SourceRegister: reg0, SetName: users.Name, SetID: users.ID},
	}
}

// lookupPeer holds for packets of a pod to one of its namespace.
func lookupPeer(namespaces, peers *nftables.Set) []expr.Any {
	return []expr.Any{
		loadAddr(sourceOffset, reg0),
		&expr.Lookup{SourceRegister: reg0, DestRegister: reg0, IsDestRegSet: true, SetName: namespaces.Name, SetID: namespaces.ID},
		loadAddr(destinationOffset, reg1),
		&expr.Lookup{SourceRegister: reg0, SetName: peers.Name, SetID: peers.ID},
	}
}
