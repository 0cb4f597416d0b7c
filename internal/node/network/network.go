package network

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/muster-dev/muster/internal/claim"
	"github.com/muster-dev/muster/internal/osfile"
)

// Network is the pod network of one machine. Its methods may be called
// concurrently.
type Network struct {
	options  Options
	host     *namespace
	claim    *claim.Claim
	bridge   int
	mac      hardwareAddr
	firewall *firewall
	senders  *senders // nil: the kernel cannot
	tenants  *tenants // nil: the machine has one user
	sweeper  *sweeper
	notes    []string

	mu      sync.Mutex
	closed  bool
	pool    *addresses
	entries map[string]*entry

	services sync.Mutex
	applied  []forwarding
	// kept are the services that stay when the process ends.
	kept []Service
}

// Open makes the bridge, or adopts the one an earlier process left, with the
// pods on it, their addresses and the services last set. It must be called
// from the machine's network namespace; ctx bounds the opening only.
func Open(ctx context.Context, options Options) (*Network, error) {
	if err := options.check(); err != nil {
		return nil, err
	}
	host, err := currentNamespace()
	if err != nil {
		return nil, err
	}
	n := &Network{options: options, host: host, entries: map[string]*entry{}}
	if err := n.open(ctx); err != nil {
		return nil, errors.Join(err, n.claim.Release(), host.close())
	}
	return n, nil
}

func (n *Network) open(ctx context.Context) error {
	// 1. What was chosen before.
	if err := osfile.MakeFolder(n.options.StateDir, 0o700); err != nil {
		return fmt.Errorf("making the network's folder: %w", err)
	}
	remembered, err := readState(n.options.StateDir)
	if err != nil {
		return err
	}
	// 2. The bridge, and what it needs of the kernel. What others left for good
	//    goes first: its name and range may be the ones wanted.
	n.reclaimBridges()
	if err := n.chooseBridge(ctx, &remembered); err != nil {
		return err
	}
	if err := n.choosePodCIDR(ctx, &remembered); err != nil {
		return err
	}
	if err := n.checkPods(); err != nil {
		return err
	}
	if err := writeState(n.options.StateDir, remembered); err != nil {
		return err
	}
	if err := n.makeBridge(); err != nil {
		return err
	}
	guarded, err := n.openUplinks(&remembered)
	if err != nil {
		return err
	}
	// 3. The rules, with the services last seen.
	n.firewall = &firewall{bridge: n.options.Bridge, podCIDR: n.options.PodCIDR, serviceCIDR: n.options.ServiceCIDR,
		gateway: n.Gateway(), guarded: guarded, nsFD: n.host.fd()}
	if err := os.MkdirAll(n.options.RunDir, 0o711); err != nil {
		return fmt.Errorf("making the folder of the pods' network namespaces: %w", err)
	}
	if err := n.restoreServices(); err != nil {
		return err
	}
	n.forwardUplinks()
	n.removeTables()
	if err := n.admitPods(); err != nil {
		return err
	}
	// 4. The pods that are there.
	n.pool = newAddresses(n.options.PodCIDR)
	if err := n.adopt(); err != nil {
		return err
	}
	if err := n.separateTenants(); err != nil {
		return err
	}
	return n.restrainPods()
}

// separateTenants keeps users of the machine to their own pods, where it has several. Else it removes
// the rules of an earlier process that did.
func (n *Network) separateTenants() error {
	t := newTenants(n.firewall)
	if !n.options.Tenants {
		return t.remove()
	}
	n.tenants = t
	pods := make([]Pod, 0, len(n.entries))
	for _, e := range n.entries {
		pods = append(pods, e.pod)
	}
	return t.replace(pods)
}

// restrainPods keeps the pods that are there, and those to come, to their own
// addresses, where the kernel can.
func (n *Network) restrainPods() error {
	links := map[string]Pod{}
	for uid, e := range n.entries {
		links[n.linkName(uid)] = e.pod
	}
	s := newSenders(n.firewall)
	err := s.replace(links)
	if errors.Is(err, errNoSenders) {
		n.notes = append(n.notes, "A process that is root in its pod can send with another pod's address: this kernel has no nf_tables for bridges (module nf_tables, CONFIG_NF_TABLES_BRIDGE).")
		return nil
	}
	n.senders = s
	return err
}

// Gateway is the machine's address as pods see it, and where their name server
// listens.
func (n *Network) Gateway() netip.Addr { return n.options.PodCIDR.Addr().Next() }

// PodCIDR is the range of pod addresses.
func (n *Network) PodCIDR() netip.Prefix { return n.options.PodCIDR }

