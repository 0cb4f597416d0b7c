package controlplane

import (
	"context"
	"errors"
	"net"
)

// rangeClaim tells the other control planes of this machine's network namespace which range of
// Services this one has, from the choice on: a route to it is there only seconds later. The
// zero value claims nothing. The kernel ends a claim with the process.
type rangeClaim struct{ socket net.Listener }

// take claims a range instead of what was claimed before. It returns false if another control
// plane has it.
func (c *rangeClaim) take(ctx context.Context, serviceRange string) bool {
	var config net.ListenConfig
	socket, err := config.Listen(ctx, "unix", "@muster/services/"+serviceRange)
	if err != nil {
		return false
	}
	_ = c.release() // of a range that is not used
	c.socket = socket
	return true
}

// release ends the claim.
func (c *rangeClaim) release() error {
	if c.socket == nil {
		return nil
	}
	if err := c.socket.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}
