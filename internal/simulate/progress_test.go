package simulate

import (
	"context"
	"slices"
	"testing"

	"github.com/muster-dev/muster/internal/scheduling/estimate"
)

// reporting is the policy muster, with jobs that report how far they are every
// five minutes; say tells what a job says of which so much is done in truth.
type reporting struct {
	*muster
	truth   []Job
	say     func(job *Job, done float64) (float64, bool)
	before  map[int]Micros // run in earlier attempts
	since   map[int]Micros // start of the running
	last    map[int]Micros
	reports map[int]estimate.Reports
}

func newReporting(t *testing.T, cluster ClusterSpec, jobs []Job, say func(*Job, float64) (float64, bool)) *reporting {
	t.Helper()
	p, err := newMuster(cluster, Options{Jobs: jobs, Restart: Minute})
	if err != nil {
		t.Fatal(err)
	}
	return &reporting{
		muster: p.(*muster), truth: jobs, say: say,
		before: map[int]Micros{}, since: map[int]Micros{}, last: map[int]Micros{}, reports: map[int]estimate.Reports{},
	}
}

// tell shows the core a job as it now is.
func (r *reporting) tell(job *Job) {
	req := r.request(job)
	req.Ran, req.Evidence.Reports = span(r.before[job.ID]), r.reports[job.ID]
	r.core.SetRequest(req)
}

func (r *reporting) Arrive(now Micros, job *Job, ran Micros) {
	r.muster.Arrive(now, job, ran)
	if ran > 0 {
		r.before[job.ID] = ran
		delete(r.since, job.ID)
		r.tell(job)
	}
}

func (r *reporting) Finish(_ Micros, job *Job, ran Micros) {
	delete(r.since, job.ID)
	e := evidence(job)
	e.Reports = r.reports[job.ID]
	r.core.Drop(uid(job))
	r.core.Observe(e, span(ran))
	delete(r.jobs, uid(job))
}

func (r *reporting) Decide(now Micros) Decision {
	var running []int
	for id := range r.since {
		running = append(running, id)
	}
	slices.Sort(running)
	for _, id := range running {
		job := r.jobs[uid(&r.truth[id])]
		if now-r.last[id] < 5*Minute {
			continue
		}
		r.last[id] = now
		ran := r.before[id] + now - r.since[id]
		done, says := r.say(job, float64(ran)/float64(max(1, r.truth[id].Run)))
		if !says {
			continue
		}
		points := append(slices.Clone(r.reports[id]), estimate.Point{Ran: span(ran), Done: min(1, done)})
		if len(points) > 8 {
			points = slices.Delete(points, 4, 5)
		}
		r.reports[id] = points
		r.tell(job)
	}
	d := r.muster.Decide(now)
	for _, s := range d.Start {
		r.since[s.Job.ID], r.last[s.Job.ID] = now, now
	}
	return d
}

// fared is the mean time to completion, and the longest wait, of some jobs.
func fared(o *Outcome, who func(*Job) bool) (mean, longest float64) {
	n := 0.0
	for i := range o.Jobs {
		if job := &o.Jobs[i]; who(job) {
			n++
			mean += float64(o.Finish[i] - job.Submit)
			longest = max(longest, float64(o.FirstStart[i]-job.Submit))
		}
	}
	return mean / n / float64(Hour), longest / float64(Hour)
}

// Those who always say that 99 % is done gain little by it, take little from
// the others, and starve nobody; who tells the truth harms nobody either.
func TestWhoLiesAboutProgressGainsLittle(t *testing.T) {
	cluster := ClusterSpec{Nodes: 8, GPUsPerNode: 8, WholeNodes: true}
	liar := func(job *Job) bool { return len(job.User)%2 == 0 && job.User[len(job.User)-1]%3 == 0 }
	other := func(job *Job) bool { return !liar(job) }
	large := func(job *Job) bool { return other(job) && job.GPUs >= 8 }
	for _, limits := range []Limits{CoarseLimits, NoLimits} {
		jobs, err := Synthetic{Jobs: 3000, Cluster: cluster, Load: 0.97, Seed: 11}.Generate()
		if err != nil {
			t.Fatal(err)
		}
		if err := Declare(jobs, limits, 1); err != nil {
			t.Fatal(err)
		}
		replay := func(say func(*Job, float64) (float64, bool)) *Outcome {
			o, err := Replay(context.Background(), Config{Cluster: cluster, Restart: Minute}, jobs, newReporting(t, cluster, jobs, say))
			if err != nil {
				t.Fatal(err)
			}
			return o
		}
		silent := replay(func(*Job, float64) (float64, bool) { return 0, false })
		honest := replay(func(_ *Job, done float64) (float64, bool) { return done, true })
		lies := map[string]func(*Job, float64) (float64, bool){
			"99 % for ever":  func(*Job, float64) (float64, bool) { return 0.99, true },
			"twice as far":   func(_ *Job, done float64) (float64, bool) { return min(0.99, 2*done), true },
			"nearly at once": func(_ *Job, done float64) (float64, bool) { return 1 - 0.5/(1+100*done), true },
		}
		all, _ := fared(silent, func(*Job) bool { return true })
		truth, _ := fared(honest, func(*Job) bool { return true })
		t.Logf("%s: mean JCT %.2f h where nobody reports, %.2f h where all tell the truth", limits, all, truth)
		if truth > 1.1*all {
			t.Errorf("%s: the truth costs: %.2f h instead of %.2f", limits, truth, all)
		}
		for name, lie := range lies {
			lying := replay(func(job *Job, done float64) (float64, bool) {
				if liar(job) {
					return lie(job, done)
				}
				return done, true
			})
			was, _ := fared(honest, liar)
			is, _ := fared(lying, liar)
			othersWere, _ := fared(honest, other)
			othersAre, _ := fared(lying, other)
			_, longestWas := fared(honest, large)
			_, longestIs := fared(lying, large)
			t.Logf("%s, %s: liars %.2f -> %.2f h, others %.2f -> %.2f h, longest wait of the others' large gangs %.1f -> %.1f h", limits, name, was, is, othersWere, othersAre, longestWas, longestIs)
			if is < was/2 {
				t.Errorf("%s, %s: those who lie are done in %.2f h instead of %.2f: more than a class", limits, name, is, was)
			}
			if othersAre > 1.25*othersWere {
				t.Errorf("%s, %s: the others need %.2f h instead of %.2f", limits, name, othersAre, othersWere)
			}
			if longestIs > 2*longestWas+6 {
				t.Errorf("%s, %s: a gang of others waits for %.1f h, before %.1f", limits, name, longestIs, longestWas)
			}
		}
	}
}
