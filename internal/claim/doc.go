// Package claim lets one process at a time hold a name in the machine's network namespace: the
// name of a bridge, or a range of addresses that is about to be used.
//
// A claim is a name among the abstract Unix sockets. Those belong to the network namespace, as
// bridges and routes do, so a process in a container that shares the machine's network sees the
// claim, too. The kernel ends a claim with its process.
//
// Any user of the machine can take any name. A claim orders processes that mean well; it grants
// no right.
package claim
