// Package installation owns Muster's presence on a cluster: it renders the
// chart in charts/muster, with Helm's own engine, finds out what is on the
// cluster and what stands in the way, applies, waits, and removes again.
//
// Vocabulary: the rendering is the chart with values, for one server; an object
// is ours if its labels say that Muster is what it is part of and who manages
// it; it is foreign if it has the name of one of ours and is not. A finding is
// what stands in the way or is worth saying; nothing is written while one
// stands in the way. A loss is a field that the CRD on the cluster has and ours
// has not: such a CRD is newer and is left as it is.
//
// For one machine that several users share, the package renders the chart's roles and
// policies, with templates of such a machine beside them ([RenderShared]); the control
// plane applies them.
//
// It must not know the command line, nor what the objects are for: how jobs
// run, and who plans.
package installation
