package simulate

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"slices"
)

// Config is how a trace is replayed.
type Config struct {
	// Cluster is what it is replayed on.
	Cluster ClusterSpec
	// Restart is what a preemption adds to the rest of a job's run; 0: nothing.
	Restart Micros
	// Progress, if set, is told now and then how many jobs have ended.
	Progress func(ended int)
	// Forecasts asks a policy that is a [Forecaster] about every so many of the
	// jobs that have to wait; 0: about none.
	Forecasts int
}

// Outcome is what became of the jobs. The slices are by job.
type Outcome struct {
	// Jobs are the jobs as they were given.
	Jobs []Job
	// FirstStart is when each was started for the first time, Finish when it
	// ended, and Starts how often it was started.
	FirstStart, Finish []Micros
	Starts             []int
	// Preemptions is how many there were in all.
	Preemptions int
	// LostGPUTime is the restart cost of every preemption times the job's
	// GPUs, in GPU-microseconds.
	LostGPUTime float64
	// UsedGPUTime is how much of the jobs' GPUs was held between the first and
	// the last submission, in GPU-microseconds; of a gang on whole nodes only
	// the GPUs that it asked for count.
	UsedGPUTime float64
	// Decisions is how often the policy was asked.
	Decisions int
	// Forecasts are what the policy said of jobs that had to wait, and
	// ForecastsAsked about how many it was asked.
	Forecasts      []Forecast
	ForecastsAsked int
	// Hash is a SHA-256 of every start, with its nodes, and every end, in
	// order: equal hashes mean equal schedules.
	Hash string
}

// Kinds of event in the hash.
const (
	hashStart byte = iota + 1
	hashFinish
	hashPreempt
)

// loop is one replay.
type loop struct {
	config Config
	jobs   []Job
	// shown is what the policy sees of the jobs: everything but Run.
	shown  []Job
	policy Policy

	now      Micros
	books    *ledger
	states   []state
	held     [][]Share
	started  []Micros
	progress []Micros // of its Run, without restarts
	restart  []Micros // what is left of the restart cost

	finishes times
	arrivals int // the next new job
	returned []int
	wake     Micros
	foreseen forecasts

	using       int // GPUs held now
	usedUntil   Micros
	first, last Micros
	endedJobs   int
	outcome     *Outcome
	digest      hash.Hash
	buffer      []byte
}

// Replay runs the jobs, which must be numbered from 0 in order of submission,
// under the policy. It fails if a decision cannot be carried out (a
// [Violation]), if the policy leaves jobs waiting for good, or when ctx ends.
func Replay(ctx context.Context, config Config, jobs []Job, policy Policy) (*Outcome, error) {
	if err := validate(config, jobs); err != nil {
		return nil, err
	}
	l := newLoop(config, jobs, policy)
	for l.endedJobs < len(jobs) {
		if l.outcome.Decisions&1023 == 0 {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			if config.Progress != nil {
				config.Progress(l.endedJobs)
			}
		}
		if err := l.advance(); err != nil {
			return nil, err
		}
		if err := l.ask(); err != nil {
			return nil, err
		}
	}
	l.outcome.Hash = hex.EncodeToString(l.digest.Sum(nil))
	l.outcome.Forecasts, l.outcome.ForecastsAsked = l.foreseen.given, l.foreseen.asked
	return l.outcome, nil
}

// validate reports jobs that cannot be replayed.
func validate(config Config, jobs []Job) error {
	if err := config.Cluster.Validate(); err != nil {
		return err
	}
	if config.Restart < 0 {
		return fmt.Errorf("a restart cost of %v: allowed is 0 or more", config.Restart)
	}
	for i, job := range jobs {
		switch {
		case job.ID != i:
			return fmt.Errorf("job %d is numbered %d: jobs are numbered by position", i, job.ID)
		case i > 0 && job.Submit < jobs[i-1].Submit:
			return fmt.Errorf("job %d is submitted at %v, before job %d at %v: jobs are sorted by submission", i, job.Submit, i-1, jobs[i-1].Submit)
		case job.Submit < 0 || job.Run < 0 || job.Limit < 0:
			return fmt.Errorf("job %d: submission %v, run %v, limit %v: none may be negative", i, job.Submit, job.Run, job.Limit)
		case job.GPUs < 1:
			return fmt.Errorf("job %d asks for %d GPUs: allowed is 1 or more", i, job.GPUs)
		case !config.Cluster.Fits(job.GPUs):
			where := fmt.Sprintf("job %d", i)
			if job.Row > 0 {
				where = fmt.Sprintf("the job in row %d", job.Row)
			}
			return fmt.Errorf("%s asks for %d GPUs: it can never run on %d nodes of %d GPUs; give more or larger nodes, or leave it out", where, job.GPUs, config.Cluster.Nodes, config.Cluster.GPUsPerNode)
		}
	}
	return nil
}

