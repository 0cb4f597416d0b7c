// Package systemd knows the service manager of a machine: the unit of a Muster that several users
// share, the commands that enable and remove it, and the messages of a service to the manager.
//
// The package must not know the parts of Muster, nor any verb.
package systemd
