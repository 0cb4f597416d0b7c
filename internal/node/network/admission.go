package network

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/userdata"
	"golang.org/x/sys/unix"
)

// A packet must please every table. Container engines and firewalls make
// chains whose policy is to drop, and then nothing that the network's own table
// accepts passes. So that pods reach each other, their name server and the API
// server there, too, rules that accept just these are put in front of such
// chains. They carry a comment by which they are found and taken away again.

func (f *firewall) comment() []byte {
	return userdata.AppendString(nil, userdata.TypeComment, f.tableName())
}

func (f *firewall) isOurs(r *nftables.Rule) bool {
	comment, ok := userdata.GetString(r.UserData, userdata.TypeComment)
	return ok && comment == f.tableName()
}

// admit puts the accepting rules in front of every chain that drops by policy,
// and gives the chains' names. What an earlier process put there is replaced.
func (f *firewall) admit(uplinks []string) ([]string, error) {
	conn, err := f.connect()
	if err != nil {
		return nil, fmt.Errorf("opening nftables: %w", err)
	}
	dropping, err := f.dropping(conn)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, chain := range dropping {
		if err := f.withdrawFrom(conn, chain); err != nil {
			return nil, err
		}
		for _, rule := range f.admissions(*chain.Hooknum, uplinks) {
			exprs := slices.Concat(isIPv4(), rule, []expr.Any{&expr.Counter{}, &expr.Verdict{Kind: expr.VerdictAccept}})
			conn.InsertRule(&nftables.Rule{Table: chain.Table, Chain: chain, Exprs: exprs, UserData: f.comment()})
		}
		names = append(names, chain.Table.Name+" "+chain.Name)
	}
	if err := conn.Flush(); err != nil {
		return nil, fmt.Errorf("admitting pods to the chains %s: %w", strings.Join(names, ", "), err)
	}
	return names, nil
}

// withdraw takes the rules of admit away.
func (f *firewall) withdraw() error {
	conn, err := f.connect()
	if err != nil {
		return fmt.Errorf("opening nftables: %w", err)
	}
	chains, err := f.dropping(conn)
	if err != nil {
		return err
	}
	var errs []error
	for _, chain := range chains {
		errs = append(errs, f.withdrawFrom(conn, chain))
	}
	if err := conn.Flush(); err != nil {
		errs = append(errs, fmt.Errorf("taking the rules for pods out of other tables: %w", err))
	}
	return errors.Join(errs...)
}

func (f *firewall) withdrawFrom(conn *nftables.Conn, chain *nftables.Chain) error {
	rules, err := conn.GetRules(chain.Table, chain)
	if err != nil {
		return fmt.Errorf("listing the rules of %s %s: %w", chain.Table.Name, chain.Name, err)
	}
	for _, rule := range rules {
		if f.isOurs(rule) {
			if err := conn.DelRule(rule); err != nil {
				return fmt.Errorf("removing a rule of %s %s: %w", chain.Table.Name, chain.Name, err)
			}
		}
	}
	return nil
}

// dropping lists the chains of other tables that drop what comes to the
// machine or through it.
func (f *firewall) dropping(conn *nftables.Conn) ([]*nftables.Chain, error) {
	chains, err := conn.ListChains()
	if err != nil {
		return nil, fmt.Errorf("listing nftables: %w", err)
	}
	return slices.DeleteFunc(chains, func(c *nftables.Chain) bool {
		family := c.Table.Family == nftables.TableFamilyIPv4 || c.Table.Family == nftables.TableFamilyINet
		if !family || c.Hooknum == nil || c.Policy == nil || c.Table.Name == f.tableName() {
			return true
		}
		hook := *c.Hooknum == *nftables.ChainHookForward || *c.Hooknum == *nftables.ChainHookInput
		return !hook || *c.Policy != nftables.ChainPolicyDrop
	}), nil
}

// admissions are the conditions under which a packet is accepted at a hook.
func (f *firewall) admissions(hook nftables.ChainHook, uplinks []string) [][]expr.Any {
	if hook == *nftables.ChainHookInput {
		gateway := netip.PrefixFrom(f.gateway, 32)
		rules := [][]expr.Any{
			// Only what was rewritten to the API server's address: the guard
			// drops everything else that pods address there.
			slices.Concat(inIs(f.bridge), destinationIn(loopback)),
		}
		for _, protocol := range []byte{unix.IPPROTO_UDP, unix.IPPROTO_TCP} {
			rules = append(rules, slices.Concat(inIs(f.bridge), destinationIn(gateway), protocolIs(protocol), portIs(53)))
		}
		return rules
	}
	rules := [][]expr.Any{
		slices.Concat(inIs(f.bridge), outIs(f.bridge)),
		slices.Concat(outIs(f.bridge), established()),
	}
	for _, uplink := range uplinks {
		rules = append(rules, slices.Concat(inIs(f.bridge), outIs(uplink)))
	}
	return rules
}

// admitPods notes what was done, and what could not be.
func (n *Network) admitPods() error {
	links, err := n.uplinks()
	if err != nil {
		return err
	}
	var names []string
	for _, link := range links {
		names = append(names, link.Attrs().Name)
	}
	chains, err := n.firewall.admit(names)
	if err != nil {
		return err
	}
	if len(chains) > 0 {
		n.notes = append(n.notes, fmt.Sprintf("Rules that let pods through were put in front of the nftables chains %s, which drop by default.", strings.Join(chains, ", ")))
	}
	if raw, err := os.ReadFile("/proc/thread-self/net/ip_tables_names"); err == nil && slices.Contains(strings.Fields(string(raw)), "filter") {
		n.notes = append(n.notes, fmt.Sprintf("This machine uses the former iptables, which is not looked into: if its FORWARD chain drops by default, pods do not reach each other until it accepts what goes from %[1]s to %[1]s.", n.options.Bridge))
	}
	return nil
}

// isIPv4 matters in tables for both families, where the header's offsets would
// be read from IPv6 packets, too.
func isIPv4() []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: reg0},
		&expr.Cmp{Op: expr.CmpOpEq, Register: reg0, Data: []byte{unix.NFPROTO_IPV4}},
	}
}

func portIs(port uint16) []expr.Any {
	return []expr.Any{
		&expr.Payload{Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2, DestRegister: reg0},
		&expr.Cmp{Op: expr.CmpOpEq, Register: reg0, Data: binary.BigEndian.AppendUint16(nil, port)},
	}
}

// established holds for packets of connections that are known.
func established() []expr.Any {
	return []expr.Any{
		&expr.Ct{Key: expr.CtKeySTATE, Register: reg0},
		&expr.Bitwise{SourceRegister: reg0, DestRegister: reg0, Len: 4,
			Mask: binary.NativeEndian.AppendUint32(nil, expr.CtStateBitESTABLISHED|expr.CtStateBitRELATED), Xor: make([]byte, 4)},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: reg0, Data: make([]byte, 4)},
	}
}
