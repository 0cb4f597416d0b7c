// Package datavolume is the CSI driver data.muster.dev on a node of a cluster:
// volumes with what jobs read, parts of commits of datasets, read-only.
//
// Vocabulary: a volume is one pod's view of a part, a bind mount of an entry of the
// node's cache (internal/data/cache), of which there is one for all pods; its scope is
// the namespace, so that nobody learns what others have. The ledger has a record of
// each volume, written before anything is fetched for it and removed after it is
// unmounted: what it names is never removed to make room, whatever crashes.
//
// A part is fetched by an errand, once for all volumes that name it. What may pass (a
// bucket that is away, a disk on which others have the room) it tries again; what never
// will it gives up, in words. An errand that no volume wants any more is ended; what it
// fetched stays, and the next one goes on there.
//
// What a pod reads as it asks for it is not fetched: a desk is the folder by which the
// program of the pod that serves such mounts (internal/agent/ondemand) reaches the agent,
// which mounts for it and hands on what it asks for.
//
// An arrival is how the volumes of a pod stand. The herald, in this package the driver
// itself, brings arrivals to the crier, which is the manager's door, so that the API
// says why a pod does not run yet, and when its last volume was mounted. So the driver
// needs no right on pods.
//
// Where commits come from is the store's business. Package datavolume must not know
// GPUs, jobs, or the API server.
package datavolume
