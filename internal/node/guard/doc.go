// Package guard keeps programs outside of Muster from opening the GPUs of the machine.
//
// It attaches a device filter, an eBPF program of the kernel, to the control groups of login
// sessions and to others that the administrator names. A process in such a group, or in one below
// it, gets "operation not permitted" when it opens a guarded device file, whatever its user and
// wherever the device file lies. A device that a process had opened before stays open.
//
// # Vocabulary
//
// A level says which devices are guarded. A guarded group is a control group of version 2 with the
// filter. A kept process is one of Muster's: it is moved out of the guarded groups, to the group
// [OwnGroup], before the filter is attached.
//
// # Life of the filter
//
// The filter hangs on a BPF link, and only this process holds the link. The kernel detaches the
// filter when the process ends in any way: after `muster down`, and after kill -9. So a crash locks no
// user out, and there is nothing to find and remove at the next start. Nothing is pinned. The kernel
// needs BPF links (Linux 5.7).
//
// Run looks at the groups and at /proc/devices every two seconds: systemd removes and makes groups,
// and drivers that are loaded again get other numbers.
//
// # What it must not know
//
// Kubernetes, pods, and the reading of GPUs.
package guard
