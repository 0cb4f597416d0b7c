// Package scratch gives containers temporary folders that no other container sees, and a home folder to
// users that have none.
//
// A container with mounts of its own has private folders in the place of the machine's /tmp and
// /var/tmp. Other containers get a folder in TMPDIR. Each start of a container begins with empty
// folders, and they are removed once the pod has ended.
//
// The folders are in <data folder>/tmp/<pod>/<container>, with short names: programs make sockets there,
// and the path of a socket has at most 107 bytes.
//
// Vocabulary: a hidden folder is one of the machine's that the container does not see. Files of
// Muster and of the machine's programs that containers need stay visible in it.
//
// The package must not know the runtime of containers.
package scratch
