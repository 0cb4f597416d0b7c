// Package outlook simulates the future of the queue in scenarios. It forecasts when
// a waiting entry starts, and on which nodes.
//
// Vocabulary:
//
//   - An [Outlook] holds the waiting entries, the running entries and the nodes as
//     plain counters.
//   - A [Course] is one scenario. In each scenario every entry ends at another
//     quantile of its own estimate.
//   - A [Lot] is the request of the members of one role.
//   - A shape is a list of lots with a topology constraint. Waiting entries with the
//     same requests share a shape.
//   - A [Stall] is the share of one node that an entry holds.
//   - A reservation keeps nodes free for the first overdue entry without room.
//
// A scenario starts entries in the scheduler's order. It does not simulate the costly
// parts: ports, rules about other pods, and the choice of a node's GPUs. Times are
// spans from now on.
//
// The package must not know gangs, nor how the scheduler places members. Package
// scheduling builds an Outlook from its own state.
package outlook
