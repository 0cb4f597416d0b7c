package spark

// Memory, in MiB. A member holds a master or a worker, which need little, a heap
// and the Python processes beside it.
const (
	// daemonHeap is the heap of a master or a worker, and daemonTotal about what
	// one takes in all.
	daemonHeap  = 128
	daemonTotal = 256
	// smallestHeap is what Spark starts with at all: 300 MiB that it reserves for
	// itself, half as much again (UnifiedMemoryManager), and some for the script.
	smallestHeap = 512
)

// Heap is how much of a member's memory is the heap of its driver or executor, all
// in MiB: half of what the master or worker leaves, since Python needs the rest.
func Heap(memory int64) int64 { return max(smallestHeap, (memory-daemonTotal)/2) }

// Slots is how many tasks an executor runs at a time: one for each whole CPU that
// it has, in thousandths.
func Slots(milliCPU int64) int64 { return max(1, milliCPU/1000) }
