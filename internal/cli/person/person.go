// Package person owns how whoever types is named in what Muster keeps:
// user@host.
//
// It must not know what is signed with the name.
package person

import (
	"os"
	"os/user"
)

// Name returns user@host, or the user alone where the host has no name.
func Name() string {
	name := os.Getenv("USER")
	if current, err := user.Current(); err == nil {
		name = current.Username
	}
	host, err := os.Hostname()
	if err != nil {
		return name
	}
	return name + "@" + host
}