func newLoop(config Config, jobs []Job, policy Policy) *loop {
	n := len(jobs)
	l := &loop{
		config: config, jobs: jobs, shown: make([]Job, n), policy: policy,
		books: newLedger(config.Cluster), states: make([]state, n), held: make([][]Share, n),
		started: make([]Micros, n), progress: make([]Micros, n), restart: make([]Micros, n),
		outcome: &Outcome{Jobs: jobs, FirstStart: make([]Micros, n), Finish: make([]Micros, n), Starts: make([]int, n)},
		digest:  sha256.New(), foreseen: forecasts{every: config.Forecasts},
	}
	copy(l.shown, jobs)
	for i := range l.shown {
		l.shown[i].Run = 0
	}
	if n > 0 {
		l.first, l.last = jobs[0].Submit, jobs[n-1].Submit
		l.usedUntil = l.first
	}
	return l
}

// advance moves to the next instant and tells the policy what happens in it.
func (l *loop) advance() error {
	next := l.next()
	if next == Never {
		for id, s := range l.states {
			if s == waiting {
				return &Violation{At: l.now, Job: id, What: "waits, and nothing runs, arrives or wakes the policy any more"}
			}
		}
		return errors.New("jobs are left over, and none of them waits")
	}
	l.spend(next)
	l.now = next
	// 1. Ends.
	for {
		id, ok := l.finishes.pop(next)
		if !ok {
			break
		}
		l.finish(id)
	}
	// 2. The policy's own wish.
	if l.wake == next {
		l.wake = 0
	}
	// 3. Arrivals: those that were just preempted, which are older than any
	// that is new, and then the new.
	for _, id := range l.returned {
		l.policy.Arrive(next, &l.shown[id], l.progress[id])
	}
	l.returned = l.returned[:0]
	for l.arrivals < len(l.jobs) && l.jobs[l.arrivals].Submit == next {
		l.states[l.arrivals] = waiting
		l.policy.Arrive(next, &l.shown[l.arrivals], 0)
		l.foreseen.arrive(l.arrivals)
		l.arrivals++
	}
	return nil
}

// next is the next instant in which something happens.
func (l *loop) next() Micros {
	if len(l.returned) > 0 {
		return l.now
	}
	next := l.finishes.first()
	if l.wake > 0 {
		next = min(next, l.wake)
	}
	if l.arrivals < len(l.jobs) {
		next = min(next, l.jobs[l.arrivals].Submit)
	}
	return next
}

// spend accounts for the GPUs held until then.
func (l *loop) spend(until Micros) {
	until = min(until, l.last)
	if until > l.usedUntil {
		l.outcome.UsedGPUTime += float64(float64(until-l.usedUntil) * float64(l.using))
		l.usedUntil = until
	}
}

func (l *loop) finish(id int) {
	l.progress[id] = l.jobs[id].Run
	l.restart[id] = 0
	l.release(id)
	l.states[id] = ended
	l.outcome.Finish[id] = l.now
	l.endedJobs++
	l.record(hashFinish, id, nil)
	l.policy.Finish(l.now, &l.shown[id], l.jobs[id].Run)
}

