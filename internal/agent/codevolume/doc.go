// Package codevolume is the CSI drivers code.muster.dev and
// environment.muster.dev on a node of a cluster: volumes with the code of jobs, and
// with their Python environments, for as long as a pod has them.
//
// Vocabulary: a tree is a snapshot, or an environment, as it was fetched, kept on
// the node by namespace and digest: that it was fetched for one namespace says
// nothing of another. Nobody may write to it. A copy of code that a pod may write to
// lies in an empty volume of that pod, counts as its storage and goes with it; a
// checkout is what earlier agents made instead for all members of a job. A volume is
// one pod's view: a bind mount. Its record is written before it is mounted and
// removed after it is unmounted, so that what is left over by a crash is known.
//
// A life of the machine is from one boot to the next. Nothing is synced, for that
// would take minutes where an environment has thousands of files, and so nothing
// that was written in an earlier life is used: after a loss of power it may be there
// and not be whole.
//
// A workbench is the empty folder that the volume of a build shows. Once it is
// unmounted it goes to the outbox, and from there, if the build finished it, to the
// keeper, whatever happens to this process meanwhile.
//
// A tree goes once nothing has needed it for a while, or the machine was started
// anew.
//
// Where code comes from is the fetcher's business, and where environments go the
// keeper's. Package codevolume must not know GPUs, jobs beyond a name, or the API
// server.
package codevolume
