// Package process runs containers as process trees of this machine, each under
// a shim of its own, and finds them again after a restart.
//
// It owns the folders of containers (<root>/<pod uid>/containers/<name>/
// <restart>), their control groups, and the conversation with their shims. The
// shim owns the tree: it starts the command, writes its logs, ends what it
// leaves behind and records how it ended, whether or not a muster is there to
// see it.
//
// Vocabulary: a Spec says what to run; a Process is a container that runs or
// has run; its Exit says how it ended. The plain tier shares the host's
// namespaces; the isolated tier has its own (Spec.Isolation). To adopt is to
// find the containers of an earlier muster, live ones and ended ones.
//
// The package must not know what a pod is, why a container runs, or when it is
// to run again: it imports no Kubernetes and takes no decision for its caller.
package process
