//go:build !linux

package peer

import (
	"context"
	"errors"
	"net"
)

var errLinux = errors.New("the socket for the users of a machine needs Linux")

// Listener accepts connections of users of the machine.
type Listener struct{ net.Listener }

// Listen returns an error: it needs Linux.
func Listen(context.Context, string) (*Listener, error) { return nil, errLinux }

// Dial returns an error: it needs Linux.
func Dial(context.Context, string) (net.Conn, error) { return nil, errLinux }
