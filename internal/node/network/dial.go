package network

import (
	"context"
	"net"
)

// Dial connects over TCP from inside the network namespace that is mounted on
// the file at path. The address is literal: nothing is looked up in there.
func Dial(ctx context.Context, path, address string) (net.Conn, error) {
	var conn net.Conn
	err := inNamespace(path, func(*namespace) (err error) {
		// One network family and no name: the socket is made by this very
		// goroutine, whose thread is inside.
		conn, err = new(net.Dialer).DialContext(ctx, "tcp4", address)
		return err
	})
	return conn, err
}
