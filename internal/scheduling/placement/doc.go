// Package placement decides where the members of a gang go.
//
// It owns one table of nodes, what each has free, and the score of every node
// for every kind of request. It knows no gang, queue or time: a caller asks for
// one member (or for many alike) and gets seats; a caller that cannot use all
// of them undoes what it took. Nothing is ever copied for a plan.
//
// Vocabulary:
//
//   - A node has milli CPU, bytes of memory, room for pods, other named
//     integers, and devices.
//   - A device is one GPU: 1,000 milli and so many MiB. Whole GPUs, shares and
//     amounts of GPU memory are entries of the same row.
//   - An Ask is what one member wants. Asks that are alike are one Class, and
//     everything that is remembered is remembered by class.
//   - A Seat is what one member holds: a node, devices, and how much of each.
//   - A Domain is a part of the topology: a zone, a rack in it, an NVLink
//     domain in that.
//   - A Mark is a moment to which Undo returns.
//   - A Policy orders the nodes on which an ask fits.
//
// What a placement costs depends on what changed since the class was last
// placed, not on the number of nodes: each class keeps the score of every node
// as of that node's version, and a tournament tree over them. Ties go to the
// node whose name sorts first, so that neither the order in which nodes became
// known nor the order of any map shows.
//
// All arithmetic that decides is on integers. A Cluster is used by one
// goroutine at a time.
package placement
