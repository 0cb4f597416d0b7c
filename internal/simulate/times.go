package simulate

// times is a heap of jobs by (time, job), from which any job can be removed.
type times struct {
	heap []due
	// at is where a job is in the heap, plus one; 0: it is not in it.
	at []int
}

type due struct {
	when Micros
	job  int
}

func (d due) before(o due) bool {
	return d.when < o.when || d.when == o.when && d.job < o.job
}

// first is the earliest time, or Never.
func (t *times) first() Micros {
	if len(t.heap) == 0 {
		return Never
	}
	return t.heap[0].when
}

// pop removes and returns the first job if it is due.
func (t *times) pop(now Micros) (job int, ok bool) {
	if len(t.heap) == 0 || t.heap[0].when > now {
		return 0, false
	}
	job = t.heap[0].job
	t.remove(job)
	return job, true
}

// add puts the job in, which must not be in it.
func (t *times) add(when Micros, job int) {
	for len(t.at) <= job {
		t.at = append(t.at, 0)
	}
	t.heap = append(t.heap, due{when, job})
	t.at[job] = len(t.heap)
	t.up(len(t.heap) - 1)
}

// remove takes the job out if it is in it.
func (t *times) remove(job int) {
	if job >= len(t.at) || t.at[job] == 0 {
		return
	}
	i, last := t.at[job]-1, len(t.heap)-1
	t.swap(i, last)
	t.heap = t.heap[:last]
	t.at[job] = 0
	if i < last {
		t.up(i)
		t.down(i)
	}
}

func (t *times) swap(i, j int) {
	t.heap[i], t.heap[j] = t.heap[j], t.heap[i]
	t.at[t.heap[i].job], t.at[t.heap[j].job] = i+1, j+1
}

func (t *times) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !t.heap[i].before(t.heap[parent]) {
			return
		}
		t.swap(i, parent)
		i = parent
	}
}

func (t *times) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(t.heap) {
			return
		}
		if child+1 < len(t.heap) && t.heap[child+1].before(t.heap[child]) {
			child++
		}
		if !t.heap[child].before(t.heap[i]) {
			return
		}
		t.swap(i, child)
		i = child
	}
}
