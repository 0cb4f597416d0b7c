package mount

import (
	"encoding/binary"
	"sync"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/muster-dev/muster/internal/data/digest"
)

// nodes are the paths that the kernel knows by a number. It forgets them when it
// needs the memory.
type nodes struct {
	mu    sync.Mutex
	known map[uint64]*node
}

type node struct {
	path string
	// lookups is how often the kernel was given it and has not forgotten it.
	lookups uint64
}

func newNodes(root string) *nodes {
	return &nodes{known: map[uint64]*node{fuse.FUSE_ROOT_ID: {path: root, lookups: 1}}}
}

// number is the number of a path, if no other path has it: 64 bits of its hash.
func number(path string) uint64 {
	id := digest.Of([]byte(path))
	n := binary.LittleEndian.Uint64(id[:])
	if n <= fuse.FUSE_ROOT_ID || n == ^uint64(0) { // nothing, the root, and "unknown"
		n = fuse.FUSE_ROOT_ID + 1
	}
	return n
}

// give is the number of a path, which the kernel knows from now on once more. Of two
// paths of one hash the second has the next number that is free.
func (n *nodes) give(path string) uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	id := number(path)
	for {
		switch found := n.known[id]; {
		case found == nil:
			n.known[id] = &node{path: path, lookups: 1}
			return id
		case found.path == path && id != fuse.FUSE_ROOT_ID:
			found.lookups++
			return id
		}
		id = max(id+1, fuse.FUSE_ROOT_ID+1)
	}
}

// forget takes back what give gave so many times.
func (n *nodes) forget(id, times uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	found := n.known[id]
	if found == nil || id == fuse.FUSE_ROOT_ID {
		return
	}
	if found.lookups -= min(times, found.lookups); found.lookups == 0 {
		delete(n.known, id)
	}
}

// path is what a number stands for.
func (n *nodes) path(id uint64) (string, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	found := n.known[id]
	if found == nil {
		return "", false
	}
	return found.path, true
}
