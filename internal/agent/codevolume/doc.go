// Package codevolume is the CSI drivers code.muster.dev and
// environment.muster.dev on a node of a cluster: volumes with the code of jobs, and
// with their Python environments, for as long as a pod has them.
//
// Vocabulary: a tree is a snapshot, or an environment, as it was fetched, kept on
// the node by namespace and digest: that it was fetched for one namespace says
// nothing of another. A checkout is a copy of code that the members of one job on
// the node share and may write to; an environment nobody may write to, and all
// members see the tree itself. A volume is one pod's view: a bind mount. Its record
// is written before it is mounted and removed after it is unmounted, so that what
// is left over by a crash is known.
//
// A workbench is the empty folder that the volume of a build shows. Once it is
// unmounted it goes to the outbox, and from there, if the build finished it, to the
// keeper, whatever happens to this process meanwhile.
//
// A checkout goes with the last volume that shows it. A tree goes once nothing
// has needed it for a while.
//
// Where code comes from is the fetcher's business, and where environments go the
// keeper's. Package codevolume must not know GPUs, jobs beyond a name, or the API
// server.
package codevolume
