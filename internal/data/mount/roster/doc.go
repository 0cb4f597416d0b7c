// Package roster owns the mounts of a machine that outlive the process which asked
// for them: each is served by a process of its own.
//
// Vocabulary:
//
//   - An order is which part of which commit is mounted. Who orders the same shares
//     one mount, whose folder is named by a hash of the order.
//   - A user is who needs a mount, such as a pod: a name that is written beside the
//     mount before it is made. A mount is taken away once nobody's name is there any
//     more.
//   - A server is the process that serves one mount. It is found again by what it
//     leaves: the kernel's table of mounts, and a lock on a file that it holds for as
//     long as it lives.
//
// What is in the folder of a mount, and what is the matter where something was killed:
//
//   - users/: names. Whose user is gone is removed when a process begins with the roster.
//   - order: what is to be served.
//   - files: where it is mounted. A mount whose server is dead is unmounted and
//     served anew when somebody asks for it.
//   - lock: held by who mounts or unmounts, so that a server that was started by
//     somebody who died does not mount over another one.
//   - alive: the lock of the server, a new file for each.
//   - log: what the server says, damage that it finds included.
//
// It must not know Kubernetes, who the users are, or where data lies.
package roster
