// Package hostport knows the ports of this machine on which processes listen.
//
//   - A [Port] is a number of TCP or UDP. [AllFree] asks the kernel for ports, and
//     [ReadListeners] reads which are taken.
//   - [Listeners] name the process that listens on a port.
//
// It must not know pods, nor which of them was promised a port.
package hostport
