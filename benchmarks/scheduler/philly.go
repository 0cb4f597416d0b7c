package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/muster-dev/muster/internal/simulate"
	"github.com/muster-dev/muster/internal/simulate/trace"
)

// load is one load of the Philly protocol.
type load struct {
	nodes int
	name  string
	// jct and wait are what muster is to reach, in hours.
	jct, wait float64
	// known are another simulator's figures: mean JCT and p99 wait of gangs of
	// 8 GPUs or more.
	known map[string][2]float64
}

var loads = []load{
	{nodes: 82, name: "0.85", jct: 3.7, wait: 36, known: map[string][2]float64{
		"fifo": {7.48, 35.9}, "greedy-spread": {4.52, 319}, "greedy-bestfit": {4.08, 70}, "easy": {4.14, 30.9},
		"easy, exact": {4.23, 32.4}, "las": {3.65, 57.9}, "sjf-oracle": {3.67, 83.3},
	}},
	{nodes: 72, name: "0.97", jct: 4.3, wait: 88, known: map[string][2]float64{
		"fifo": {21.25, 93.9}, "greedy-spread": {5.02, 364.9}, "greedy-bestfit": {5.66, 350.8}, "easy": {6.60, 78.5},
		"easy, exact": {6.56, 84}, "las": {4.63, 172.3}, "sjf-oracle": {4.10, 352},
	}},
}

// replaySeeds is how many times wrong limits are drawn.
const replaySeeds = 5

// maxReplay is how long the replay of the window may take.
const maxReplay = 2 * time.Second

// philly replays the development window of the Philly trace.
func (b *bench) philly(ctx context.Context) error {
	file, err := b.trace("philly", "philly-2017-09-04-to-11-08.csv")
	if file == nil || err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	jobs, err := trace.ReadPhilly(file.Name(), file, trace.Window{
		From: time.Date(2017, 10, 9, 0, 0, 0, 0, time.UTC), To: time.Date(2017, 11, 9, 0, 0, 0, 0, time.UTC),
	})
	if err != nil {
		return err
	}
	for _, load := range loads {
		if err := b.phillyLoad(ctx, load, jobs); err != nil {
			return err
		}
	}
	return nil
}

// phillyLoad compares the policies at one load.
func (b *bench) phillyLoad(ctx context.Context, load load, jobs []simulate.Job) error {
	coarse, err := b.declared(ctx, load, jobs, simulate.CoarseLimits, simulate.Policies())
	if err != nil {
		return err
	}
	exact, err := b.declared(ctx, load, jobs, simulate.ExactLimits, []string{"easy"})
	if err != nil {
		return err
	}
	for _, report := range coarse {
		if report.Policy != "muster" {
			b.compare(load, report.Policy, report)
		}
	}
	b.compare(load, "easy, exact", exact[0])
	at := slices.IndexFunc(coarse, func(r *simulate.Report) bool { return r.Policy == "muster" })
	if at < 0 {
		return nil
	}
	muster := coarse[at]
	prefix := "Philly " + load.name + ", coarse limits, muster: "
	b.table.check(prefix+"mean JCT", hour(muster.MeanJCT), fmt.Sprintf("<= %.1f h", load.jct), muster.MeanJCT <= load.jct, "")
	b.table.check(prefix+"p99 wait of >= 8 GPUs", hour(muster.P99Wait8), fmt.Sprintf("<= %.0f h", load.wait), muster.P99Wait8 <= load.wait,
		"with waits after preemptions "+hour(muster.P99Idle8))
	b.table.check(prefix+"GPU-hours lost to preemption", fmt.Sprintf("%.2f %%", muster.LostPercent), "<= 1 %", muster.LostPercent <= 1,
		fmt.Sprintf("%d preemptions, %.1f %% allocated, rho max %.1f p95 %.1f",
			muster.Preemptions, muster.Allocation, muster.Fairness.Max, muster.Fairness.P95))
	for _, class := range muster.Classes {
		if class.Jobs > 0 {
			b.table.add(prefix+class.GPUs+" GPUs", "JCT "+hour(class.MeanJCT), fmt.Sprintf("p50 %s, p99 %s, wait p99 %s, idle p99 %s",
				hour(class.P50JCT), hour(class.P99JCT), hour(class.P99Wait), hour(class.P99Idle)))
		}
	}
	if err := b.foresight(ctx, load, jobs); err != nil {
		return err
	}
	if err := b.estimates(ctx, load, jobs, muster); err != nil {
		return err
	}
	return b.speed(ctx, load, jobs)
}

