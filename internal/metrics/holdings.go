package metrics

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// The states of what is held.
const (
	// stateRunning: every member of the attempt has started.
	stateRunning = "running"
	// stateStarting: held, and not every member has started yet.
	stateStarting = "starting"
	// stateFetching: held, and data is still on its way to its nodes.
	stateFetching = "fetching"
	// stateDraining: held by members that are being stopped.
	stateDraining = "draining"
)

var (
	heldDesc = prometheus.NewDesc("muster_gpus_held", "GPUs that gangs hold, parts of GPUs as parts, by queue and state: running, starting (held, but not every member has started), fetching (held, but data is still on its way to the nodes) and draining.",
		[]string{"queue", "state"}, nil)
	secondsDesc = prometheus.NewDesc("muster_gpu_seconds_total", "GPUs x seconds that gangs held since this process started, by queue and state; what is not running is held idle. Added up whenever it is read, at least every quarter of a minute.",
		[]string{"queue", "state"}, nil)
	gangsDesc = prometheus.NewDesc("muster_gangs", "Gangs by queue and phase.", []string{"queue", "phase"}, nil)
)

// Holdings counts from the cache who holds what.
type Holdings struct {
	// Cache reads gangs and placements.
	Cache client.Reader
	// Now is the clock. Default: time.Now.
	Now func() time.Time

	mu      sync.Mutex
	seconds map[by]float64
	last    map[by]float64
	at      time.Time
}

// by is a queue and a state or phase.
type by struct{ queue, state string }

// Describe names the metrics.
func (h *Holdings) Describe(out chan<- *prometheus.Desc) {
	out <- heldDesc
	out <- secondsDesc
	out <- gangsDesc
}

// Collect counts. Where the cache cannot be read it says so by an invalid
// metric, which fails the scrape.
func (h *Holdings) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	held, gangs, err := h.count(ctx)
	if err != nil {
		out <- prometheus.NewInvalidMetric(heldDesc, err)
		return
	}
	for k, n := range gangs {
		out <- prometheus.MustNewConstMetric(gangsDesc, prometheus.GaugeValue, n, k.queue, k.state)
	}
	for k, n := range held {
		out <- prometheus.MustNewConstMetric(heldDesc, prometheus.GaugeValue, n, k.queue, k.state)
	}
	for k, n := range h.add(held) {
		out <- prometheus.MustNewConstMetric(secondsDesc, prometheus.CounterValue, n, k.queue, k.state)
	}
}

// every is how often the sums go on without being read.
const every = 15 * time.Second

// Start adds up until ctx ends. A manager calls it.
func (h *Holdings) Start(ctx context.Context) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			if held, _, err := h.count(ctx); err == nil {
				h.add(held)
			}
		}
	}
}

// count counts GPUs held and gangs.
func (h *Holdings) count(ctx context.Context) (held, gangs map[by]float64, err error) {
	var all v1alpha1.GangList
	if err := h.Cache.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return nil, nil, err
	}
	var placements v1alpha1.PlacementList
	if err := h.Cache.List(ctx, &placements, client.UnsafeDisableDeepCopy); err != nil {
		return nil, nil, err
	}
	held, gangs = map[by]float64{}, map[by]float64{}
	of := make(map[string]*v1alpha1.Gang, len(all.Items))
	for i := range all.Items {
		g := &all.Items[i]
		of[string(g.UID)] = g
		phase := g.Status.Phase
		if phase == "" {
			phase = v1alpha1.GangPending
		}
		gangs[by{queueOf(g), string(phase)}]++
	}
	for i := range placements.Items {
		p := &placements.Items[i]
		g := of[string(p.Spec.GangUID)]
		if g == nil {
			continue // it is being given back
		}
		if gpus := gpusOf(p, g); gpus > 0 {
			held[by{queueOf(g), stateOf(p, g)}] += gpus
		}
	}
	return held, gangs, nil
}

// add adds what was held since the last time to the sums, and returns them.
func (h *Holdings) add(held map[by]float64) map[by]float64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	if h.Now != nil {
		now = h.Now()
	}
	if h.seconds == nil {
		h.seconds = map[by]float64{}
	}
	if passed := now.Sub(h.at).Seconds(); !h.at.IsZero() && passed > 0 {
		for k, n := range h.last {
			h.seconds[k] += n * passed
		}
	}
	for k := range held {
		if _, known := h.seconds[k]; !known {
			h.seconds[k] = 0 // a sum exists from the first moment on
		}
	}
	h.last, h.at = held, now
	out := make(map[by]float64, len(h.seconds))
	for k, n := range h.seconds {
		out[k] = n
	}
	return out
}

func queueOf(g *v1alpha1.Gang) string {
	if g.Spec.Queue == "" {
		return "default"
	}
	return g.Spec.Queue
}

func stateOf(p *v1alpha1.Placement, g *v1alpha1.Gang) string {
	switch {
	case p.DeletionTimestamp != nil || g.DeletionTimestamp != nil || g.Status.Outcome != "" || g.Status.Phase == v1alpha1.GangDraining:
		return stateDraining
	case g.Status.Phase == v1alpha1.GangRunning:
		return stateRunning
	case g.Status.DataSince != nil:
		return stateFetching
	}
	return stateStarting
}

// gpusOf is what a placement holds of GPUs: that of members that are done is
// free again.
func gpusOf(p *v1alpha1.Placement, g *v1alpha1.Gang) (gpus float64) {
	done := make(map[string]bool, len(g.Status.Done))
	for _, m := range g.Status.Done {
		done[m] = true
	}
	for m := range p.Spec.Each() {
		switch {
		case len(m.GPUs) == 0 || done[memberName(m.Role, m.Index)]:
		case m.Share != nil:
			gpus += float64(m.Share.Milli) / 1000
		default:
			gpus += float64(len(m.GPUs))
		}
	}
	return gpus
}

func memberName(role string, index int32) string {
	return role + "-" + strconv.Itoa(int(index))
}
