package network

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	mdnetlink "github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// firewall is the network's own nftables table. It is always replaced as a
// whole, in one transaction: the kernel goes from the old rules to the new ones
// in one step, and connections that are tracked are not touched.
//
// Connections are spread in two steps. The first map sends a frontend with n
// back-ends to the chain for n, the second gives the back-end for the frontend
// and a random number below n. So there are as many chains as there are
// different numbers of back-ends, and looking up takes the same time however
// many services there are.
type firewall struct {
	bridge      string
	podCIDR     netip.Prefix
	serviceCIDR netip.Prefix
	gateway     netip.Addr
	// guarded are uplinks that forward only since the network was opened: they
	// must not forward for anyone else.
	guarded []string
	// nsFD is the machine's network namespace.
	nsFD int
}

// The registers that the rules use: four bytes each, side by side, so that
// they can be looked up together.
const (
	reg0 = unix.NFT_REG32_00
	reg1 = unix.NFT_REG32_01
	reg2 = unix.NFT_REG32_02
	reg3 = unix.NFT_REG32_03
)

// elementsPerMessage keeps a message with set elements below 64 KiB, the
// largest attribute there is.
const elementsPerMessage = 256

func (f *firewall) tableName() string { return tablePrefix + f.bridge }

// tablePrefix begins the names of networks' tables; the bridge's follows.
const tablePrefix = "muster_"

// forwardChain is the chain with the rules that guard uplinks.
const forwardChain = "forward"

// connect opens a connection whose buffers hold a transaction of that many
// messages.
func (f *firewall) connect() (*nftables.Conn, error) {
	const buffer = 16 << 20
	return nftables.New(nftables.WithNetNSFd(f.nsFD), nftables.WithSockOptions(func(c *mdnetlink.Conn) error {
		return errors.Join(c.SetWriteBuffer(buffer), c.SetReadBuffer(buffer))
	}))
}

// apply replaces the table.
func (f *firewall) apply(list []forwarding) error {
	conn, err := f.connect()
	if err != nil {
		return fmt.Errorf("opening nftables: %w", err)
	}
	table := &nftables.Table{Family: nftables.TableFamilyIPv4, Name: f.tableName()}
	// Deleting a table that does not exist is an error: make it first.
	conn.AddTable(table)
	conn.DelTable(table)
	conn.AddTable(table)
	b := &builder{conn: conn, table: table}
	f.guardRules(b)
	if err := errors.Join(f.serviceRules(b, list), f.sourceRules(b, list)); err != nil {
		return fmt.Errorf("composing the nftables table %s: %w", table.Name, err)
	}
	if err := conn.Flush(); err != nil {
		return fmt.Errorf("writing the nftables table %s: %w", table.Name, err)
	}
	return nil
}

// tables lists the tables of all networks, by their bridges, each with the
// uplinks that it guards.
func (f *firewall) tables() (map[string][]string, error) {
	conn, err := f.connect()
	if err != nil {
		return nil, fmt.Errorf("opening nftables: %w", err)
	}
	tables, err := conn.ListTablesOfFamily(nftables.TableFamilyIPv4)
	if err != nil {
		return nil, fmt.Errorf("listing nftables tables: %w", err)
	}
	found := map[string][]string{}
	for _, table := range tables {
		bridge, ok := strings.CutPrefix(table.Name, tablePrefix)
		if !ok {
			continue
		}
		rules, err := conn.GetRules(table, &nftables.Chain{Name: forwardChain, Table: table})
		if errors.Is(err, unix.ENOENT) {
			continue // it was removed meanwhile
		}
		if err != nil {
			return nil, fmt.Errorf("reading the nftables table %s: %w", table.Name, err)
		}
		found[bridge] = nil
		for _, rule := range rules {
			if uplink := guardedBy(rule); uplink != "" {
				found[bridge] = append(found[bridge], uplink)
			}
		}
	}
	return found, nil
}

// guardedBy is the uplink that a rule of the forward chain guards: the one it
// begins with. Empty: it is another kind of rule.
func guardedBy(rule *nftables.Rule) string {
	if len(rule.Exprs) < 2 {
		return ""
	}
	meta, isMeta := rule.Exprs[0].(*expr.Meta)
	compare, isCompare := rule.Exprs[1].(*expr.Cmp)
	if !isMeta || !isCompare || meta.Key != expr.MetaKeyIIFNAME || compare.Op != expr.CmpOpEq {
		return ""
	}
	return string(bytes.TrimRight(compare.Data, "\x00"))
}

