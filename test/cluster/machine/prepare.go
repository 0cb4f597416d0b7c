package main

import (
	"fmt"
	"os"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/test/cluster/wire"
)

// prepare makes the namespaces that this process was born into a machine.
func prepare(setup wire.Setup) error {
	// 1. Nothing that is mounted here is seen on the host.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keeping mounts to the machine: %w", err)
	}
	if err := show(setup.Binds); err != nil {
		return err
	}
	for _, folder := range setup.Tmpfs {
		if err := unix.Mount("tmpfs", folder, "tmpfs", 0, "mode=755"); err != nil {
			return fmt.Errorf("mounting a tmpfs at %s: %w", folder, err)
		}
	}
	// 2. /proc is that of the machine's processes.
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mounting /proc: %w", err)
	}
	if err := show(setup.Masks); err != nil {
		return err
	}
	// 3. As on a machine started by systemd, mounts are shared with what runs
	// on it, since volume drivers mount for the kubelet from within pods.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
		return fmt.Errorf("sharing mounts within the machine: %w", err)
	}
	if err := unix.Sethostname([]byte(setup.Hostname)); err != nil {
		return fmt.Errorf("naming the machine %s: %w", setup.Hostname, err)
	}
	for path, value := range setup.Sysctls {
		if err := os.WriteFile(path, []byte(value), 0); err != nil {
			return fmt.Errorf("setting %s: %w", path, err)
		}
	}
	return setLink(wire.Link{Name: "lo"})
}

func show(binds []wire.Bind) error {
	for _, bind := range binds {
		if err := unix.Mount(bind.From, bind.To, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("showing %s as %s: %w", bind.From, bind.To, err)
		}
	}
	return nil
}

func makeBridge(bridge wire.Bridge) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = bridge.Name
	if err := netlink.LinkAdd(&netlink.Bridge{LinkAttrs: attrs}); err != nil {
		return fmt.Errorf("making the bridge %s: %w", bridge.Name, err)
	}
	return setLink(wire.Link{Name: bridge.Name, Address: bridge.Address})
}

func setLink(want wire.Link) error {
	link, err := netlink.LinkByName(want.Name)
	if err != nil {
		return fmt.Errorf("looking for the link %s: %w", want.Name, err)
	}
	if want.Address != "" {
		address, err := netlink.ParseAddr(want.Address)
		if err != nil {
			return fmt.Errorf("reading the address %q: %w", want.Address, err)
		}
		if err := netlink.AddrReplace(link, address); err != nil {
			return fmt.Errorf("giving %s the address %s: %w", want.Name, want.Address, err)
		}
	}
	if want.Master != "" {
		master, err := netlink.LinkByName(want.Master)
		if err != nil {
			return fmt.Errorf("looking for the bridge %s: %w", want.Master, err)
		}
		if err := netlink.LinkSetMaster(link, master); err != nil {
			return fmt.Errorf("putting %s into %s: %w", want.Name, want.Master, err)
		}
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("bringing %s up: %w", want.Name, err)
	}
	return setRoutes(link, want.Routes)
}

func setRoutes(link netlink.Link, routes map[string]string) error {
	for to, via := range routes {
		route := &netlink.Route{LinkIndex: link.Attrs().Index}
		if to != "default" {
			destination, err := netlink.ParseIPNet(to)
			if err != nil {
				return fmt.Errorf("reading the destination %q: %w", to, err)
			}
			route.Dst = destination
		}
		gateway, err := netlink.ParseAddr(via + "/32")
		if err != nil {
			return fmt.Errorf("reading the gateway %q: %w", via, err)
		}
		route.Gw = gateway.IP
		if err := netlink.RouteReplace(route); err != nil {
			return fmt.Errorf("routing %s via %s: %w", to, via, err)
		}
	}
	return nil
}
