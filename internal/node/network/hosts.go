package network

import (
	"bytes"
	"fmt"
	"net/netip"
	"strings"
)

// HostsEntry is one line of a hosts file.
type HostsEntry struct {
	// Addr is the address; an entry without one is left out.
	Addr netip.Addr
	// Names are its names, the canonical one first; an entry without any is
	// left out.
	Names []string
}

// HostsFile renders an /etc/hosts: the loopback lines, then the entries in
// the order given.
func HostsFile(entries []HostsEntry) []byte {
	var b bytes.Buffer
	b.WriteString("127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n")
	for _, e := range entries {
		if !e.Addr.IsValid() || len(e.Names) == 0 {
			continue
		}
		fmt.Fprintf(&b, "%s\t%s\n", e.Addr, strings.Join(e.Names, " "))
	}
	return b.Bytes()
}

// ResolvConf renders the /etc/resolv.conf of a pod in the namespace, whose
// names are answered at server: the gateway, where DNS listens.
func ResolvConf(namespace string, server netip.Addr) []byte {
	return fmt.Appendf(nil, "search %[1]s.svc.%[2]s svc.%[2]s %[2]s\nnameserver %[3]s\noptions ndots:5\n",
		namespace, clusterDomain, server)
}