// guards says whether a table other than that of the bridge guards the uplink.
func guards(tables map[string][]string, except, uplink string) bool {
	for bridge, guarded := range tables {
		if bridge != except && slices.Contains(guarded, uplink) {
			return true
		}
	}
	return false
}

// remove deletes the table. It is no error if there is none.
func (f *firewall) remove() error {
	conn, err := f.connect()
	if err != nil {
		return fmt.Errorf("opening nftables: %w", err)
	}
	table := conn.AddTable(&nftables.Table{Family: nftables.TableFamilyIPv4, Name: f.tableName()})
	conn.DelTable(table)
	if err := conn.Flush(); err != nil {
		return fmt.Errorf("removing the nftables table %s: %w", table.Name, err)
	}
	return nil
}

// guardRules drop what must not pass, before any address is rewritten, and
// refuse what nothing stands behind.
func (f *firewall) guardRules(b *builder) {
	guard := b.chain("guard", nftables.ChainTypeFilter, nftables.ChainHookPrerouting, nftables.ChainPriorityRaw)
	// 1. Pods never address the machine's loopback: route_localnet, which lets
	//    the rewritten way to the API server pass, would let them.
	b.rule(guard, inIs(f.bridge), destinationIn(loopback), drop())
	// 2. Nor do they pretend to be somebody else.
	b.rule(guard, inIs(f.bridge), sourceNotIn(f.podCIDR), drop())
	// 3. Only this machine and its pods reach pods and services.
	for _, prefix := range []netip.Prefix{f.podCIDR, f.serviceCIDR} {
		b.rule(guard, inIsNot(f.bridge), inIsNot("lo"), destinationIn(prefix), drop())
	}

	forward := b.chain(forwardChain, nftables.ChainTypeFilter, nftables.ChainHookForward, nftables.ChainPriorityFilter)
	for _, uplink := range f.guarded {
		// Answers to another network's pods pass: a drop here would be final,
		// whatever that network's own rules say.
		b.rule(forward, inIs(uplink), outIsNot(f.bridge), notMasqueraded(), drop())
	}
	output := b.chain("output", nftables.ChainTypeFilter, nftables.ChainHookOutput, nftables.ChainPriorityFilter)
	for _, chain := range []*nftables.Chain{forward, output} {
		// Rewriting comes before: what still has a service's address has
		// nothing behind it.
		b.rule(chain, destinationIn(f.serviceCIDR), protocolIs(unix.IPPROTO_TCP), []expr.Any{&expr.Reject{Type: unix.NFT_REJECT_TCP_RST}})
		b.rule(chain, destinationIn(f.serviceCIDR), []expr.Any{&expr.Reject{Type: unix.NFT_REJECT_ICMP_UNREACH, Code: icmpPortUnreachable}})
	}
	// Pods are on one wire with each other and must not be told to use it.
	b.rule(output, outIs(f.bridge), protocolIs(unix.IPPROTO_ICMP), icmpTypeIs(icmpRedirect), drop())
}

