//go:build !linux

package account

import (
	"context"
	"os/user"
)

// Own returns the account of the calling process; false where none is known. The
// system's own library knows it, and a login may have any form there.
func (d *Directory) Own(context.Context) (Account, bool) {
	current, err := user.Current()
	if err != nil {
		return Account{}, false
	}
	uid, _ := parseID(current.Uid)
	gid, _ := parseID(current.Gid)
	return Account{UID: uid, GID: gid, Login: current.Username, Home: current.HomeDir}, true
}
