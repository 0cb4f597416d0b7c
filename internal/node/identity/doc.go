// Package identity decides whom the processes of a container run as.
//
// # Vocabulary
//
// A [User] is made here and nowhere else, and its zero value is no user: a container never runs
// as Muster's own user since something was left out. There are three kinds:
//
//   - Muster's own user, in a Muster of one user.
//   - A user that the pod asks for (runAsUser), in a Muster of one user that runs as root.
//   - The owner of the pod's namespace, on a machine that several users share: with the login,
//     home, shell and all groups that the machine's directory of users tells. The pod's fields do
//     not count; package admission refuses those that ask for more.
//
// While the directory is away, a user is not known, and the error says so: no process runs with
// fewer groups than its user has. What runs goes on.
//
// # What it must not know
//
// How a process becomes the user, and where a user's files are.
package identity
