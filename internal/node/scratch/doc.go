// Package scratch gives containers temporary folders that no other container sees, and a home folder to
// users that have none.
//
// A container with mounts of its own has private folders in the place of the machine's /tmp and
// /var/tmp. Other containers are told of a folder by TMPDIR. Each start of a container begins with empty
// folders, and they are removed once the pod has ended.
//
// The folders are in <data folder>/tmp/<pod>/<container>, with short names: programs make sockets there,
// and the path of a socket has at most 107 bytes.
//
// Vocabulary: a hidden folder is one of the machine's that the container does not see. What containers
// need of Muster and of the machine's programs stays visible in it.
//
// The package must not know how containers are run.
package scratch
