package network

import (
	"errors"
	"fmt"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// senders is the table that keeps each pod to its own addresses. It sees
// frames as they enter the bridge, when the port that they come from is still
// known: behind it, all pods' packets come from the bridge. What is dropped
// there does not teach the bridge anything, either: with another's hardware
// address a pod could draw that one's packets to itself.
type senders struct {
	table *nftables.Table
	// ports are the pods' links, allowed what may come from each.
	ports, allowed *nftables.Set
	firewall       *firewall
}

func newSenders(f *firewall) *senders {
	s := &senders{firewall: f, table: &nftables.Table{Family: nftables.TableFamilyBridge, Name: f.tableName()}}
	s.ports = &nftables.Set{Table: s.table, Name: "ports", KeyType: nftables.TypeIFName}
	s.allowed = &nftables.Set{Table: s.table, Name: "allowed", Concatenation: true,
		KeyType: nftables.MustConcatSetType(nftables.TypeIFName, nftables.TypeEtherAddr, nftables.TypeIPAddr)}
	return s
}

// errNoSenders says that the kernel has no such tables.
var errNoSenders = errors.New("the kernel has no nf_tables for bridges")

// replace makes the table anew, for the pods that are there.
func (s *senders) replace(links map[string]Pod) error {
	conn, err := s.firewall.connect()
	if err != nil {
		return fmt.Errorf("opening nftables: %w", err)
	}
	conn.AddTable(s.table)
	conn.DelTable(s.table)
	conn.AddTable(s.table)
	b := &builder{conn: conn, table: s.table}
	ports, allowed := []nftables.SetElement{}, []nftables.SetElement{}
	for link, pod := range links {
		port, sender := senderElements(link, pod)
		ports, allowed = append(ports, port), append(allowed, sender)
	}
	if err := errors.Join(b.set(s.ports, ports), b.set(s.allowed, allowed)); err != nil {
		return fmt.Errorf("composing the nftables table of the bridge: %w", err)
	}
	chain := b.chain("guard", nftables.ChainTypeFilter, nftables.ChainHookPrerouting, nftables.ChainPriorityRaw)
	// 1. Nothing but IPv4: neighbours are permanent, and nobody need ask.
	b.rule(chain, fromPort(s.ports), notIPv4Frame(), drop())
	// 2. Nothing from another's address, of either kind.
	b.rule(chain, fromPort(s.ports), notAllowed(s.allowed), drop())
	err = conn.Flush()
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EPROTONOSUPPORT) {
		return errNoSenders
	}
	if err != nil {
		return fmt.Errorf("writing the nftables table of the bridge: %w", err)
	}
	return nil
}

// admit lets a pod send through its link, as itself.
func (s *senders) admit(link string, pod Pod) error {
	return s.change(link, pod, (*nftables.Conn).SetAddElements)
}

// forget takes back what admit did. It is no error if it was never done.
func (s *senders) forget(link string, pod Pod) error {
	err := s.change(link, pod, (*nftables.Conn).SetDeleteElements)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

func (s *senders) change(link string, pod Pod, change func(*nftables.Conn, *nftables.Set, []nftables.SetElement) error) error {
	conn, err := s.firewall.connect()
	if err != nil {
		return fmt.Errorf("opening nftables: %w", err)
	}
	port, sender := senderElements(link, pod)
	err = errors.Join(change(conn, s.ports, []nftables.SetElement{port}), change(conn, s.allowed, []nftables.SetElement{sender}))
	if err == nil {
		err = conn.Flush()
	}
	if err != nil {
		return fmt.Errorf("changing who may send through %s: %w", link, err)
	}
	return nil
}

// remove deletes the table. It is no error if there is none, or can be none.
func (s *senders) remove() error {
	conn, err := s.firewall.connect()
	if err != nil {
		return fmt.Errorf("opening nftables: %w", err)
	}
	tables, err := conn.ListTablesOfFamily(nftables.TableFamilyBridge)
	if err != nil {
		return nil //nolint:nilerr // A kernel without such tables cannot list them.
	}
	for _, table := range tables {
		if table.Name == s.table.Name {
			conn.DelTable(table)
		}
	}
	if err := conn.Flush(); err != nil {
		return fmt.Errorf("removing the nftables table of the bridge: %w", err)
	}
	return nil
}

func senderElements(link string, pod Pod) (port, sender nftables.SetElement) {
	name := make([]byte, unix.IFNAMSIZ)
	copy(name, link)
	key := append(append([]byte(nil), name...), hardwareAddrOf(pod.IP)...)
	key = append(append(key, 0, 0), pod.IP.AsSlice()...)
	return nftables.SetElement{Key: name}, nftables.SetElement{Key: key}
}

// The registers from the fifth on: the first four hold a link's name.
const (
	reg4 = unix.NFT_REG32_04
	reg6 = unix.NFT_REG32_06
)

// fromPort holds for frames that come in by a link of the set.
func fromPort(ports *nftables.Set) []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: reg0},
		&expr.Lookup{SourceRegister: reg0, SetName: ports.Name, SetID: ports.ID},
	}
}

func notIPv4Frame() []expr.Any {
	const typeOffset = 12
	return []expr.Any{
		&expr.Payload{Base: expr.PayloadBaseLLHeader, Offset: typeOffset, Len: 2, DestRegister: reg0},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: reg0, Data: []byte{0x08, 0x00}},
	}
}

// notAllowed holds for frames whose link, hardware address and address are not
// together in the set.
func notAllowed(allowed *nftables.Set) []expr.Any {
	const hardwareOffset = 6
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: reg0},
		&expr.Payload{Base: expr.PayloadBaseLLHeader, Offset: hardwareOffset, Len: 6, DestRegister: reg4},
		loadAddr(sourceOffset, reg6),
		&expr.Lookup{SourceRegister: reg0, SetName: allowed.Name, SetID: allowed.ID, Invert: true},
	}
}
