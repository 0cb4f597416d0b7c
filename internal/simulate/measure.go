package simulate

import (
	"math"
	"slices"
)

// slowdownFloor is the run time below which a job counts as this long in the
// bounded slowdown, so that jobs of a second do not drown the figure.
const slowdownFloor = 10 * Second

// Class is a range of gang sizes by which figures are told apart.
type Class struct {
	// Name is how it is written: "2-4".
	Name string
	// From and To are the least and the largest number of GPUs in it.
	From, To int
}

// most is the largest number of GPUs there is.
const most = math.MaxInt

// Classes are the size classes of every report. They overlap: the last two
// sum up.
func Classes() []Class {
	return []Class{{"1", 1, 1}, {"2-4", 2, 4}, {"5-7", 5, 7}, {"8", 8, 8}, {">8", 9, most}, {">=8", 8, most}, {"all", 1, most}}
}

// Figures are what became of the jobs of a size class. Times are in hours.
type Figures struct {
	// GPUs is the size class.
	GPUs string `json:"gpus"`
	// Jobs is how many there are, Starts how often they were started in all.
	Jobs   int `json:"jobs"`
	Starts int `json:"starts"`
	// JCT is the time from submission to the end.
	MeanJCT float64 `json:"meanJCTHours"`
	P50JCT  float64 `json:"p50JCTHours"`
	P90JCT  float64 `json:"p90JCTHours"`
	P99JCT  float64 `json:"p99JCTHours"`
	// Wait is the time from submission to the first start.
	MeanWait float64 `json:"meanWaitHours"`
	P50Wait  float64 `json:"p50WaitHours"`
	P90Wait  float64 `json:"p90WaitHours"`
	P99Wait  float64 `json:"p99WaitHours"`
	// Idle is all of the time in which a job did not get on: the wait, the
	// waits after preemptions and the restarts. Without preemption it is the
	// wait.
	MeanIdle float64 `json:"meanIdleHours"`
	P99Idle  float64 `json:"p99IdleHours"`
	// Slowdown is the JCT over the run time, of at least 10 s.
	MeanSlowdown float64 `json:"meanBoundedSlowdown"`
}

// Report is the measure of one replay.
type Report struct {
	// Policy is its name, Seed the seed of whatever was random.
	Policy string `json:"policy"`
	Seed   uint64 `json:"seed"`
	// Figures are those of all jobs.
	Figures
	// P99Wait8 and P99Idle8 are the class of 8 GPUs or more.
	P99Wait8 float64 `json:"p99WaitHours8"`
	P99Idle8 float64 `json:"p99IdleHours8"`
	// Allocation is how much of the cluster was held between the first and the
	// last submission.
	Allocation float64 `json:"allocationPercent"`
	// Preemptions is how many there were, Lost what their restarts cost, in
	// all and as a share of all GPU-hours worked.
	Preemptions int     `json:"preemptions"`
	LostHours   float64 `json:"lostGPUHours"`
	LostPercent float64 `json:"lostPercent"`
	// Makespan is from the first submission to the last end.
	Makespan float64 `json:"makespanHours"`
	// Fairness is how the queues fared; nil where it was not asked for.
	Fairness *Fairness `json:"fairness,omitempty"`
	// Foresight is how good the expected starts were; nil where it was not
	// asked for.
	Foresight *Foresight `json:"foresight,omitempty"`
	// Classes are the figures by size class.
	Classes []Figures `json:"classes"`
	// Hash is the hash of the schedule.
	Hash string `json:"hash"`
}

// Class returns the figures of the size class of this name.
func (r *Report) Class(name string) Figures {
	for _, figures := range r.Classes {
		if figures.GPUs == name {
			return figures
		}
	}
	return Figures{GPUs: name}
}

