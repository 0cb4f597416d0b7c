//go:build !unix

package systemd

import "errors"

// Trusted is not there on this system: only Unix systems have a service of Muster.
func Trusted(string) error { return errors.New("only Unix systems have a service of Muster") }
