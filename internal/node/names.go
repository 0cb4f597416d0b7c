package node

import (
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/muster-dev/muster/internal/node/directory"
	"github.com/muster-dev/muster/internal/node/network"
)

// hostEntries are the lines of a pod's hosts file: its own names, and the
// aliases it asks for.
func hostEntries(pod *corev1.Pod, ip string) []network.HostsEntry {
	var entries []network.HostsEntry
	if own, err := netip.ParseAddr(ip); err == nil {
		names := []string{hostname(pod)}
		if pod.Spec.Subdomain != "" {
			names = append([]string{strings.Join([]string{hostname(pod), pod.Spec.Subdomain, pod.Namespace, "svc", directory.Domain}, ".")}, names...)
		}
		entries = append(entries, network.HostsEntry{Addr: own, Names: names})
	}
	for _, alias := range pod.Spec.HostAliases {
		if ip, err := netip.ParseAddr(alias.IP); err == nil {
			entries = append(entries, network.HostsEntry{Addr: ip, Names: alias.Hostnames})
		}
	}
	return entries
}

// resolvConf is a pod's resolver configuration; nil: the machine's own.
func (n *Node) resolvConf(pod *corev1.Pod) []byte {
	if pod.Spec.DNSPolicy == corev1.DNSDefault && pod.Spec.DNSConfig == nil {
		return nil
	}
	var out []byte
	if pod.Spec.DNSPolicy != corev1.DNSNone && pod.Spec.DNSPolicy != corev1.DNSDefault {
		out = network.ResolvConf(pod.Namespace, n.config.Network.Gateway())
	}
	return append(out, dnsConfig(pod.Spec.DNSConfig)...)
}

// dnsConfig renders what a pod adds to its resolver configuration.
func dnsConfig(c *corev1.PodDNSConfig) []byte {
	if c == nil {
		return nil
	}
	var lines []string
	for _, server := range c.Nameservers {
		lines = append(lines, "nameserver "+server)
	}
	if len(c.Searches) > 0 {
		lines = append(lines, "search "+strings.Join(c.Searches, " "))
	}
	for _, option := range c.Options {
		line := "options " + option.Name
		if option.Value != nil {
			line += ":" + *option.Value
		}
		lines = append(lines, line)
	}
	return []byte(strings.Join(lines, "\n") + "\n")
}
