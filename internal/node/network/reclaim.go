package network

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/internal/claim"
)

// A Muster that was killed leaves its network for its next start. Where its
// data folder is deleted meanwhile there is no next start: whoever opens a
// network on the machine clears that away, or names and ranges would run out.

// estate is a network that no process has open.
type estate struct {
	bridge netlink.Link
	// stateDir is its owner's folder. Empty: its name was too long to note.
	stateDir string
	// ports are the links on the bridge that belong to it.
	ports []port
	// foreign says that there are others, too.
	foreign bool
}

// port is a link on a bridge. Its uid is empty where it was never finished.
type port struct {
	link netlink.Link
	uid  string
}

// reclaimBridges removes the networks that were left for good: no process has
// them open and, their owner's folder being gone, nothing runs in their pods
// or, their owner's folder being there, they have no pods.
//
// What cannot be removed is noted and no error: it is in the way of others'
// names and ranges, not of this network.
func (n *Network) reclaimBridges() {
	links, err := retried(n.host.handle.LinkList)
	if err != nil {
		n.notes = append(n.notes, fmt.Sprintf("Networks that others left were not looked for: %v.", err))
		return
	}
	for _, link := range links {
		owner, marked := strings.CutPrefix(link.Attrs().Alias, ownerPrefix)
		if !marked || link.Type() != "bridge" || link.Attrs().Alias == n.owner() {
			continue
		}
		e := estate{bridge: link}
		if filepath.IsAbs(owner) {
			e.stateDir = owner
		}
		if err := n.reclaim(e); err != nil {
			n.notes = append(n.notes, fmt.Sprintf("The network %s, which %s left, could not be cleared away: %v.", link.Attrs().Name, owner, err))
		}
	}
}

// reclaim removes an estate, unless someone may still need it. The claim is
// held meanwhile, so that two who come at once do not do it both.
func (n *Network) reclaim(e estate) (err error) {
	name := e.bridge.Attrs().Name
	held, err := claimBridge(name)
	if errors.Is(err, claim.ErrHeld) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, held.Release()) }()
	// Listed under the claim: whoever had it may have added pods.
	if err := n.listPorts(&e); err != nil || e.foreign {
		return err
	}
	gone := e.stateDir != "" && isGone(e.stateDir)
	for _, p := range e.ports {
		switch {
		case p.uid == "":
		case !gone:
			return nil
		case n.inhabited(name, p):
			n.notes = append(n.notes, fmt.Sprintf("The network %s stays: its data folder %s is gone, but processes of its pods run.", name, filepath.Dir(e.stateDir)))
			return nil
		}
	}
	return n.removeEstate(e)
}

// listPorts finds the links on the estate's bridge.
func (n *Network) listPorts(e *estate) error {
	links, err := retried(n.host.handle.LinkList)
	if err != nil {
		return fmt.Errorf("listing its links: %w", err)
	}
	for _, link := range links {
		attrs := link.Attrs()
		if attrs.MasterIndex != e.bridge.Attrs().Index {
			continue
		}
		pod, ok := parsePodAlias(attrs.Alias)
		switch {
		case ok:
			e.ports = append(e.ports, port{link, pod.UID})
		case attrs.Alias == "" && strings.HasPrefix(attrs.Name, linkPrefix) && link.Type() == "veth":
			e.ports = append(e.ports, port{link, ""})
		default:
			e.foreign = true
		}
	}
	return nil
}

// isGone is false wherever the folder's absence is not certain.
func isGone(folder string) bool {
	_, err := os.Lstat(folder)
	return errors.Is(err, fs.ErrNotExist)
}

// defaultRunDir is where a network keeps its namespaces unless told otherwise.
func defaultRunDir(bridge string) string { return "/run/muster/" + bridge }

// inhabited says whether something may run in the pod. Where its namespace is
// not mounted as seen from here, somebody else knows more.
func (n *Network) inhabited(bridge string, p port) bool {
	path := filepath.Join(defaultRunDir(bridge), namespacesFolder, p.uid)
	pids, err := Inhabitants(path)
	return err != nil || len(pids) > 0
}

// removeEstate removes everything but the firewall's table, which guards the
// uplinks until another does; see removeTables.
func (n *Network) removeEstate(e estate) error {
	name := e.bridge.Attrs().Name
	run := defaultRunDir(name)
	for _, p := range e.ports {
		if err := n.host.handle.LinkDel(p.link); err != nil && !errors.Is(err, unix.ENODEV) {
			return fmt.Errorf("removing the link %s: %w", p.link.Attrs().Name, err)
		}
	}
	files, err := os.ReadDir(filepath.Join(run, namespacesFolder))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("listing its network namespaces: %w", err)
	}
	for _, file := range files {
		if err := forgetNamespace(filepath.Join(run, namespacesFolder, file.Name())); err != nil {
			return err
		}
	}
	if err := n.host.handle.LinkDel(e.bridge); err != nil && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("removing the bridge: %w", err)
	}
	n.notes = append(n.notes, fmt.Sprintf("The network %s was removed: %s left it and nothing used it.", name, cmp.Or(filepath.Dir(e.stateDir), "another Muster")))
	return removeAll(filepath.Join(run, servicesFile), filepath.Join(run, namespacesFolder), run)
}

// removeTables removes the firewall tables whose bridges are gone. It comes
// after this network's own table, which has taken over what they guard.
func (n *Network) removeTables() {
	tables, err := n.firewall.tables()
	if err != nil {
		n.notes = append(n.notes, fmt.Sprintf("Rules that others left were not looked for: %v.", err))
		return
	}
	for bridge, guarded := range tables {
		if err := n.removeTable(bridge, guarded); err != nil {
			n.notes = append(n.notes, fmt.Sprintf("The rules of the network %s, which is gone, could not be cleared away: %v.", bridge, err))
		}
	}
}

// removeTable removes the rules of a bridge that is gone.
func (n *Network) removeTable(bridge string, guarded []string) (err error) {
	if _, err := n.host.handle.LinkByName(bridge); !errors.As(err, new(netlink.LinkNotFoundError)) {
		return nil
	}
	held, err := claimBridge(bridge)
	if errors.Is(err, claim.ErrHeld) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, held.Release()) }()
	old := &firewall{bridge: bridge, nsFD: n.host.fd()}
	guarded = slices.DeleteFunc(guarded, func(name string) bool { return slices.Contains(n.firewall.guarded, name) })
	return errors.Join(n.stopForwarding(old, guarded), old.withdraw(), old.remove(), newSenders(old).remove(), newTenants(old).remove())
}

// Inhabitants lists the processes in the network namespace that is mounted on
// the file at path. It is an error if none is.
func Inhabitants(path string) ([]int, error) {
	if !isNamespace(path) {
		return nil, fmt.Errorf("looking into the network namespace %s: none is mounted there", path)
	}
	var want unix.Stat_t
	if err := unix.Stat(path, &want); err != nil {
		return nil, fmt.Errorf("looking into the network namespace %s: %w", path, err)
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("looking into the network namespace %s: %w", path, err)
	}
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		var has unix.Stat_t
		if unix.Stat("/proc/"+e.Name()+"/ns/net", &has) == nil && has.Dev == want.Dev && has.Ino == want.Ino {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}