// ServiceCIDR is the range of service addresses.
func (n *Network) ServiceCIDR() netip.Prefix { return n.options.ServiceCIDR }

// Bridge is the name of the bridge.
func (n *Network) Bridge() string { return n.options.Bridge }

// Notes says, a sentence each, what was changed on the machine beyond the
// network's own objects.
func (n *Network) Notes() []string { return slices.Clone(n.notes) }

// Pods lists the pods in the order of their UIDs.
func (n *Network) Pods() []Pod {
	n.mu.Lock()
	defer n.mu.Unlock()
	pods := make([]Pod, 0, len(n.entries))
	for _, e := range n.entries {
		if e.isReady() {
			pods = append(pods, e.pod)
		}
	}
	slices.SortFunc(pods, func(a, b Pod) int { return cmp.Compare(a.UID, b.UID) })
	return pods
}

// servicesPath is where the services last set are kept for the next Open.
func (n *Network) servicesPath() string { return filepath.Join(n.options.RunDir, servicesFile) }

// servicesFile is in RunDir.
const servicesFile = "services.json"

// SetServices replaces all services by these, in one step, if they differ
// from those in place. Without error all of them work; with an error those
// before it still do.
func (n *Network) SetServices(services []Service) error {
	n.services.Lock()
	defer n.services.Unlock()
	list, err := compile(services, n.options.ServiceCIDR, n.options.APIServer)
	if err != nil {
		return err
	}
	if equalForwardings(list, n.applied) {
		return nil
	}
	return n.install(list, services)
}

// install needs the services' mutex held.
func (n *Network) install(list []forwarding, services []Service) error {
	if n.isClosed() {
		return fmt.Errorf("setting services: %w", errClosed)
	}
	if err := n.firewall.apply(list); err != nil {
		return fmt.Errorf("setting services: %w", err)
	}
	before := n.applied
	n.applied = list
	if err := n.forgetFlows(stale(before, list)); err != nil {
		return fmt.Errorf("setting services: %w", err)
	}
	n.kept = withoutLocal(services)
	if err := writeJSON(n.servicesPath(), n.kept); err != nil {
		return fmt.Errorf("remembering the services: %w", err)
	}
	return nil
}

// restoreServices installs the rules with the services that an earlier process
// last set: pods that outlived it go on reaching them.
func (n *Network) restoreServices() error {
	n.services.Lock()
	defer n.services.Unlock()
	var services []Service
	if err := readJSON(n.servicesPath(), &services); err != nil {
		return fmt.Errorf("reading the services last set: %w", err)
	}
	list, err := compile(services, n.options.ServiceCIDR, n.options.APIServer)
	if err != nil {
		// They were set with other options; the next SetServices tells.
		services = nil
		if list, err = compile(nil, n.options.ServiceCIDR, n.options.APIServer); err != nil {
			return err
		}
	}
	return n.install(list, services)
}

func (n *Network) isClosed() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.closed
}

// Close lets go of the network and leaves all of it in place for the next
// Open. Pods keep running. No other method may be running or called later.
func (n *Network) Close() error {
	if n.isClosed() {
		return nil
	}
	// Another process may listen on the ports of local back-ends from now on.
	return errors.Join(n.SetServices(n.kept), n.leave())
}

// leave closes the network.
func (n *Network) leave() error {
	n.mu.Lock()
	n.closed = true
	n.mu.Unlock()
	return errors.Join(n.claim.Release(), n.host.close())
}

// Destroy removes the pods' namespaces, the bridge, the rules and what was
// changed on the machine, and closes the network. It removes as much as it
// can, whatever goes wrong.
func (n *Network) Destroy() error {
	if n.isClosed() {
		return fmt.Errorf("destroying the network: %w", errClosed)
	}
	n.mu.Lock()
	uids := make([]string, 0, len(n.entries))
	for uid := range n.entries {
		uids = append(uids, uid)
	}
	n.mu.Unlock()
	errs := make([]error, len(uids))
	var removals sync.WaitGroup
	for i, uid := range uids {
		removals.Go(func() { errs[i] = n.RemovePod(uid) })
	}
	removals.Wait()
	errs = append(errs, n.removeBridge(), n.firewall.withdraw(), n.closeUplinks(), n.firewall.remove(), newSenders(n.firewall).remove(), newTenants(n.firewall).remove(),
		removeAll(n.servicesPath(), n.namespaces(), n.options.RunDir, statePath(n.options.StateDir)), n.leave())
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("destroying the network: %w", err)
	}
	return nil
}

// removeAll removes files and empty folders that may be there.
func removeAll(paths ...string) error {
	var errs []error
	for _, path := range paths {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