// Measure turns an outcome into figures.
func Measure(cluster ClusterSpec, outcome *Outcome) *Report {
	report := &Report{
		Preemptions: outcome.Preemptions,
		LostHours:   rounded(outcome.LostGPUTime / float64(Hour)),
		Hash:        outcome.Hash,
	}
	for _, class := range Classes() {
		report.Classes = append(report.Classes, figures(class, outcome))
	}
	report.Figures = report.Class("all")
	report.P99Wait8 = report.Class(">=8").P99Wait
	report.P99Idle8 = report.Class(">=8").P99Idle
	jobs := outcome.Jobs
	if len(jobs) == 0 {
		return report
	}
	window := float64(jobs[len(jobs)-1].Submit - jobs[0].Submit)
	if window > 0 {
		report.Allocation = rounded(100 * outcome.UsedGPUTime / (window * float64(cluster.GPUs())))
	}
	work := Work(jobs)
	if work > 0 {
		report.LostPercent = rounded(100 * outcome.LostGPUTime / (work + outcome.LostGPUTime))
	}
	last := jobs[0].Submit
	for _, finish := range outcome.Finish {
		last = max(last, finish)
	}
	report.Makespan = rounded((last - jobs[0].Submit).Hours())
	return report
}

// Work is what the jobs need in all, in GPU-microseconds.
func Work(jobs []Job) float64 {
	work := 0.0
	for i := range jobs {
		work += float64(float64(jobs[i].Run) * float64(jobs[i].GPUs))
	}
	return work
}

// Load is the share of the cluster that the jobs need between the first and
// the last submission; 0 where that is no time.
func Load(cluster ClusterSpec, jobs []Job) float64 {
	if len(jobs) == 0 || jobs[len(jobs)-1].Submit == jobs[0].Submit {
		return 0
	}
	return rounded(Work(jobs) / (float64(jobs[len(jobs)-1].Submit-jobs[0].Submit) * float64(cluster.GPUs())))
}

// figures measures one size class.
func figures(class Class, outcome *Outcome) Figures {
	f := Figures{GPUs: class.Name}
	var jct, wait, idle []Micros
	slowdown := 0.0
	for i := range outcome.Jobs {
		job := &outcome.Jobs[i]
		if job.GPUs < class.From || job.GPUs > class.To {
			continue
		}
		took := outcome.Finish[i] - job.Submit
		jct = append(jct, took)
		wait = append(wait, outcome.FirstStart[i]-job.Submit)
		idle = append(idle, took-job.Run)
		slowdown += max(1, float64(took)/float64(max(job.Run, slowdownFloor)))
		f.Starts += outcome.Starts[i]
	}
	f.Jobs = len(jct)
	if f.Jobs == 0 {
		return f
	}
	slices.Sort(jct)
	slices.Sort(wait)
	slices.Sort(idle)
	f.MeanJCT, f.P50JCT, f.P90JCT, f.P99JCT = meanHours(jct), quantile(jct, 50), quantile(jct, 90), quantile(jct, 99)
	f.MeanWait, f.P50Wait, f.P90Wait, f.P99Wait = meanHours(wait), quantile(wait, 50), quantile(wait, 90), quantile(wait, 99)
	f.MeanIdle, f.P99Idle = meanHours(idle), quantile(idle, 99)
	f.MeanSlowdown = rounded(slowdown / float64(f.Jobs))
	return f
}

// rounded keeps six digits after the point, so that the last bits of a sum do
// not show.
func rounded(value float64) float64 { return math.Round(value*1e6) / 1e6 }

// meanHours is the mean in hours.
func meanHours(values []Micros) float64 {
	sum := 0.0
	for _, value := range values {
		sum += float64(value)
	}
	return rounded(sum / float64(len(values)) / float64(Hour))
}

// quantile is the percentile of ascending values, in hours, between two values
// by linear interpolation.
func quantile(ascending []Micros, percent int) float64 {
	place := (len(ascending) - 1) * percent
	low, part := place/100, place%100
	value := float64(ascending[low])
	if part > 0 {
		value += float64(float64(ascending[low+1]-ascending[low]) * float64(part) / 100)
	}
	return rounded(value / float64(Hour))
}
