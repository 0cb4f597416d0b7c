package simulate

import (
	"fmt"
	"time"
)

// Units of virtual time.
const (
	Second Micros = 1_000_000
	Minute        = 60 * Second
	Hour          = 60 * Minute
	Day           = 24 * Hour
)

// Never is later than everything.
const Never Micros = 1<<63 - 1

// RestartCost is what a preempted job runs longer for having to start again,
// where nothing else is said.
const RestartCost = 60 * Second

// Hours returns the duration in hours.
func (m Micros) Hours() float64 { return float64(m) / float64(Hour) }

// String returns the duration the way Go prints durations: "1h2m3.5s".
func (m Micros) String() string {
	if m > Never/1000 || m < -(Never/1000) {
		return fmt.Sprintf("%.0fh", m.Hours())
	}
	return (time.Duration(m) * time.Microsecond).String()
}

// ClusterSpec is what jobs run on: nodes that are all alike, numbered from 0.
type ClusterSpec struct {
	// Nodes is how many there are.
	Nodes int
	// GPUsPerNode is how many GPUs each has.
	GPUsPerNode int
	// WholeNodes binds gangs to nodes: one that fits into a node is on one
	// node, and one that does not takes whole nodes, the last of them too: 12
	// GPUs take two nodes of 8. Without it a gang may be spread at will.
	WholeNodes bool
}

// GPUs is how many GPUs there are in all.
func (c ClusterSpec) GPUs() int { return c.Nodes * c.GPUsPerNode }

// Shape returns on how many nodes a gang of so many GPUs runs, and how many
// GPUs it holds on each of them, in a cluster with WholeNodes.
func (c ClusterSpec) Shape(gpus int) (nodes, each int) {
	if gpus <= c.GPUsPerNode {
		return 1, gpus
	}
	return (gpus + c.GPUsPerNode - 1) / c.GPUsPerNode, c.GPUsPerNode
}

// Fits reports whether a gang of so many GPUs fits into the empty cluster.
func (c ClusterSpec) Fits(gpus int) bool {
	if !c.WholeNodes {
		return gpus <= c.GPUs()
	}
	nodes, _ := c.Shape(gpus)
	return nodes <= c.Nodes
}

// Validate reports sizes that make no sense.
func (c ClusterSpec) Validate() error {
	const most = 1 << 20
	if c.Nodes < 1 || c.Nodes > most {
		return fmt.Errorf("a cluster of %d nodes: allowed are 1 to %d", c.Nodes, most)
	}
	if c.GPUsPerNode < 1 || c.GPUsPerNode > 1024 {
		return fmt.Errorf("nodes of %d GPUs: allowed are 1 to 1024", c.GPUsPerNode)
	}
	return nil
}
