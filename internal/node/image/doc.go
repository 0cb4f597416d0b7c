// Package image gets the root file systems of container images from
// containerd: it has images pulled and unpacked there, prepares a root for each
// container, and gives back what is not needed any more.
//
// It speaks with containerd's services over its socket, in a namespace of its
// own, and nothing else of Muster does. containerd runs nothing for Muster: the
// container's process is started in the root by the shim, as any other.
//
// # Vocabulary
//
// A reference names an image in full: registry, repository, and tag or digest.
// To fetch is to make sure that an image is there, pulled and unpacked, as its
// policy says. A root is the root file system of a container: the mounts of its
// own writable copy of an image, known by the container's ID. A holder is a pod
// that has images or roots here; what it holds containerd keeps (its lease) until it is released.
// A fault is what keeps an image from being used, with the word that kubelets
// have for it.
//
// The package must not know what a pod is, or when a container runs.
package image
