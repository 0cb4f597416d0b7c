package simulate

import (
	"fmt"
	"strconv"

	"github.com/muster-dev/muster/internal/scheduling"
	"github.com/muster-dev/muster/internal/scheduling/estimate"
)

// muster is the production scheduler with a fake clock: the same package that
// decides in embedded Muster and on a cluster, told of arrivals and ends as
// they are told of them there.
type muster struct {
	cluster ClusterSpec
	core    *scheduling.Core
	jobs    map[string]*Job // by UID
	nodes   map[string]int
	// foresight learns from the forecasts that it is asked for.
	foresight scheduling.Foresight
}

// newMuster makes the policy. Jobs are taken to save their work all the time,
// so that a preemption costs the restart alone, as the replay charges it.
func newMuster(cluster ClusterSpec, options Options) (Policy, error) {
	m := &muster{
		cluster: cluster, jobs: map[string]*Job{}, nodes: map[string]int{},
		core: scheduling.NewCore(scheduling.Options{Instantly: true, Restart: span(options.Restart), SavesAlways: true}),
	}
	for i := range cluster.Nodes {
		n := scheduling.Node{Name: fmt.Sprintf("node-%06d", i)}
		for d := range cluster.GPUsPerNode {
			n.Devices = append(n.Devices, scheduling.Device{UUID: strconv.Itoa(d), Index: d, Model: "GPU"})
		}
		m.nodes[n.Name] = i
		m.core.SetNode(n)
	}
	return m, nil
}

func span(m Micros) estimate.Span { return estimate.Span(m) * estimate.Microsecond }

// instant is the time of the replay as the core counts it; it begins at 1,
// for 0 means unknown there.
func instant(m Micros) scheduling.Instant { return scheduling.Instant(int64(m)*1000 + 1) }

func uid(job *Job) string { return strconv.Itoa(job.ID) }

// evidence is what is known of a job's run time: what was declared, and what
// jobs of its group and size came to.
func evidence(job *Job) estimate.Evidence {
	size := strconv.Itoa(sizeOf(job.GPUs))
	e := estimate.Evidence{Declared: span(job.Limit)}
	if job.Name != "" {
		e.Like = append(e.Like, job.User+"/"+job.Queue+"/"+job.Name+"/"+size)
	}
	if job.User != "" {
		e.Like = append(e.Like, job.User+"/"+job.Queue+"/"+size)
	}
	if job.Queue != "" {
		e.Like = append(e.Like, job.Queue+"/"+size)
	}
	e.Like = append(e.Like, "size/"+size)
	return e
}

// sizeOf is the size class of a job: 1, 2 to 7, 8 or more GPUs.
func sizeOf(gpus int) int {
	switch {
	case gpus >= 8:
		return 8
	case gpus > 1:
		return 2
	}
	return 1
}

// Arrive implements [Policy]. A job that was preempted is known to wait.
func (m *muster) Arrive(_ Micros, job *Job, ran Micros) {
	if ran > 0 || m.jobs[uid(job)] != nil {
		return
	}
	m.jobs[uid(job)] = job
	m.core.SetRequest(m.request(job))
}

// request is a job in the core's terms.
func (m *muster) request(job *Job) scheduling.Request {
	role := scheduling.Role{Name: "worker", Replicas: 1, GPUs: int32(job.GPUs)}
	if m.cluster.WholeNodes {
		nodes, each := m.cluster.Shape(job.GPUs)
		role.Replicas, role.GPUs = int32(nodes), int32(each)
	}
	return scheduling.Request{
		Key: scheduling.Key{Namespace: job.Queue, Name: uid(job)}, UID: uid(job), Created: instant(job.Submit),
		User: job.User, Evidence: evidence(job), Resumes: true, Roles: []scheduling.Role{role},
	}
}

// Finish implements [Policy].
func (m *muster) Finish(_ Micros, job *Job, ran Micros) {
	m.core.Drop(uid(job))
	m.core.Observe(evidence(job), span(ran))
	delete(m.jobs, uid(job))
}

// Decide implements [Policy].
func (m *muster) Decide(now Micros) Decision {
	result := m.core.Decide(instant(now))
	var out Decision
	for _, e := range result.Evictions {
		out.Preempt = append(out.Preempt, m.jobs[e.UID])
	}
	for _, p := range result.Plans {
		m.foresight.Started(p.UID, instant(now))
		start := Start{Job: m.jobs[p.UID]}
		for _, member := range p.Members {
			start.Nodes = append(start.Nodes, Share{Node: m.nodes[member.Node], GPUs: len(member.GPUs)})
		}
		out.Start = append(out.Start, start)
	}
	return out
}

// Forecast implements [Forecaster].
func (m *muster) Forecast(now Micros, job *Job) (from, to Micros, ok bool) {
	x, ok := m.foresight.Forecast(m.core, uid(job), instant(now))
	return micros(x.From), micros(x.To), ok
}

// micros is a time of the core as the replay counts it.
func micros(t scheduling.Instant) Micros { return Micros(t-1) / 1000 }
