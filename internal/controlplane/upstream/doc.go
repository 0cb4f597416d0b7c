// Package upstream is the body of the control plane's child process: it runs
// etcd, kube-apiserver and upstream's controllers, unpatched, in one process,
// as its supervisor orders (package contract).
//
// It may be run once a process, and the process is expected to end with it:
// upstream keeps global state, and ends the process itself on some failures.
// The process stops in order when it is told to, and at once when its standard
// input ends without that, which is how it never outlives its supervisor.
//
// It is the one place that imports upstream's servers; nothing but the
// binary's main imports it. It knows nothing of Muster's kinds.
package upstream
