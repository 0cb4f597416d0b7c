// Package userapi owns the HTTP server behind the Unix socket of a machine: the one way
// by which the users of the machine reach Muster.
//
// # Vocabulary
//
// A route is chosen by the first segment of a path. Paths of Kubernetes go to the API
// server by the front proxy; those below [DoorPath] to the door; [CredentialPath] is the
// server's own; those below [ConsolePath] go to the console. Others are not found.
//
// Requests of a session of the console come by a listener inside the process
// (peer.Inside), and take the same routes, except [CredentialPath] and [ConsolePath].
//
// A credential is a client certificate of at most 15 minutes, for a key of the caller. It
// is for programs that connect to the port of the API server by themselves: kubectl, and
// streams of exec and port-forward. The private key never comes here.
//
// A user is prepared before each request: another part makes the namespace and the queue,
// and remembers that.
//
// A refusal is one line in the log, with the uid, method and path of the request: no query,
// header or body.
//
// # What it must not know
//
// Kubernetes, the rights of a user, and the meaning of a request.
package userapi
