// Package box tries two users of one machine against one another. Its tests make two Unix users, start
// `muster up --system` as root, and act as these users: by commands of Muster, by programs on the machine
// and by jobs. docs/security.md has the table of tries.
package box
