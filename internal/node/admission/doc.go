// Package admission decides whether this node can run a pod exactly as it is
// written.
//
// A node that runs pods as processes cannot honour every field of a pod. The
// rule is: whatever cannot be honoured is refused by the field's name, with
// the reason and what to do instead; nothing is ever silently ignored. Fields
// this package does not know, because they were added to the API later, are
// refused as well, as long as they are set.
//
// A refusal is passing if its cause is a port or GPU that is in use or unhealthy now. Other
// refusals last until a change of the pod or of the node's configuration. The node decides about a
// refused pod.
//
// It is pure: a pod and facts about the node in, a [Refusal] or nothing out.
// It reads no file, asks no API and knows no clock.
//
// # What is decided
//
// Always refused: ephemeral containers, privileged containers, added or
// dropped capabilities, seccomp, AppArmor and SELinux profiles other than the
// unconfined default, allowPrivilegeEscalation: false, read-only root file
// systems but of an image, sysctls, fsGroup and supplemental groups, user namespaces, runtime
// classes, resource claims, block devices, mount propagation, gRPC probes,
// stop signals other than SIGTERM, per-container restart rules, volumes of
// other kinds than the node implements, GPUs that are not there, not free or
// not named, images where there is nothing that runs them.
//
// Refused in the plain tier, where processes share the machine's file system,
// network and resources: absolute mount paths outside the pod's root,
// read-only mounts of writable folders, memory and CPU limits, host names of
// one's own by hostAliases or dnsConfig, ports that are taken. A container in
// an image has files of its own in that tier, too.
//
// Refused on a machine that several users share: namespaces that belong to no user, another user or
// group than the owner of the namespace, allowPrivilegeEscalation: true but for root, images.
//
// Refused in the isolated tier: the host's process and IPC namespaces, host
// ports without hostNetwork.
package admission
