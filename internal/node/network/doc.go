// Package network gives each pod of the isolated tier a network namespace and
// an address of its own, and makes services, names and the API server
// reachable from it.
//
// # Vocabulary
//
// The bridge is a virtual switch on the machine; its own address, the gateway,
// is the first of the pods' range. A pod's link is a pair of virtual cables:
// one end on the bridge, the other the pod's eth0. A service is an address
// that stands for others, its back-ends; the kernel rewrites the destination
// of the first packet of a connection to one of them and remembers it. The
// uplink is the interface of the machine's default route.
//
// # Every packet is routed
//
// A pod's address is a /32 and its only routes lead to the gateway, so two pods
// on the same bridge talk through the machine's routing, never straight across
// the switch. Were they neighbours, an answer would take the straight way past
// the connection tracking that rewrote the question, and arrive from an address
// that nobody asked. Two more pieces complete this: each port reflects (hairpin
// mode), because with bridge-nf-call-iptables the rewritten packet leaves
// before it is routed and may have to return through the port it came from;
// and a pod that reaches itself through its service appears as the gateway,
// because a kernel drops packets that come in from its own address. Isolated
// bridge ports would enforce the same, but drop rewritten packets where
// bridge-nf-call-iptables is set. Neighbour entries are permanent on both
// sides, and the bridge drops what a pod sends under any hardware or network
// address but its own: no pod can claim another's, and no first packet waits.
//
// # What is reachable
//
//   - pod to pod, pod to service, machine to pod, machine to service;
//   - the API server on the machine's loopback, as the first service address,
//     port 443, which needs route_localnet on the bridge. Everything else that
//     a pod addresses to 127.0.0.0/8 is dropped before any rewriting;
//   - likewise a listener of Muster on the loopback, as the service that it is a
//     local back-end of: the S3 gateway;
//   - the world, as the machine's own address, if there is an uplink;
//   - nothing from outside: packets for pods or services that come in by any
//     other interface are dropped first of all;
//   - a port without a ready back-end refuses at once.
//
// On a machine of several users (Options.Tenants) the first line holds for a pod and
// others of its namespace, for a process and the pods of its user, and for root and all pods.
// Services and node ports lead nowhere else: the rules judge the back-end. Each pod's link
// notes whose it is, so that the rules are there before a later process adopts its pods.
//
// IPv6 is the loopback address only.
//
// # What survives
//
// The kernel's objects are the record: the bridge's alias names its owner, each
// link's alias its pod and address. They stay when the process ends in any way,
// and Open adopts them. What was chosen (bridge, range) and changed (sysctls)
// is in StateDir, because it must outlive a reboot; the namespaces and the
// services last seen are in RunDir, because they must not. A namespace is kept
// alive by a mount on a file: pods with mount namespaces of their own should
// make their copy of the tree a slave (MS_SLAVE), so that it goes there, too.
//
// # What does not stay
//
// While a process has a network open it holds a claim on the bridge, which goes
// with the process. A network without a claim, whose owner's folder was deleted
// and in whose pods nothing runs, or whose owner's folder is there and which
// has no pods, is nobody's: the next Open on the machine, whoever's it is,
// removes it with all that belongs to it.
//
// A bridge has at most 1023 ports, so a machine has at most 1023 pods here.
//
// # What it must not know
//
// Kubernetes, processes and containers. It needs root (CAP_NET_ADMIN and
// CAP_SYS_ADMIN); Available tells whether a machine allows all of it.
package network
