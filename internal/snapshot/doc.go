// Package snapshot stands between the API server and the decision core: it
// shows nodes, pods, gangs and placements to package scheduling as one
// Snapshot, and turns the plans that come back into API writes.
//
// Vocabulary: a pass is one round of telling the core what changed, decisions
// and writes; a unit is what changes together, a gang with its placements and
// pods or a lone pod; the mirror keeps what the watch showed of them; to assume
// is to count a write before the watch has shown it; the epoch is a number that
// grows with every start of the scheduler and is stamped on all it writes; to
// take over is what package fencing calls so, and comes before the first pass; a
// foreign pod is one that no gang made and that names this scheduler.
//
// The creation of a Placement is the commit point of a plan: before it nothing
// is held, after it everything is. It carries [v1alpha1.GangFinalizer], which the
// gang's controller takes off once nothing of the attempt is left, so that no
// deletion from elsewhere frees what a pod still has.
//
// What the core is told of nodes is also told to commands that show them
// ([Nodes]).
//
// The package decides nothing about gangs after they are placed and knows
// nothing of how pods run.
package snapshot