// forecastEvery is about which part of the jobs that have to wait muster is
// asked when they will start: every so many, when they arrive.
const forecastEvery = 4

// foresight measures how good the expected starts are, with coarse limits and
// with none.
func (b *bench) foresight(ctx context.Context, load load, jobs []simulate.Job) error {
	for _, limits := range []simulate.Limits{simulate.NoLimits, simulate.CoarseLimits} {
		if err := simulate.Declare(jobs, limits, 1); err != nil {
			return err
		}
		setup := b.setup(load, "muster")
		setup.Fairness, setup.Forecasts = false, forecastEvery
		report, err := simulate.Run(ctx, setup, jobs)
		if err != nil {
			return err
		}
		f := report.Foresight
		if f == nil || f.Answered == 0 {
			continue
		}
		name := "coarse limits"
		if limits == simulate.NoLimits {
			name = "no limits"
		}
		prefix := fmt.Sprintf("Philly %s, %s, muster: expected start, ", load.name, name)
		note := fmt.Sprintf("%d of %d asked on arrival; %.1f %% before, %.1f %% after", f.Answered, f.Asked, f.Below, f.Above)
		for _, class := range f.Classes {
			if class.GPUs == "1" || class.GPUs == "2-4" || class.GPUs == ">=8" {
				note += fmt.Sprintf("; %s GPUs (%d): %.1f %%, width %.1f", class.GPUs, class.Answered, class.Within, class.P50Width)
			}
		}
		width := fmt.Sprintf("%.2f", f.P50Width)
		spread := fmt.Sprintf("median; geometric mean %.2f, p90 %.1f", f.MeanWidth, f.P90Width)
		if limits == simulate.NoLimits {
			b.table.add(prefix+"true starts inside the range", fmt.Sprintf("%.1f %%", f.Within), note)
			b.table.add(prefix+"end of the range / beginning, as waits", width, spread)
			continue
		}
		b.table.check(prefix+"true starts inside the range", fmt.Sprintf("%.1f %%", f.Within), ">= 80 %", f.Within >= 80, note)
		b.table.check(prefix+"end of the range / beginning, as waits", width, "<= 3", f.P50Width <= 3, spread)
	}
	return nil
}

// compare adds a baseline, beside what another simulator found.
func (b *bench) compare(load load, name string, report *simulate.Report) {
	measured := fmt.Sprintf("JCT %s, wait p99 >= 8 %s", hour(report.MeanJCT), hour(report.P99Wait8))
	if report.Preemptions > 0 {
		measured += fmt.Sprintf(" (idle %s)", hour(report.P99Idle8))
	}
	note := ""
	if known, ok := load.known[name]; ok {
		note = fmt.Sprintf("elsewhere %.2f / %.1f: %.2f x, %.2f x; ", known[0], known[1], report.MeanJCT/known[0], report.P99Wait8/known[1])
	}
	note += fmt.Sprintf("%.1f %% allocated", report.Allocation)
	if report.Preemptions > 0 {
		note += fmt.Sprintf(", %d preemptions, %.2f %% lost", report.Preemptions, report.LostPercent)
	}
	if report.Fairness != nil {
		note += fmt.Sprintf(", rho max %.1f p95 %.1f", report.Fairness.Max, report.Fairness.P95)
	}
	b.table.add("Philly "+load.name+", "+name, measured, note)
}

