package network

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// OccupiedError says that the machine has a use for the range of services
// already.
type OccupiedError struct {
	// Range is the range of services, Used what of it, or around it, is in use.
	Range, Used netip.Prefix
	// Interface is the network interface that has it; empty if none is known.
	Interface string
	// StateDir is the folder of another Muster's network that has it; empty if
	// it is none's, or the path is longer than the kernel keeps.
	StateDir string
	// Other is true if it is another Muster's network that has it.
	Other bool
}

// Error says who has the range.
func (e *OccupiedError) Error() string {
	switch {
	case e.StateDir != "":
		return fmt.Sprintf("the range %v of Services is in use by another Muster, whose network is kept in %s (interface %s)", e.Range, e.StateDir, e.Interface)
	case e.Other:
		return fmt.Sprintf("the range %v of Services is in use by another Muster (interface %s)", e.Range, e.Interface)
	case e.Interface != "":
		return fmt.Sprintf("the range %v of Services is in use on this machine: interface %s has %v", e.Range, e.Interface, e.Used)
	}
	return fmt.Sprintf("the range %v of Services is in use on this machine: a route or a name server has %v", e.Range, e.Used)
}

// occupied finds out who has a part of the range of services.
func (n *Network) occupied(used netip.Prefix) *OccupiedError {
	e := &OccupiedError{Range: n.options.ServiceCIDR, Used: used}
	routes, err := retried(func() ([]netlink.Route, error) { return n.host.handle.RouteList(nil, unix.AF_INET) })
	if err != nil {
		return e // Whose it is would be good to know, no more.
	}
	for _, r := range routes {
		if found := appendNet(nil, r.Dst); len(found) == 0 || found[0] != used {
			continue
		}
		link, err := n.host.handle.LinkByIndex(r.LinkIndex)
		if err != nil {
			continue
		}
		e.Interface = link.Attrs().Name
		owner, other := strings.CutPrefix(link.Attrs().Alias, ownerPrefix)
		if e.Other = other; other && !strings.HasPrefix(owner, "#") {
			e.StateDir = owner
		}
		return e
	}
	return e
}
