package simulate

// fifo starts jobs strictly in the order in which they arrived: while the
// first does not fit, nothing starts.
type fifo struct {
	room   *room
	roster roster
	queue  []*Job
	head   int
}

func newFIFO(cluster ClusterSpec, _ Options) (Policy, error) {
	return &fifo{room: newRoom(cluster)}, nil
}

func (f *fifo) Arrive(_ Micros, job *Job, _ Micros) {
	f.roster.know(job)
	f.queue = append(f.queue, job)
}

func (f *fifo) Finish(_ Micros, job *Job, _ Micros) {
	f.room.release(f.roster.held[job.ID])
	f.roster.held[job.ID] = nil
}

func (f *fifo) Decide(Micros) Decision {
	var decision Decision
	for f.head < len(f.queue) {
		job := f.queue[f.head]
		shares := f.room.place(job.GPUs, bestFit, nil)
		if shares == nil {
			break
		}
		f.head++
		f.roster.held[job.ID] = shares
		decision.Start = append(decision.Start, Start{Job: job, Nodes: shares})
	}
	if f.head == len(f.queue) {
		f.queue, f.head = f.queue[:0], 0
	}
	return decision
}
