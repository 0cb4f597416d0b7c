package scheduling

import "github.com/muster-dev/muster/internal/scheduling/queue"

// Standing is how the queues stand after the last decision.
type Standing struct {
	// Tree is the queues with what is charged to them. It is not to be changed,
	// and holds until the next decision.
	Tree *queue.Tree
	// Running and Waiting count the requests in each queue, without those in
	// the queues below it.
	Running, Waiting map[string]int32
	// Problems are what is wrong with the queues that are configured.
	Problems []queue.Problem
}

// Standing says how the queues stand.
func (c *Core) Standing() Standing {
	s := Standing{Tree: c.tree, Running: map[string]int32{}, Waiting: map[string]int32{}}
	for _, e := range c.waiting {
		if e.req.extends != "" {
			continue
		}
		s.Waiting[c.queueName(e)]++
	}
	for _, e := range c.running {
		if len(e.held) > 0 {
			s.Running[c.queueName(e)]++
		}
	}
	_, s.Problems = queue.Build(c.specs, queue.Options{Models: c.models})
	return s
}

func (c *Core) queueName(e *entry) string {
	if e.req.Queue == "" {
		return queue.Default
	}
	return e.req.Queue
}

// Room is how many GPUs can be given out at all, and how much of them is free,
// in thousandths of a GPU.
func (c *Core) Room() (gpus, freeMilli int64) {
	t := c.cluster.Totals()
	return t.Devices, t.FreeMilli
}
