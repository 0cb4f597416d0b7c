// Package supervise is the shim: it starts one container's command, keeps its
// logs, and says how it ended, whatever becomes of the muster that asked for
// it.
//
// It owns the tree of processes under it and, for as long as it lives, the
// container's folder. It records an exit only when no process of the tree is
// left: whoever reads exit.json may give the container's GPUs away.
//
// Vocabulary: the order is muster's first word, without which nothing starts;
// a waiter is a connection that is told of the start and the exit; the spawner
// is the one thread that starts processes, with the container's network and
// control groups; the journal is the log files; a termination is a
// request to end, as it reaches the processes of the tree.
//
// The package is linked into a binary that runs once per container, so it keeps
// to the standard library without package net, and to small buffers. It must
// not know what a pod or a GPU is.
package supervise