// serviceRules rewrite destinations to back-ends.
func (f *firewall) serviceRules(b *builder, list []forwarding) error {
	frontends := &nftables.Set{Table: b.table, Name: "frontends", IsMap: true, Concatenation: true,
		KeyType:  nftables.MustConcatSetType(nftables.TypeIPAddr, nftables.TypeInetProto, nftables.TypeInetService),
		DataType: nftables.TypeVerdict}
	backends := &nftables.Set{Table: b.table, Name: "backends", IsMap: true, Concatenation: true,
		KeyType:  nftables.MustConcatSetType(nftables.TypeIPAddr, nftables.TypeInetProto, nftables.TypeInetService, nftables.TypeMark),
		DataType: nftables.MustConcatSetType(nftables.TypeIPAddr, nftables.TypeInetService)}
	if err := errors.Join(b.set(backends, backendElements(list)), b.set(frontends, nil)); err != nil {
		return err
	}
	var counts []int
	for _, l := range list {
		counts = append(counts, len(l.Backends))
	}
	slices.Sort(counts)
	for _, n := range slices.Compact(counts) {
		b.rule(b.plainChain(pickName(n, false)), pick(loadDestination(), n, backends))
		b.rule(b.plainChain(pickName(n, true)), pick(loadUnspecified(), n, backends))
	}
	if err := b.elements(frontends, frontendElements(list)); err != nil {
		return err
	}

	prerouting := b.chain("prerouting", nftables.ChainTypeNAT, nftables.ChainHookPrerouting, nftables.ChainPriorityNATDest)
	output := b.chain("rewrite", nftables.ChainTypeNAT, nftables.ChainHookOutput, nftables.ChainPriorityNATDest)
	b.rule(prerouting, inIs(f.bridge), destinationIn(f.serviceCIDR), dispatch(loadDestination(), frontends))
	b.rule(output, destinationIn(f.serviceCIDR), dispatch(loadDestination(), frontends))
	// Node ports are those of the unspecified address.
	local := netip.PrefixFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 32)
	own := netip.PrefixFrom(f.gateway, 32)
	b.rule(prerouting, inIs(f.bridge), destinationIn(own), dispatch(loadUnspecified(), frontends))
	b.rule(output, destinationIn(local), dispatch(loadUnspecified(), frontends))
	b.rule(output, destinationIn(own), dispatch(loadUnspecified(), frontends))
	return nil
}

// sourceRules rewrite sources, for answers to find the way back.
func (f *firewall) sourceRules(b *builder, list []forwarding) error {
	selves := &nftables.Set{Table: b.table, Name: "selves", Concatenation: true,
		KeyType: nftables.MustConcatSetType(nftables.TypeIPAddr, nftables.TypeIPAddr)}
	if err := b.set(selves, selfElements(list)); err != nil {
		return err
	}
	postrouting := b.chain("postrouting", nftables.ChainTypeNAT, nftables.ChainHookPostrouting, nftables.ChainPriorityNATSource)
	// 1. A pod that reaches itself through its service would be sent packets
	//    from its own address, and drop them.
	b.rule(postrouting, outIs(f.bridge), rewritten(), lookupPair(selves), masquerade())
	// 2. A node port reached at 127.0.0.1.
	b.rule(postrouting, outIs(f.bridge), sourceIn(loopback), masquerade())
	// 3. The world knows only the machine.
	b.rule(postrouting, sourceIn(f.podCIDR), outIsNot(f.bridge), outIsNot("lo"), masquerade())
	return nil
}

// pickName is the chain that picks one of n back-ends.
func pickName(n int, nodePort bool) string {
	if nodePort {
		return fmt.Sprintf("pick_node_%d", n)
	}
	return fmt.Sprintf("pick_%d", n)
}

func frontendKey(f frontend) []byte {
	addr := f.Addr.As4()
	protocol := byte(unix.IPPROTO_TCP)
	if f.Protocol == UDP {
		protocol = unix.IPPROTO_UDP
	}
	key := append(addr[:], protocol, 0, 0, 0)
	return append(binary.BigEndian.AppendUint16(key, f.Port), 0, 0)
}

func frontendElements(list []forwarding) []nftables.SetElement {
	var elements []nftables.SetElement
	for _, l := range list {
		elements = append(elements, nftables.SetElement{Key: frontendKey(l.frontend),
			VerdictData: &expr.Verdict{Kind: expr.VerdictGoto, Chain: pickName(len(l.Backends), l.Addr.IsUnspecified())}})
	}
	return elements
}

func backendElements(list []forwarding) []nftables.SetElement {
	var elements []nftables.SetElement
	for _, l := range list {
		for i, backend := range l.Backends {
			addr := backend.Addr().As4()
			elements = append(elements, nftables.SetElement{
				Key: binary.NativeEndian.AppendUint32(frontendKey(l.frontend), uint32(i)),
				Val: append(binary.BigEndian.AppendUint16(addr[:], backend.Port()), 0, 0),
			})
		}
	}
	return elements
}

// selfElements pairs every back-end's address with itself.
func selfElements(list []forwarding) []nftables.SetElement {
	seen := map[netip.Addr]bool{}
	var elements []nftables.SetElement
	for _, l := range list {
		for _, backend := range l.Backends {
			if a := backend.Addr(); !seen[a] {
				seen[a] = true
				elements = append(elements, nftables.SetElement{Key: append(a.AsSlice(), a.AsSlice()...)})
			}
		}
	}
	return elements
}
