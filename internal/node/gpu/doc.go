// Package gpu finds the GPUs of a machine, says who uses them, and names the
// machine-wide lock that keeps two Musters off the same one.
//
// # Vocabulary
//
// A Device is one whole GPU, identified by its UUID. A Source is where devices
// come from: the driver's management library (NVML, built in with the tag
// nvml), the nvidia-smi program, a declaration (simulated devices), or nothing.
// A Sample is what a device did at one moment: utilization, memory, power and
// the processes on it. A product is the driver's name for a device, "NVIDIA
// A100-SXM4-80GB"; a model is the short name people ask for, "A100" (see
// product.Model for the rule). A scope is what keeps the simulated devices of two
// Musters on one machine apart: their data folder.
//
// # Locks
//
// Whoever runs a container on a device holds an exclusive flock on LockPath of
// its UUID for as long as the container lives. The file is made beforehand
// (PrepareLocks), so that a holder only opens it for reading, which any user
// may, and the lock goes with the last open descriptor, however its holder
// ends. The files are never removed: a removed file could be locked by one
// process and made anew by another.
//
// Containers that have parts of one device share its lock: they hold it shared,
// and a file beside it that names their Muster's lock group (LockGroup). Who
// wants the whole device is kept off by the first, another Muster that gives out
// parts of it by the second.
//
// # Shares
//
// A Share is a part of one device: thousandths of it and MiB of its memory. No
// driver keeps a process to its part by itself. What there is: variables that
// frameworks read, which bind whoever reads them, and NVIDIA's Multi-Process
// Service (MPS), by which an allocation beyond a process's limit fails and its
// neighbours go on. Enforcement says which it is, and never claims more.
//
// # What it must not know
//
// Pods, placements and Kubernetes. It reports devices and processes; whose a
// process is, and what follows, is the caller's business.
package gpu
