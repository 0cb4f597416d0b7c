// Package receiver tells the door who calls where no token does: the user at the other
// end of a machine's socket.
//
// A user speaks for their own namespace, u-<uid>. For another one they need the right
// that a cluster asks for, too: to create tokens of service account muster-door there. An
// administrator has it in every namespace.
//
// It must not know what a request asks for.
package receiver
