package spark

import (
	"context"
	"fmt"
	"net"
	"slices"
	"time"
)

// ownTimeout is for how long a name may not yet lead to the member that has it.
const ownTimeout = 2 * time.Minute

// own is this member's address, of the name by which its peers know it.
func own(ctx context.Context, host string) (string, error) {
	if net.ParseIP(host) != nil {
		return host, nil
	}
	deadline := time.Now().Add(ownTimeout)
	for {
		found, err := net.DefaultResolver.LookupHost(ctx, host)
		if err == nil {
			var mine []net.Addr
			if mine, err = net.InterfaceAddrs(); err != nil {
				return "", fmt.Errorf("listing this member's addresses: %w", err)
			}
			for _, at := range found {
				if slices.ContainsFunc(mine, func(a net.Addr) bool { n, ok := a.(*net.IPNet); return ok && n.IP.Equal(net.ParseIP(at)) }) {
					return at, nil
				}
			}
			err = fmt.Errorf("it leads to %v, which is not this member", found)
		}
		if time.Now().After(deadline) {
			return "", fmt.Errorf("looking up %s, by which peers know this member: %w", host, err)
		}
		if err := wait(ctx, pause); err != nil {
			return "", err
		}
	}
}

// reach waits until somebody listens at an address, and returns it as an address
// and a port, with that from which it was reached.
func reach(ctx context.Context, address string, until <-chan struct{}) (from, to string, err error) {
	for {
		conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", address)
		if err == nil {
			from, _, err = net.SplitHostPort(conn.LocalAddr().String())
			to = conn.RemoteAddr().String()
			_ = conn.Close()
			return from, to, err
		}
		select {
		case <-until:
			return "", "", err
		default:
		}
		if err := wait(ctx, pause); err != nil {
			return "", "", err
		}
	}
}
