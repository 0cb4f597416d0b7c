package simulate

import "slices"

// unknownRun is how long easy expects a job to run that declared nothing.
const unknownRun = Day

// easy is EASY backfill: jobs start in the order in which they arrived; the
// first that does not fit gets a reservation on the nodes where it can start
// soonest if jobs run as long as they declared, and younger ones start only
// where they do not delay it: on other nodes, on a node of the reservation if
// they declared to end before it begins, or beside the reserved job. One that
// runs longer than declared is expected to run twice as long, and so on.
type easy struct {
	room   *room
	roster roster
	lines  []*easyLine
	// tasks are what runs on each node.
	tasks [][]task
	// avoid is the nodes of the reservation.
	avoid nodeSet
	soon  []due
}

// task is a job's part on one node.
type task struct {
	job   int
	gpus  int
	begin Micros
	span  Micros // expected
}

// end is when it is expected to end.
func (t task) end() Micros {
	if t.begin > Never-1-t.span {
		return Never - 1
	}
	return t.begin + t.span
}

// reservation is when and where the first job is expected to start.
type reservation struct {
	at Micros
	// beside is how many GPUs the job leaves free on its node at that time.
	beside int
	node   int // the only node, or -1
}

func newEASY(cluster ClusterSpec, _ Options) (Policy, error) {
	r := newRoom(cluster)
	return &easy{room: r, tasks: make([][]task, cluster.Nodes), avoid: r.none()}, nil
}

// expected is how long easy expects the job to run.
func expected(job *Job) Micros {
	if job.Limit > 0 {
		return job.Limit
	}
	return unknownRun
}

func (e *easy) Arrive(_ Micros, job *Job, _ Micros) {
	e.roster.know(job)
	at, found := slices.BinarySearchFunc(e.lines, job.GPUs, func(l *easyLine, gpus int) int { return l.gpus - gpus })
	if !found {
		e.lines = slices.Insert(e.lines, at, &easyLine{gpus: job.GPUs})
	}
	e.lines[at].add(job.ID, expected(job))
}

func (e *easy) Finish(_ Micros, job *Job, _ Micros) {
	shares := e.roster.held[job.ID]
	e.room.release(shares)
	e.roster.held[job.ID] = nil
	for _, share := range shares {
		e.tasks[share.Node] = slices.DeleteFunc(e.tasks[share.Node], func(t task) bool { return t.job == job.ID })
	}
}

func (e *easy) Decide(now Micros) Decision {
	var decision Decision
	// 1. In order, as long as the first fits.
	head := e.head()
	for head >= 0 && e.room.fits(e.lines[head].gpus) {
		e.start(&decision, now, head, e.lines[head].head, nil)
		head = e.head()
	}
	if head < 0 || e.full() {
		return decision
	}
	// 2. A reservation for the one that does not.
	kept := e.reserve(now, e.lines[head].gpus)
	// 3. Others, in order, where they do not delay it.
	for e.backfill(&decision, now, head, &kept) {
	}
	return decision
}

// full reports whether no GPU is free.
func (e *easy) full() bool { return e.room.count[0] == e.room.spec.Nodes }

// head returns the line with the oldest job, or -1.
func (e *easy) head() int {
	best := -1
	for i, line := range e.lines {
		if line.skip() && (best < 0 || line.ids[line.head] < e.lines[best].ids[e.lines[best].head]) {
			best = i
		}
	}
	return best
}

// reserve finds where a gang can start soonest, and marks its nodes.
func (e *easy) reserve(now Micros, gpus int) reservation {
	clear(e.avoid)
	nodes, each, rest := e.room.shape(gpus)
	if rest > 0 {
		nodes++
	}
	e.soon = e.soon[:0]
	for node := range e.tasks {
		e.soon = append(e.soon, due{e.when(now, node, each), node})
	}
	for i := range nodes {
		for j := i + 1; j < len(e.soon); j++ {
			if e.soon[j].before(e.soon[i]) {
				e.soon[i], e.soon[j] = e.soon[j], e.soon[i]
			}
		}
		e.avoid.add(e.soon[i].job)
	}
	kept := reservation{at: e.soon[nodes-1].when, node: -1}
	if nodes == 1 {
		kept.node = e.soon[0].job
		kept.beside = e.freeAt(kept.node, kept.at) - each
	}
	return kept
}

// when is the earliest time at which so many GPUs are expected to be free on
// the node.
func (e *easy) when(now Micros, node, gpus int) Micros {
	free := e.room.free[node]
	if free >= gpus {
		return now
	}
	tasks := e.tasks[node]
	late := false
	for i := range tasks {
		for tasks[i].end() <= now {
			tasks[i].span *= 2
			late = true
		}
	}
	if late {
		slices.SortFunc(tasks, byEnd)
	}
	for _, task := range tasks {
		free += task.gpus
		if free >= gpus {
			return task.end()
		}
	}
	return Never - 1
}

// freeAt is how many GPUs are expected to be free on the node then, if nothing
// more is started.
func (e *easy) freeAt(node int, then Micros) int {
	free := e.room.free[node]
	for _, task := range e.tasks[node] {
		if task.end() > then {
			break
		}
		free += task.gpus
	}
	return free
}

