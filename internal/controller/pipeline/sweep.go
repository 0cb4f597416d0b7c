package pipeline

import (
	"context"
	"errors"
	"sync"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/dataset"
	"github.com/muster-dev/muster/internal/dataset/expiry"
	"github.com/muster-dev/muster/internal/pipeline"
)

const (
	// sweepDelay is how long after a start results are swept first: what waits to be
	// run comes before.
	sweepDelay = time.Minute
	// sweepEvery is the time from one sweep to the next.
	sweepEvery = 24 * time.Hour
)

// planningOf is held for reading while a stage of a namespace takes results.
func (c *Runs) planningOf(namespace string) *sync.RWMutex {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.planning == nil {
		c.planning = map[string]*sync.RWMutex{}
	}
	if c.planning[namespace] == nil {
		c.planning[namespace] = &sync.RWMutex{}
	}
	return c.planning[namespace]
}

// hold keeps runs from being planned until it is let go of, and says which results
// those of a namespace have taken, or are to record.
func (c *Runs) hold(namespace string) (needed map[digest.ID]bool, letGo func()) {
	planning := c.planningOf(namespace)
	planning.Lock()
	needed = map[digest.ID]bool{}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range c.active {
		if a.key.Namespace != namespace {
			continue
		}
		for _, w := range a.works {
			w.needs(needed)
		}
	}
	return needed, planning.Unlock
}

// needs adds the results that the work has taken, and those that it is to record.
func (w *work) needs(to map[digest.ID]bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, tasks := range [][]pipeline.Task{w.plan.Work, w.plan.Reused} {
		for i := range tasks {
			to[tasks[i].Key] = true
		}
	}
	for _, was := range w.plan.Gone {
		to[was.Key] = true // the output is made from what it is told to lose
	}
}

// upkeep sweeps results soon after the start and once a day from then on, until ctx
// ends. A sweep that comes to nothing is logged, and the next one tries again.
func (c *Runs) upkeep(ctx context.Context) {
	m := c.deps.Machine
	if m.KeepResults <= 0 {
		return
	}
	for wait := sweepDelay; ; wait = sweepEvery {
		select {
		case <-ctx.Done():
			return
		case <-c.deps.After(wait):
		}
		report, err := expiry.Sweep(ctx, expiry.Options{Client: c.live, Store: m.Store, Keep: m.KeepResults, At: c.deps.Now(), Hold: c.hold})
		if err != nil && ctx.Err() == nil {
			ctrl.LoggerFrom(ctx).Error(err, "removing results that nobody used for long")
		}
		if report.Any() && m.Swept != nil {
			m.Swept(report)
		}
	}
}

// gone reports whether a result was removed that a plan has taken, or a dataset of the plan.
func gone(err error) bool {
	_, result := errors.AsType[*pipeline.MissingResultError](err)
	_, missing := errors.AsType[*dataset.MissingError](err)
	return result || missing
}

// again forgets the plan of a stage, so that it is made anew, and not as what differs
// from an output whose results are not all there.
func (c *Runs) again(ctx context.Context, s *step) (time.Duration, error) {
	c.mu.Lock()
	delete(s.active.works, s.stage.Name)
	if s.active.whole == nil {
		s.active.whole = map[string]bool{}
	}
	s.active.whole[s.stage.Name] = true
	c.mu.Unlock()
	s.status.Phase, s.status.Message = v1alpha1.RunPlanning, "a result or a dataset that it had taken was removed meanwhile: it is planned again"
	return preparing, c.stop(ctx, s)
}
