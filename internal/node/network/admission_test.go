package network

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
)

// TestStrictMachine has other tables drop everything that they do not know,
// as container engines and firewalls make them.
func TestStrictMachine(t *testing.T) {
	out := world(t)
	conn, err := nftables.New()
	if err != nil {
		t.Fatal(err)
	}
	policy := nftables.ChainPolicyDrop
	var chains []*nftables.Chain
	for name, family := range map[string]nftables.TableFamily{"filter": nftables.TableFamilyIPv4, "strict": nftables.TableFamilyINet} {
		table := conn.AddTable(&nftables.Table{Name: name, Family: family})
		forward := conn.AddChain(&nftables.Chain{Table: table, Name: "FORWARD", Type: nftables.ChainTypeFilter,
			Hooknum: nftables.ChainHookForward, Priority: nftables.ChainPriorityFilter, Policy: &policy})
		input := conn.AddChain(&nftables.Chain{Table: table, Name: "INPUT", Type: nftables.ChainTypeFilter,
			Hooknum: nftables.ChainHookInput, Priority: nftables.ChainPriorityFilter, Policy: &policy})
		conn.AddRule(&nftables.Rule{Table: table, Chain: input, Exprs: append(inIs("lo"), &expr.Verdict{Kind: expr.VerdictAccept})})
		conn.AddRule(&nftables.Rule{Table: table, Chain: input, Exprs: append(established(), &expr.Verdict{Kind: expr.VerdictAccept})})
		chains = append(chains, forward, input)
		t.Cleanup(func() {
			conn.DelTable(table)
			if err := conn.Flush(); err != nil {
				t.Error(err)
			}
		})
	}
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}

	options := testOptions(t)
	options.APIServer = serve(t, "", "127.0.0.1:0", "api")
	n := open(t, options)
	a, b := add(t, n, "a"), add(t, n, "b")
	serve(t, a.NetNS, "0.0.0.0:8080", "a")
	serve(t, "", n.Gateway().String()+":53", "names")
	serve(t, "", n.Gateway().String()+":8053", "secret")
	serve(t, out, "0.0.0.0:80", "world")
	if err := n.SetServices([]Service{{ClusterIP: netip.MustParseAddr("10.200.0.10"),
		Ports: []ServicePort{{Port: 80, Backends: []netip.AddrPort{netip.AddrPortFrom(a.IP, 8080)}}}}}); err != nil {
		t.Fatal(err)
	}
	says(t, b.NetNS, fmt.Sprint(a.IP, ":8080"), "a")
	says(t, b.NetNS, "10.200.0.10:80", "a")
	says(t, b.NetNS, "10.200.0.1:443", "api")
	says(t, b.NetNS, fmt.Sprint(n.Gateway(), ":53"), "names")
	says(t, b.NetNS, "198.51.100.1:80", "world")
	says(t, "", "10.200.0.10:80", "a")
	// What the machine's owner closed for everyone stays closed.
	unreachable(t, b.NetNS, fmt.Sprint(n.Gateway(), ":8053"))
	if len(n.Notes()) < 1 {
		t.Error("nothing is noted")
	}

	// A second opening replaces its rules, the end takes them away.
	count := func() (ours int) {
		for _, chain := range chains {
			rules, err := conn.GetRules(chain.Table, chain)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range rules {
				if n.firewall.isOurs(r) {
					ours++
				}
			}
		}
		return ours
	}
	before := count()
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	again := open(t, options)
	if after := count(); after != before || before == 0 {
		t.Errorf("there were %d rules and are %d", before, after)
	}
	if err := again.Destroy(); err != nil {
		t.Fatal(err)
	}
	if left := count(); left != 0 {
		t.Errorf("%d rules were left behind", left)
	}
}