func byEnd(a, b task) int {
	switch {
	case a.end() < b.end():
		return -1
	case a.end() > b.end():
		return 1
	}
	return a.job - b.job
}

// backfill starts the oldest job that does not delay the reservation, and
// reports whether there was one.
func (e *easy) backfill(decision *Decision, now Micros, head int, kept *reservation) bool {
	best, place, where := -1, 0, elsewhere
	for i, line := range e.lines {
		if !line.skip() {
			continue
		}
		at, how := e.candidate(i, head, now, kept)
		if at >= 0 && (best < 0 || line.ids[at] < e.lines[best].ids[place]) {
			best, place, where = i, at, how
		}
	}
	if best < 0 {
		return false
	}
	job := e.roster.jobs[e.lines[best].ids[place]]
	var shares []Share
	switch where {
	case elsewhere:
		shares = e.room.place(job.GPUs, bestFit, e.avoid)
	case beside:
		kept.beside -= job.GPUs
		shares = []Share{{Node: kept.node, GPUs: job.GPUs}}
		e.room.take(shares)
	case before:
		shares = e.before(job.GPUs)
		e.room.take(shares)
	}
	e.start(decision, now, best, place, shares)
	return true
}

// whence is how a job avoids delaying the reservation.
type whence int

const (
	elsewhere whence = iota
	beside
	before
)

// candidate returns the oldest job of the line that may start now, and how;
// -1 if none may.
func (e *easy) candidate(i, head int, now Micros, kept *reservation) (at int, how whence) {
	line := e.lines[i]
	at = line.head
	if i == head {
		// The first of this line has the reservation, and what is as large
		// does not fit elsewhere, nor before it.
		return -1, elsewhere
	}
	if e.room.fits(line.gpus) {
		if shares := e.room.place(line.gpus, bestFit, e.avoid); shares != nil {
			e.room.release(shares)
			return at, elsewhere
		}
		if kept.node >= 0 && line.gpus <= kept.beside && line.gpus <= e.room.free[kept.node] {
			return at, beside
		}
		if e.before(line.gpus) != nil {
			return line.within(kept.at - now), before
		}
	}
	return -1, elsewhere
}

// before returns room for a gang that may use the reserved nodes now, because
// it ends before they are needed, or nil.
func (e *easy) before(gpus int) []Share {
	shares := e.room.place(gpus, bestFit, nil)
	e.room.release(shares)
	return shares
}

// start starts a job of the line; without shares it is placed first.
func (e *easy) start(decision *Decision, now Micros, line, place int, shares []Share) {
	job := e.roster.jobs[e.lines[line].ids[place]]
	if shares == nil {
		shares = e.room.place(job.GPUs, bestFit, nil)
	}
	e.lines[line].remove(place)
	e.roster.held[job.ID] = shares
	for _, share := range shares {
		tasks := &e.tasks[share.Node]
		*tasks = append(*tasks, task{job: job.ID, gpus: share.GPUs, begin: now, span: expected(job)})
		slices.SortFunc(*tasks, byEnd)
	}
	decision.Start = append(decision.Start, Start{Job: job, Nodes: shares})
}

// easyLine is the waiting jobs of one size in order of arrival, with a tree of
// minima over their expected run times, so that the oldest that is short
// enough is found in a logarithm of steps.
type easyLine struct {
	gpus int
	ids  []int
	head int
	// least is a complete binary tree, the leaves from half on.
	least []Micros
	half  int
}

func (l *easyLine) add(id int, run Micros) {
	if l.head == len(l.ids) {
		// Nobody waits: begin again.
		l.ids, l.head = l.ids[:0], 0
		for i := range l.least {
			l.least[i] = Never
		}
	}
	l.ids = append(l.ids, id)
	if len(l.ids) > l.half {
		l.grow()
	}
	l.set(len(l.ids)-1, run)
}

// grow doubles the number of leaves.
func (l *easyLine) grow() {
	old, oldHalf := l.least, l.half
	l.half = max(16, 2*l.half)
	l.least = make([]Micros, 2*l.half)
	for i := range l.least {
		l.least[i] = Never
	}
	if oldHalf > 0 {
		copy(l.least[l.half:], old[oldHalf:])
	}
	for i := l.half - 1; i > 0; i-- {
		l.least[i] = min(l.least[2*i], l.least[2*i+1])
	}
}

func (l *easyLine) set(place int, run Micros) {
	i := l.half + place
	l.least[i] = run
	for i >>= 1; i > 0; i >>= 1 {
		l.least[i] = min(l.least[2*i], l.least[2*i+1])
	}
}

// remove takes the job at the place out.
func (l *easyLine) remove(place int) {
	l.set(place, Never)
	l.skip()
}

// skip moves the head to the oldest that still waits and reports whether
// there is one.
func (l *easyLine) skip() bool {
	for l.head < len(l.ids) && l.least[l.half+l.head] == Never {
		l.head++
	}
	return l.head < len(l.ids)
}

// within returns the place of the oldest that is expected to run no longer
// than span, or -1.
func (l *easyLine) within(span Micros) int {
	if l.half == 0 || l.least[1] > span {
		return -1
	}
	i := 1
	for i < l.half {
		i *= 2
		if l.least[i] > span {
			i++
		}
	}
	return i - l.half
}
