// Package rig is the equipment that tests of the node, its runtime and its
// network share: a machine of their own, the shim, and pipes by which a test
// and a process wait for each other.
//
// Only tests import it. It must not know what is tested with it.
package rig
