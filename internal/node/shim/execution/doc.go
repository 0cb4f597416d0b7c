// Package execution finds a container's program and executes it, as the container's user.
//
// A process that changes its user does so in two stages. The shim starts a copy of its own
// program, still as root, with an [Order] (the second stage). That process becomes the user,
// enters the working directory and looks up the program, all with the user's rights alone:
// root may see what the user may not, and a server of files may refuse root. Then it executes
// the program in its own place. What goes wrong comes back as a [Fault].
//
// Vocabulary: the order is what the second stage is told; the status is its answer, on a pipe
// that closes with the execution.
//
// Nothing that the user controls has an effect before the change of the user: the second stage
// has the shim's environment, and the user's is in the order.
//
// The package is linked into the shim and stays small. It must not know containers, their logs
// and their namespaces.
package execution
