// Package enclosure builds the tree of files that an isolated container sees
// and moves the calling process into it.
//
// It owns the mount namespace of a container: the host's tree under a root of
// its own, with private /proc and /dev, and the container's mounts over it.
// Paths of the host stay what they are. Whatever has to exist and does not is
// made in memory or in an overlay, never on the host.
//
// A container may have a tree of its own instead of the host's: what an image
// was unpacked to. Then that is mounted first, in the container's namespace
// alone, so that it goes with the last process; /proc and /dev are private
// again, /sys is the machine's and read-only, and what is missing is created in
// the tree.
//
// Vocabulary: the new root is where the tree is assembled; to mirror a folder
// is to lay an empty one over it and bind each of its entries back; to overlay
// it is to let its contents show through a writable layer of the container's
// own. The top level and /run are mirrored, since sockets and mounts live
// there; deeper folders are overlaid.
//
// The package must not know how processes are started or ended. It runs once,
// in a process that already has a mount namespace of its own.
package enclosure
