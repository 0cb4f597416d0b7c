// Package hostport finds the ports of this machine on which processes listen.
//
//   - A [Port] is a TCP or UDP port number. [AllFree] tests ports by binding them.
//     [ReadListeners] reads the ports with a listener from the kernel's tables.
//   - [Listeners] name the process that listens on a port.
//
// The package must not know pods, nor their ports.
package hostport
