// Package ahead joins who starts before long, and where, with what they read: so the
// data of a gang is on its nodes before it holds any GPU.
//
// Vocabulary: an order names a part of a commit that the agent of a node is to fetch,
// although no pod there names it yet. Orders are in the memory of the manager whose
// scheduler plans, and nowhere else: no object that anybody may list tells who will run
// where. An order is good as long as the scheduler says again that the gang is likely to
// get the node, and for a minute after it fell silent.
//
// Package ahead must not know how it is decided who starts, nor how anything is fetched.
package ahead
