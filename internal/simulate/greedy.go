package simulate

// greedy starts whatever fits, in the order of a rank, and skips what does
// not. It never preempts, and keeps nothing free for anyone.
type greedy struct {
	room   *room
	roster roster
	lines  lines
	fit    fit
	// rank orders the jobs; equal ranks by ID. Less is served first.
	rank func(*Job) Micros
}

// byAge serves the oldest first: the IDs are in order of submission.
func byAge(*Job) Micros { return 0 }

func newGreedySpread(cluster ClusterSpec, _ Options) (Policy, error) {
	return &greedy{room: newRoom(cluster), fit: spread, rank: byAge}, nil
}

func newGreedyBestFit(cluster ClusterSpec, _ Options) (Policy, error) {
	return &greedy{room: newRoom(cluster), fit: bestFit, rank: byAge}, nil
}

// newSJF is the greedy that knows the true run times and serves the shortest
// first.
func newSJF(cluster ClusterSpec, options Options) (Policy, error) {
	return &greedy{
		room: newRoom(cluster), fit: bestFit,
		rank: func(job *Job) Micros { return options.Jobs[job.ID].Run },
	}, nil
}

func (g *greedy) Arrive(_ Micros, job *Job, _ Micros) {
	g.roster.know(job)
	g.lines.add(job, g.rank(job))
}

func (g *greedy) Finish(_ Micros, job *Job, _ Micros) {
	g.room.release(g.roster.held[job.ID])
	g.roster.held[job.ID] = nil
}

func (g *greedy) Decide(Micros) Decision {
	var decision Decision
	fits := func(_, gpus int) bool { return g.room.fits(gpus) }
	for g.lines.total > 0 {
		line := g.lines.first(fits)
		if line < 0 {
			break
		}
		job := g.roster.jobs[g.lines.pop(line)]
		shares := g.room.place(job.GPUs, g.fit, nil)
		g.roster.held[job.ID] = shares
		decision.Start = append(decision.Start, Start{Job: job, Nodes: shares})
	}
	return decision
}