// ask asks the policy and does what it says.
func (l *loop) ask() error {
	decision := l.policy.Decide(l.now)
	l.outcome.Decisions++
	for _, job := range decision.Preempt {
		if err := l.preempt(job); err != nil {
			return err
		}
	}
	for _, start := range decision.Start {
		if err := l.start(start); err != nil {
			return err
		}
	}
	// One that the same decision has started again was moved and does not
	// arrive; the rest do, in the order of the trace.
	l.returned = l.returned[:0]
	for _, job := range decision.Preempt {
		if l.states[job.ID] == waiting {
			l.returned = insert(l.returned, job.ID)
		}
	}
	if decision.Wake < 0 || decision.Wake > 0 && decision.Wake <= l.now {
		return fmt.Errorf("at %v, the policy asks to be woken at %v, which is past", l.now, decision.Wake)
	}
	l.wake = decision.Wake
	if l.config.Forecasts > 0 {
		l.foreseen.ask(l.now, l.policy, l.shown, func(job int) bool { return l.states[job] == waiting })
	}
	return nil
}

// known returns the number of the job, or an error if it is none of this run.
func (l *loop) known(job *Job) (int, error) {
	if job == nil || job.ID < 0 || job.ID >= len(l.shown) || job != &l.shown[job.ID] {
		return 0, fmt.Errorf("at %v, the policy decides on a job that is none of this run", l.now)
	}
	return job.ID, nil
}

func (l *loop) preempt(job *Job) error {
	id, err := l.known(job)
	if err != nil {
		return err
	}
	if l.states[id] != running {
		return &Violation{At: l.now, Job: id, What: "preempted, but it is not running"}
	}
	// This is also what bounds the number of decisions in one instant.
	if l.started[id] == l.now {
		return &Violation{At: l.now, Job: id, What: "preempted in the instant in which it was started"}
	}
	elapsed := l.now - l.started[id]
	restarting := min(elapsed, l.restart[id])
	l.progress[id] += elapsed - restarting
	l.restart[id] += l.config.Restart - restarting
	l.finishes.remove(id)
	l.release(id)
	l.states[id] = waiting
	l.outcome.Preemptions++
	l.outcome.LostGPUTime += float64(float64(l.config.Restart) * float64(l.jobs[id].GPUs))
	l.record(hashPreempt, id, nil)
	return nil
}

func (l *loop) start(start Start) error {
	id, err := l.known(start.Job)
	if err != nil {
		return err
	}
	if l.states[id] != waiting {
		return &Violation{At: l.now, Job: id, What: "started, but it is not waiting"}
	}
	job := &l.jobs[id]
	if wrong := l.books.take(job.GPUs, start.Nodes); wrong != "" {
		return &Violation{At: l.now, Job: id, What: wrong}
	}
	rest := l.restart[id] + job.Run - l.progress[id]
	if rest < 0 || l.now > Never-1-rest {
		return &Violation{At: l.now, Job: id, What: fmt.Sprintf("would end %v from now, beyond what time can count", rest)}
	}
	l.held[id] = slices.Clone(start.Nodes)
	l.using += job.GPUs
	l.states[id] = running
	l.started[id] = l.now
	if l.outcome.Starts[id] == 0 {
		l.outcome.FirstStart[id] = l.now
	}
	l.outcome.Starts[id]++
	l.finishes.add(l.now+rest, id)
	l.record(hashStart, id, start.Nodes)
	return nil
}

// release takes a running job's GPUs back.
func (l *loop) release(id int) {
	l.books.give(l.held[id])
	l.held[id] = nil
	l.using -= l.jobs[id].GPUs
}

// record adds an event to the hash.
func (l *loop) record(kind byte, id int, shares []Share) {
	b := l.buffer[:0]
	b = append(b, kind)
	b = binary.LittleEndian.AppendUint64(b, uint64(l.now))
	b = binary.LittleEndian.AppendUint64(b, uint64(id))
	for _, share := range shares {
		b = binary.LittleEndian.AppendUint64(b, uint64(share.Node))
		b = binary.LittleEndian.AppendUint64(b, uint64(share.GPUs))
	}
	l.buffer = b
	_, _ = l.digest.Write(b)
}

// insert puts id into the ascending list.
func insert(list []int, id int) []int {
	at := len(list)
	for at > 0 && list[at-1] > id {
		at--
	}
	list = append(list, 0)
	copy(list[at+1:], list[at:])
	list[at] = id
	return list
}
