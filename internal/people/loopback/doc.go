// Package loopback tells which user of the machine is at the other end of a TCP connection.
//
// The kernel tells the uid of each socket of this network namespace: by sock_diag, else in its lists
// (/proc/net/tcp and tcp6). A server on localhost compares that uid with the user of a session: a
// stolen cookie, link or key is then of no use to another user of the machine.
//
// Only an established socket that a process holds counts. The kernel shows uid 0 for a socket whose
// process has closed it, so a process could send a request, close its socket and count as root.
//
// It must not know HTTP routes, sessions or rights.
package loopback
