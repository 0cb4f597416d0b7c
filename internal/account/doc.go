// Package account owns the users and groups of the machine, as its name service
// (NSS) knows them: files, LDAP, SSSD, systemd.
//
// # Vocabulary
//
// A Directory asks getent, since a static Go program reads /etc/passwd alone. An
// account is known, not known, or the directory is away ([ErrAway]): getent gave no
// answer in time, or failed.
//
// getent ends with 2 for a user who does not exist and also where a service of NSS
// fails at once, such as SSSD that is stopped. So "not known" proves nothing about the
// past: a caller may refuse such a user, and may not remove anything of theirs.
//
// # Hostile data
//
// Entries come from a server of the network, and users change some of their fields.
// A login or group name counts only if the directory gives the same number for it: an
// entry of LDAP with the login root and the uid 5001 does not get the groups of root.
// Names with control characters, and names that are numbers, count as no name.
//
// # What it must not know
//
// Kubernetes, jobs, and the rights that an account gives.
package account
