package simulate

import "slices"

// lasThresholds are the attained GPU-time at which a job falls into the next
// queue: three queues, for less than one GPU-hour, less than sixteen, and the
// rest.
var lasThresholds = []Micros{Hour, 16 * Hour}

// las is Tiresias' discretized least attained service in two dimensions: what
// a job has attained is GPUs times run time. Jobs start in the first queue and
// fall by [lasThresholds]; a queue is served before the next, oldest first,
// skipping what does not fit; a job preempts jobs of later queues, never of
// its own. There is no promotion of what has waited long.
//
// Victims on a node are those of the latest queue first, among them the
// youngest, and no more than needed; the node is the one on which the least
// GPUs are preempted.
type las struct {
	room   *room
	roster roster
	lines  []lines // by queue
	// ran is by job, in service attained before its present start; queue is
	// where it belongs.
	ran     []Micros
	started []Micros
	queue   []int
	// falls is when running jobs fall into the next queue.
	falls times
	// tasks are the running jobs on every node, tenants[node][queue] the GPUs
	// that the jobs of a queue hold there.
	tasks   [][]int
	tenants [][]int
	costs   []due
}

func newLAS(cluster ClusterSpec, _ Options) (Policy, error) {
	queues := len(lasThresholds) + 1
	l := &las{room: newRoom(cluster), lines: make([]lines, queues), tasks: make([][]int, cluster.Nodes)}
	for range cluster.Nodes {
		l.tenants = append(l.tenants, make([]int, queues))
	}
	return l, nil
}

// belongs returns the queue for what has attained so much.
func belongs(attained Micros) int {
	queue := 0
	for queue < len(lasThresholds) && attained >= lasThresholds[queue] {
		queue++
	}
	return queue
}

// attained is what the job would have attained in so much time.
func attained(job *Job, ran Micros) Micros {
	if ran > Never/Micros(job.GPUs) {
		return Never
	}
	return ran * Micros(job.GPUs)
}

func (l *las) Arrive(_ Micros, job *Job, ran Micros) {
	l.roster.know(job)
	for len(l.ran) <= job.ID {
		l.ran = append(l.ran, 0)
		l.started = append(l.started, 0)
		l.queue = append(l.queue, 0)
	}
	// What it belonged to it keeps: the restart cost counted as service while
	// it ran.
	l.ran[job.ID] = max(ran, l.ran[job.ID])
	l.queue[job.ID] = max(l.queue[job.ID], belongs(attained(job, ran)))
	l.lines[l.queue[job.ID]].add(job, 0)
}

func (l *las) Finish(_ Micros, job *Job, _ Micros) { l.stop(job.ID) }

// stop takes a running job off its nodes.
func (l *las) stop(id int) {
	for _, share := range l.roster.held[id] {
		l.tenants[share.Node][l.queue[id]] -= share.GPUs
		l.tasks[share.Node] = slices.DeleteFunc(l.tasks[share.Node], func(other int) bool { return other == id })
	}
	l.room.release(l.roster.held[id])
	l.roster.held[id] = nil
	l.falls.remove(id)
}

// run puts a job on its nodes, for which room has been taken.
func (l *las) run(now Micros, job *Job, shares []Share) {
	l.roster.held[job.ID] = shares
	l.started[job.ID] = now
	for _, share := range shares {
		l.tenants[share.Node][l.queue[job.ID]] += share.GPUs
		l.tasks[share.Node] = append(l.tasks[share.Node], job.ID)
	}
	l.watch(job)
}

// watch notes when a running job will fall.
func (l *las) watch(job *Job) {
	queue := l.queue[job.ID]
	if queue == len(lasThresholds) {
		return
	}
	gpus := Micros(job.GPUs)
	span := (lasThresholds[queue]+gpus-1)/gpus - l.ran[job.ID]
	l.falls.add(l.started[job.ID]+max(span, 1), job.ID)
}

func (l *las) Decide(now Micros) Decision {
	// 1. Jobs that have attained enough fall.
	for {
		id, due := l.falls.pop(now)
		if !due {
			break
		}
		job := l.roster.jobs[id]
		from := l.queue[id]
		l.queue[id] = max(from+1, belongs(attained(job, l.ran[id]+now-l.started[id])))
		for _, share := range l.roster.held[id] {
			l.tenants[share.Node][from] -= share.GPUs
			l.tenants[share.Node][l.queue[id]] += share.GPUs
		}
		l.watch(job)
	}
	// 2. Queue by queue, what fits or may preempt.
	var decision Decision
	for queue := range l.lines {
		l.serve(&decision, now, queue)
	}
	// 3. A fall makes room only where somebody waits for it.
	waits := len(decision.Preempt) > 0
	for queue := range l.lines {
		waits = waits || l.lines[queue].total > 0
	}
	if next := l.falls.first(); waits && next != Never {
		decision.Wake = next
	}
	return decision
}