// estimates adds what becomes of muster where nothing is declared, and where
// it is wrong.
func (b *bench) estimates(ctx context.Context, load load, jobs []simulate.Job, coarse *simulate.Report) error {
	prefix := "Philly " + load.name + ", "
	if err := simulate.Declare(jobs, simulate.NoLimits, 1); err != nil {
		return err
	}
	setup := b.setup(load, "muster")
	setup.Fairness = false
	none, err := simulate.Run(ctx, setup, jobs)
	if err != nil {
		return err
	}
	b.table.add(prefix+"no limits, muster", fmt.Sprintf("JCT %s, wait p99 >= 8 %s", hour(none.MeanJCT), hour(none.P99Wait8)),
		fmt.Sprintf("%.2f %% lost, idle p99 >= 8 %s", none.LostPercent, hour(none.P99Idle8)))
	var jct, wait, lost float64
	for seed := range uint64(replaySeeds) {
		if err := simulate.Declare(jobs, simulate.WrongLimits, seed+1); err != nil {
			return err
		}
		setup.Seed = seed + 1
		report, err := simulate.Run(ctx, setup, jobs)
		if err != nil {
			return err
		}
		jct += report.MeanJCT / replaySeeds
		wait += report.P99Wait8 / replaySeeds
		lost += report.LostPercent / replaySeeds
	}
	wrong := prefix + "limits wrong by 5 times, muster: "
	b.table.check(wrong+"mean JCT", hour(jct), fmt.Sprintf("<= %s", hour(1.1*coarse.MeanJCT)), jct <= 1.1*coarse.MeanJCT,
		fmt.Sprintf("mean of %d seeds, %.2f %% lost; the target is coarse + 10 %%", replaySeeds, lost))
	b.table.check(wrong+"p99 wait of >= 8 GPUs", hour(wait), fmt.Sprintf("<= %s", hour(1.1*coarse.P99Wait8)), wait <= 1.1*coarse.P99Wait8, "")
	return nil
}

// speed measures how long the replay alone takes.
func (b *bench) speed(ctx context.Context, load load, jobs []simulate.Job) error {
	if err := simulate.Declare(jobs, simulate.CoarseLimits, 1); err != nil {
		return err
	}
	var took []time.Duration
	for range 3 {
		setup := b.setup(load, "muster")
		setup.Fairness = false
		began := time.Now()
		if _, err := simulate.Run(ctx, setup, jobs); err != nil {
			return err
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	b.table.check("Philly "+load.name+", muster: replay of the window", fmt.Sprintf("%.2f s", took[1].Seconds()), "<= 2 s", took[1] <= maxReplay,
		fmt.Sprintf("median of 3, %d jobs", len(jobs)))
	return nil
}

// declared replays the jobs under the policies with such limits.
func (b *bench) declared(ctx context.Context, load load, jobs []simulate.Job, limits simulate.Limits, policies []string) ([]*simulate.Report, error) {
	if err := simulate.Declare(jobs, limits, 1); err != nil {
		return nil, err
	}
	var reports []*simulate.Report
	for _, policy := range policies {
		report, err := simulate.Run(ctx, b.setup(load, policy), jobs)
		if err != nil {
			return nil, err
		}
		reports = append(reports, report)
	}
	return reports, nil
}

func (b *bench) setup(load load, policy string) simulate.Setup {
	return simulate.Setup{
		Policy: policy, Restart: simulate.RestartCost, Seed: 1, Fairness: true,
		Cluster: simulate.ClusterSpec{Nodes: load.nodes, GPUsPerNode: 8, WholeNodes: true},
	}
}

// madeUp compares the policies on a workload that is no trace: one on which
// nothing was developed.
func (b *bench) madeUp(ctx context.Context) error {
	cluster := simulate.ClusterSpec{Nodes: 64, GPUsPerNode: 8, WholeNodes: true}
	jobs, err := simulate.Synthetic{Jobs: 20_000, Cluster: cluster, Load: 0.95, Seed: 1}.Generate()
	if err != nil {
		return err
	}
	if err := simulate.Declare(jobs, simulate.CoarseLimits, 1); err != nil {
		return err
	}
	for _, policy := range simulate.Policies() {
		setup := simulate.Setup{Policy: policy, Cluster: cluster, Restart: simulate.RestartCost, Seed: 1, Fairness: true}
		report, err := simulate.Run(ctx, setup, jobs)
		if err != nil {
			return err
		}
		b.compare(load{name: "no trace"}, policy, report)
		last := &b.table.rows[len(b.table.rows)-1]
		last.what = "made up, load 0.95, coarse limits, " + policy
	}
	return nil
}

func hour(value float64) string { return fmt.Sprintf("%.2f h", value) }
