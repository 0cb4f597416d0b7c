// Package contract is what a muster and a shim agree on: the files of a
// container's folder, the messages on its control socket, and the framing of
// log lines.
//
// The two sides may come from different builds, because a shim outlives the
// muster that started it. Fields are therefore only ever added, unknown fields
// are ignored, and no name or meaning is ever reused.
//
// Vocabulary: a container is one command with everything it starts; its folder
// holds its spec, its identity, its logs and, in the end, its exit. The main
// process is the command itself; the tree is the main process with all its
// descendants.
//
// The package holds types and pure functions. It must not know who starts
// containers or how they are kept apart, and it stays small: all of it is
// linked into the shim.
package contract
