package node

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-dev/muster/internal/node/gpu"
	"github.com/muster-dev/muster/internal/node/inventory"
	"github.com/muster-dev/muster/internal/node/network"
	"github.com/muster-dev/muster/internal/node/podrecord"
	"github.com/muster-dev/muster/internal/node/process"
	"github.com/muster-dev/muster/internal/node/registry"
)

// leftover is what an earlier muster left of a pod.
type leftover struct {
	record    *podrecord.Record
	processes []*process.Process
}

func (l *leftover) name() string {
	if l.record == nil {
		return "unknown"
	}
	return l.record.Namespace + "/" + l.record.Name
}

// inherit finds what an earlier muster left, and holds the GPUs of what still
// runs before anything else may take them.
func (n *Node) inherit(ctx context.Context) error {
	processes, err := n.config.Runtime.Adopt(ctx)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		n.config.Log.Warn("looking for containers of an earlier run", "error", err)
	}
	records, err := podrecord.ReadAll(n.config.podsDir())
	if err != nil {
		n.config.Log.Warn("looking for pods of an earlier run", "error", err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for uid, r := range records {
		n.inherited[uid] = &leftover{record: r}
	}
	for _, p := range processes {
		uid := types.UID(p.Spec().PodUID)
		l := n.inherited[uid]
		if l == nil {
			l = &leftover{}
			n.inherited[uid] = l
		}
		l.processes = append(l.processes, p)
	}
	for uid, l := range n.inherited {
		if l.record != nil && slices.ContainsFunc(l.processes, live) {
			n.ledger.Quarantine(uid, l.name(), l.record.GPUs, l.record.Share)
		}
	}
	return nil
}

// inheritedProcesses are what an earlier muster left running, as long as no pod has claimed it.
func (n *Node) inheritedProcesses() []*process.Process {
	var all []*process.Process
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, l := range n.inherited {
		all = append(all, l.processes...)
	}
	return all
}

// holders are the node's own processes. Those of an earlier Muster's are not registered until a pod has
// claimed them.
func (n *Node) holders() map[int]gpu.Holder {
	own := n.live.Holders()
	registry.AddHolders(own, n.inheritedProcesses())
	return own
}

// Samples is what the GPUs did when they were last looked at, about two seconds ago at most.
func (n *Node) Samples() []gpu.Sample { return n.inventory.Samples() }

// disinherit decides what becomes of what no pod has claimed. It is true if any
// of it still runs.
func (n *Node) disinherit(ctx context.Context) (runs bool) {
	n.mu.Lock()
	rest := n.inherited
	n.inherited = map[types.UID]*leftover{}
	n.mu.Unlock()
	revision := n.pods.LastSyncResourceVersion()
	for uid, l := range rest {
		alive := slices.ContainsFunc(l.processes, live)
		runs = runs || alive
		switch f := podrecord.Classify(l.record, n.cluster, revision, false); {
		case f == podrecord.Remove:
			n.config.Log.Info("ending a pod that was deleted meanwhile", "pod", l.name())
			n.tasks.Go(func() { n.stopAll(ctx, l.record, l.processes) })
		case alive:
			n.config.Log.Warn("quarantining processes of a pod that this cluster does not know", "pod", l.name(), "uid", string(uid))
			n.tasks.Go(func() { n.quarantine(ctx, uid, l) })
		}
	}
	n.disconnectStrangers(rest)
	return runs
}

// disconnectStrangers gives back the addresses of pods of which nothing else
// is known: their folders were deleted. What runs in them keeps them.
func (n *Node) disconnectStrangers(rest map[types.UID]*leftover) {
	if n.config.Network == nil {
		return
	}
	for _, place := range n.config.Network.Pods() {
		uid := types.UID(place.UID)
		n.mu.Lock()
		known := n.workers[uid] != nil || rest[uid] != nil
		n.mu.Unlock()
		if known {
			continue
		}
		if pids, err := network.Inhabitants(place.NetNS); err == nil && len(pids) > 0 {
			n.config.Log.Warn("processes run in the network of a pod of which nothing else is known; end them to get its address back", "uid", place.UID, "processes", pids)
			continue
		}
		if err := n.config.Network.RemovePod(place.UID); err != nil {
			n.config.Log.Warn("giving back the address of a pod of which nothing else is known", "uid", place.UID, "error", err)
		}
	}
}

// quarantine shows and holds what a leftover runs until it has ended.
func (n *Node) quarantine(ctx context.Context, uid types.UID, l *leftover) {
	q := inventory.Quarantined{Name: l.name(), UID: uid}
	if l.record != nil {
		q.GPUs = l.record.GPUs
	}
	for _, p := range l.processes {
		if live(p) {
			q.PIDs = append(q.PIDs, p.PID())
		}
	}
	n.inventory.Quarantine(q)
	for _, p := range l.processes {
		select {
		case <-p.Done():
		case <-ctx.Done():
			return
		}
	}
	n.ledger.Release(uid)
	n.inventory.Unquarantine(uid)
}