// serve starts what it can of one queue.
func (l *las) serve(decision *Decision, now Micros, queue int) {
	lines := &l.lines[queue]
	var blocked [64]bool // by line; more lines than this are asked again
	for lines.total > 0 {
		line := lines.first(func(line, gpus int) bool {
			if line < len(blocked) && blocked[line] {
				return false
			}
			possible := l.room.fits(gpus) || l.couldFit(queue, gpus)
			if line < len(blocked) {
				blocked[line] = !possible
			}
			return possible
		})
		if line < 0 {
			return
		}
		job := l.roster.jobs[lines.lines[line].heap[0].job]
		shares := l.room.place(job.GPUs, bestFit, nil)
		if shares == nil {
			if shares = l.evict(decision, now, queue, job.GPUs); shares == nil {
				// Only jobs started in this instant are in the way.
				if line >= len(blocked) {
					return
				}
				blocked[line] = true
				continue
			}
		}
		lines.pop(line)
		l.run(now, job, shares)
		decision.Start = append(decision.Start, Start{Job: job, Nodes: shares})
	}
}

// later is how many GPUs jobs of later queues hold on the node.
func (l *las) later(node, queue int) int {
	sum := 0
	for q := queue + 1; q < len(l.lines); q++ {
		sum += l.tenants[node][q]
	}
	return sum
}

// couldFit reports whether a gang would fit if all of the later queues were
// preempted.
func (l *las) couldFit(queue, gpus int) bool {
	if queue == len(l.lines)-1 {
		return false
	}
	nodes, each, rest := l.room.shape(gpus)
	if rest > 0 {
		nodes++
	}
	for node, free := range l.room.free {
		if free+l.later(node, queue) >= each {
			if nodes--; nodes == 0 {
				return true
			}
		}
	}
	return false
}

// evict makes room for a gang by preempting jobs of later queues, and takes
// it; nil if it cannot.
func (l *las) evict(decision *Decision, now Micros, queue, gpus int) []Share {
	nodes, each, rest := l.room.shape(gpus)
	if rest > 0 {
		nodes++
	}
	l.costs = l.costs[:0]
	for node, free := range l.room.free {
		if free+l.later(node, queue) < each {
			continue
		}
		if victims, ok := l.victims(now, node, queue, each-free); ok {
			cost := Micros(0)
			for _, id := range victims {
				cost += Micros(l.roster.jobs[id].GPUs)
			}
			l.costs = append(l.costs, due{cost, node})
		}
	}
	if len(l.costs) < nodes {
		return nil
	}
	slices.SortFunc(l.costs, func(a, b due) int {
		if a.before(b) {
			return -1
		}
		return 1
	})
	var shares []Share
	for i, chosen := range l.costs[:nodes] {
		need := each
		if rest > 0 && i == nodes-1 {
			need = rest
		}
		victims, _ := l.victims(now, chosen.job, queue, need-l.room.free[chosen.job])
		for _, id := range victims {
			// It counts as having attained its restart cost too, which only
			// makes it fall earlier.
			l.ran[id] += now - l.started[id]
			l.stop(id)
			decision.Preempt = append(decision.Preempt, l.roster.jobs[id])
		}
		share := Share{Node: chosen.job, GPUs: need}
		l.room.change(share.Node, -share.GPUs)
		shares = append(shares, share)
	}
	return shares
}

// victims are the jobs to preempt on the node so that so many more GPUs are
// free, and whether that can be done.
func (l *las) victims(now Micros, node, queue, need int) ([]int, bool) {
	if need <= 0 {
		return nil, true
	}
	var able []int
	for _, id := range l.tasks[node] {
		if l.queue[id] > queue && l.started[id] < now {
			able = append(able, id)
		}
	}
	// The latest queue first, then the youngest.
	slices.SortFunc(able, func(a, b int) int {
		if l.queue[a] != l.queue[b] {
			return l.queue[b] - l.queue[a]
		}
		return b - a
	})
	chosen, have := 0, 0
	for chosen < len(able) && have < need {
		have += l.on(able[chosen], node)
		chosen++
	}
	if have < need {
		return nil, false
	}
	// Whoever turns out not to be needed stays: earlier ones were given up
	// before it was known how much a later one holds.
	victims := able[:chosen]
	for i := 0; i < len(victims); {
		if gpus := l.on(victims[i], node); have-gpus >= need {
			have -= gpus
			victims = slices.Delete(victims, i, i+1)
			continue
		}
		i++
	}
	return victims, true
}

// on is how many GPUs the running job holds on the node.
func (l *las) on(id, node int) int {
	for _, share := range l.roster.held[id] {
		if share.Node == node {
			return share.GPUs
		}
	}
	return 0
}
