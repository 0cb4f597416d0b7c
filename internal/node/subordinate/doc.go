// Package subordinate gives each user of the machine a range of numbers of users and groups, for the user
// namespaces of images.
//
// A range is allotted at its user's first image, and stays theirs: the table is a file of root's.
// Ranges lie from 2147483648 on, above the numbers that systemd and directories give to people. Ranges of
// /etc/subuid and /etc/subgid are left out. They are not used themselves: users of LDAP seldom have one,
// and their owner can enter it with newuidmap and then reach what runs there.
//
// The package must not know Kubernetes and how images run.
package subordinate
