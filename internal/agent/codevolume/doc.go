// Package codevolume is the CSI driver code.muster.dev on a node of a cluster:
// volumes with the code of jobs, for as long as a pod has them.
//
// Vocabulary: a tree is a snapshot as it was fetched, kept on the node by
// namespace and digest: that it was fetched for one namespace says nothing of
// another. A checkout is a copy of it that the members of one job on the node
// share and may write to. A volume is one pod's view of a checkout: a bind mount.
// Its record is written before it is mounted and removed after it is unmounted,
// so that what is left over by a crash is known.
//
// A checkout goes with the last volume that shows it. A tree goes once nothing
// has needed it for a while.
//
// Where code comes from is the fetcher's business. Package codevolume must not
// know GPUs, jobs beyond a name, or the API server.
package codevolume
