package queue

// heaps are binary heaps side by side: the numbers from lo to before hi can be
// in one, which lies at the same place of slots. Every number knows where it
// is, so that one whose rank changed is moved in O(log n).
type heaps struct {
	slots []int32
	where []int32 // Of each number: its slot, -1: not in its heap.
	lo    []int32 // Of each number: where its heap begins.
	size  []int32 // Of each heap, at its begin.
}

// init makes room for numbers below count, all of them in no heap.
func (h *heaps) init(count int) {
	h.slots, h.where = resize(h.slots, count), resize(h.where, count)
	h.lo, h.size = resize(h.lo, count), resize(h.size, count)
	clear(h.size)
	for i := range h.where {
		h.where[i] = -1
	}
}

// frame says that the numbers from lo to before hi share a heap.
func (h *heaps) frame(lo, hi int32) {
	for x := lo; x < hi; x++ {
		h.lo[x] = lo
	}
}

// top returns the first number of the heap that begins at lo, -1 if it is
// empty.
func (h *heaps) top(lo int32) int32 {
	if h.size[lo] == 0 {
		return -1
	}
	return h.slots[lo]
}

// fix puts x where it belongs, whether it was in its heap or not.
func (h *heaps) fix(less func(x, y int32) bool, x int32) {
	lo := h.lo[x]
	if h.where[x] < 0 {
		h.where[x] = lo + h.size[lo]
		h.slots[h.where[x]] = x
		h.size[lo]++
	}
	h.up(less, lo, h.where[x]-lo)
	h.down(less, lo, h.where[x]-lo)
}

// remove takes x out of its heap.
func (h *heaps) remove(less func(x, y int32) bool, x int32) {
	at, lo := h.where[x], h.lo[x]
	if at < 0 {
		return
	}
	h.size[lo]--
	last := h.slots[lo+h.size[lo]]
	h.where[x] = -1
	if last == x {
		return
	}
	h.slots[at], h.where[last] = last, at
	h.up(less, lo, at-lo)
	h.down(less, lo, h.where[last]-lo)
}

func (h *heaps) up(less func(x, y int32) bool, lo, i int32) {
	for i > 0 {
		parent := (i - 1) / 2
		if !less(h.slots[lo+i], h.slots[lo+parent]) {
			return
		}
		h.swap(lo+i, lo+parent)
		i = parent
	}
}

func (h *heaps) down(less func(x, y int32) bool, lo, i int32) {
	for {
		child := 2*i + 1
		if child >= h.size[lo] {
			return
		}
		if other := child + 1; other < h.size[lo] && less(h.slots[lo+other], h.slots[lo+child]) {
			child = other
		}
		if !less(h.slots[lo+child], h.slots[lo+i]) {
			return
		}
		h.swap(lo+i, lo+child)
		i = child
	}
}

func (h *heaps) swap(i, j int32) {
	h.slots[i], h.slots[j] = h.slots[j], h.slots[i]
	h.where[h.slots[i]], h.where[h.slots[j]] = i, j
}
