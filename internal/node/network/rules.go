package network

import (
	"encoding/binary"
	"net"
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// builder collects the chains, sets and rules of one table in a transaction.
type builder struct {
	conn  *nftables.Conn
	table *nftables.Table
}

// chain adds a chain that the kernel calls.
func (b *builder) chain(name string, kind nftables.ChainType, hook *nftables.ChainHook, priority *nftables.ChainPriority) *nftables.Chain {
	return b.conn.AddChain(&nftables.Chain{Table: b.table, Name: name, Type: kind, Hooknum: hook, Priority: priority})
}

// plainChain adds a chain that rules send packets to.
func (b *builder) plainChain(name string) *nftables.Chain {
	return b.conn.AddChain(&nftables.Chain{Table: b.table, Name: name})
}

// rule adds a rule made of parts: conditions, then what happens.
func (b *builder) rule(chain *nftables.Chain, parts ...[]expr.Any) {
	b.conn.AddRule(&nftables.Rule{Table: b.table, Chain: chain, Exprs: slices.Concat(parts...)})
}

// set adds a set or map with its elements.
func (b *builder) set(set *nftables.Set, elements []nftables.SetElement) error {
	if err := b.conn.AddSet(set, nil); err != nil {
		return err
	}
	return b.elements(set, elements)
}

func (b *builder) elements(set *nftables.Set, elements []nftables.SetElement) error {
	for part := range slices.Chunk(elements, elementsPerMessage) {
		if err := b.conn.SetAddElements(set, part); err != nil {
			return err
		}
	}
	return nil
}

var loopback = netip.MustParsePrefix("127.0.0.0/8")

// Offsets in the IPv4 header, in bytes.
const (
	sourceOffset      = 12
	destinationOffset = 16
)

// ICMP, RFC 792.
const (
	icmpRedirect        = 5
	icmpPortUnreachable = 3
)

func inIs(link string) []expr.Any     { return linkIs(expr.MetaKeyIIFNAME, expr.CmpOpEq, link) }
func inIsNot(link string) []expr.Any  { return linkIs(expr.MetaKeyIIFNAME, expr.CmpOpNeq, link) }
func outIs(link string) []expr.Any    { return linkIs(expr.MetaKeyOIFNAME, expr.CmpOpEq, link) }
func outIsNot(link string) []expr.Any { return linkIs(expr.MetaKeyOIFNAME, expr.CmpOpNeq, link) }

func linkIs(key expr.MetaKey, op expr.CmpOp, link string) []expr.Any {
	name := make([]byte, unix.IFNAMSIZ)
	copy(name, link)
	return []expr.Any{
		&expr.Meta{Key: key, Register: unix.NFT_REG_1},
		&expr.Cmp{Op: op, Register: unix.NFT_REG_1, Data: name},
	}
}

func destinationIn(p netip.Prefix) []expr.Any { return addrIn(destinationOffset, expr.CmpOpEq, p) }
func sourceIn(p netip.Prefix) []expr.Any      { return addrIn(sourceOffset, expr.CmpOpEq, p) }
func sourceNotIn(p netip.Prefix) []expr.Any   { return addrIn(sourceOffset, expr.CmpOpNeq, p) }

func addrIn(offset uint32, op expr.CmpOp, p netip.Prefix) []expr.Any {
	return []expr.Any{
		loadAddr(offset, reg0),
		&expr.Bitwise{SourceRegister: reg0, DestRegister: reg0, Len: 4, Mask: net.CIDRMask(p.Bits(), 32), Xor: make([]byte, 4)},
		&expr.Cmp{Op: op, Register: reg0, Data: p.Masked().Addr().AsSlice()},
	}
}

func loadAddr(offset, register uint32) expr.Any {
	return &expr.Payload{Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: 4, DestRegister: register}
}

func protocolIs(protocol byte) []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: reg0},
		&expr.Cmp{Op: expr.CmpOpEq, Register: reg0, Data: []byte{protocol}},
	}
}

func icmpTypeIs(kind byte) []expr.Any {
	return []expr.Any{
		&expr.Payload{Base: expr.PayloadBaseTransportHeader, Offset: 0, Len: 1, DestRegister: reg0},
		&expr.Cmp{Op: expr.CmpOpEq, Register: reg0, Data: []byte{kind}},
	}
}

// rewritten holds for connections whose destination was rewritten.
func rewritten() []expr.Any { return connectionHas(expr.CmpOpNeq, destinationRewritten) }

// notMasqueraded holds for connections whose source was not rewritten.
func notMasqueraded() []expr.Any { return connectionHas(expr.CmpOpEq, sourceRewritten) }

// connectionHas compares a flag of the connection with zero.
func connectionHas(op expr.CmpOp, flag uint32) []expr.Any {
	return []expr.Any{
		&expr.Ct{Key: expr.CtKeySTATUS, Register: reg0},
		&expr.Bitwise{SourceRegister: reg0, DestRegister: reg0, Len: 4,
			Mask: binary.NativeEndian.AppendUint32(nil, flag), Xor: make([]byte, 4)},
		&expr.Cmp{Op: op, Register: reg0, Data: make([]byte, 4)},
	}
}

// The kernel's IPS_SRC_NAT and IPS_DST_NAT.
const (
	sourceRewritten      = 1 << 4
	destinationRewritten = 1 << 5
)

// lookupPair holds for packets whose source and destination are in the set.
func lookupPair(set *nftables.Set) []expr.Any {
	return []expr.Any{
		loadAddr(sourceOffset, reg0),
		loadAddr(destinationOffset, reg1),
		&expr.Lookup{SourceRegister: reg0, SetName: set.Name, SetID: set.ID},
	}
}

func drop() []expr.Any { return []expr.Any{&expr.Verdict{Kind: expr.VerdictDrop}} }

func masquerade() []expr.Any { return []expr.Any{&expr.Masq{}} }

// loadDestination puts a frontend's address into the first register.
func loadDestination() expr.Any { return loadAddr(destinationOffset, reg0) }

// loadUnspecified puts the address of node ports there.
func loadUnspecified() expr.Any { return &expr.Immediate{Register: reg0, Data: make([]byte, 4)} }

// loadFrontend puts a frontend into the first three registers.
func loadFrontend(addr expr.Any) []expr.Any {
	return []expr.Any{
		addr,
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: reg1},
		&expr.Payload{Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2, DestRegister: reg2},
	}
}

// dispatch sends a packet to the chain for its frontend.
func dispatch(addr expr.Any, frontends *nftables.Set) []expr.Any {
	return append(loadFrontend(addr),
		&expr.Lookup{SourceRegister: reg0, DestRegister: unix.NFT_REG_VERDICT, IsDestRegSet: true, SetName: frontends.Name, SetID: frontends.ID})
}

// pick rewrites the destination to one of n back-ends, at random.
func pick(addr expr.Any, n int, backends *nftables.Set) []expr.Any {
	return append(loadFrontend(addr),
		&expr.Numgen{Register: reg3, Modulus: uint32(n), Type: unix.NFT_NG_RANDOM},
		&expr.Lookup{SourceRegister: reg0, DestRegister: reg0, IsDestRegSet: true, SetName: backends.Name, SetID: backends.ID},
		&expr.NAT{Type: expr.NATTypeDestNAT, Family: unix.NFPROTO_IPV4, RegAddrMin: reg0, RegProtoMin: reg1},
	)
}
