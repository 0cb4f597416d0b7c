// Package peer owns the Unix socket by which the users of a machine reach Muster, and
// tells a server which user is at the other end.
//
// # Vocabulary
//
// A Peer is the user who connected, as the kernel noted at that moment: uid, gid and
// supplementary groups. The pid is never read, since the kernel gives it to another
// process later. A process may hand its open connection to another; what comes by it
// still counts as a request of the user who connected.
//
// The overflow uid, 65534 by default, stands for every uid that has no number in the
// server's user namespace. It is many users, so it is refused.
//
// An [Inside] listener is for requests that this process itself makes for a user, such as
// for the user's session at the console. The kernel tells nothing about them.
//
// Both ends check the other: [Dial] sends nothing to a socket of another user than root
// and its own.
//
// # What it must not know
//
// Kubernetes, and the rights that a user has.
package peer
