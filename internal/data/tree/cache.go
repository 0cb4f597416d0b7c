package tree

import (
	"cmp"
	"container/list"
	"sync"

	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/pack"
)

// cacheBytes is how much of nodes is kept, as they lie; in memory it is about
// three times as much.
const cacheBytes = 16 << 20

// Cache keeps the nodes that were used last. It may be used by many at once.
type Cache struct {
	// Most is how many bytes of nodes are kept, as they lie. Default: 16 MiB.
	Most int

	mu    sync.Mutex
	bytes int
	order list.List
	nodes map[pack.Place]*list.Element

	// writers are for who writes nodes next.
	writers sync.Pool
}

type cached struct {
	id   digest.ID
	at   pack.Place
	node *Node
	size int
}

// get is the node of a name at a place. Another name at that place is not in the cache: whoever
// wrote it may not have known what lies there.
func (c *Cache) get(id digest.ID, at pack.Place) (*Node, bool) {
	if c == nil {
		return nil, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.nodes[at]
	if !ok || e.Value.(*cached).id != id {
		return nil, false
	}
	c.order.MoveToFront(e)
	return e.Value.(*cached).node, true
}

func (c *Cache) add(id digest.ID, at pack.Place, n *Node, size int) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.nodes == nil {
		c.nodes = map[pack.Place]*list.Element{}
	}
	if _, ok := c.nodes[at]; ok {
		return
	}
	c.nodes[at] = c.order.PushFront(&cached{id: id, at: at, node: n, size: size})
	c.bytes += size
	for c.bytes > cmp.Or(c.Most, cacheBytes) && c.order.Len() > 1 {
		last := c.order.Remove(c.order.Back()).(*cached)
		delete(c.nodes, last.at)
		c.bytes -= last.size
	}
}

// writer is one that nobody uses.
func (c *Cache) writer() *writer {
	if c != nil {
		if w, ok := c.writers.Get().(*writer); ok {
			return w
		}
	}
	return &writer{}
}

// give takes one back.
func (c *Cache) give(w *writer) {
	if c != nil {
		c.writers.Put(w)
	}
}
