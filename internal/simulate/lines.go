package simulate

// lines are the waiting jobs, one line for every number of GPUs: whether a job
// fits depends on nothing else, so that only the heads of the lines need to be
// looked at.
type lines struct {
	sizes []int
	lines []*times
	total int
}

// add puts a job in its line, to be served in order of (rank, ID).
func (l *lines) add(job *Job, rank Micros) {
	l.line(job.GPUs).add(rank, job.ID)
	l.total++
}

// line returns the line for so many GPUs; lines are kept by size.
func (l *lines) line(gpus int) *times {
	at := len(l.sizes)
	for i, size := range l.sizes {
		if size == gpus {
			return l.lines[i]
		}
		if size > gpus {
			at = i
			break
		}
	}
	l.sizes = append(l.sizes, 0)
	l.lines = append(l.lines, nil)
	copy(l.sizes[at+1:], l.sizes[at:])
	copy(l.lines[at+1:], l.lines[at:])
	l.sizes[at], l.lines[at] = gpus, &times{}
	return l.lines[at]
}

// first returns the line whose head comes first among those that ok lets
// through, or -1.
func (l *lines) first(ok func(line, gpus int) bool) int {
	best := -1
	for i, line := range l.lines {
		if len(line.heap) == 0 || best >= 0 && !line.heap[0].before(l.lines[best].heap[0]) {
			continue
		}
		if ok(i, l.sizes[i]) {
			best = i
		}
	}
	return best
}

// pop removes the head of the line and returns its job.
func (l *lines) pop(line int) (job int) {
	job = l.lines[line].heap[0].job
	l.lines[line].remove(job)
	l.total--
	return job
}
