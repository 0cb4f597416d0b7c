package simulate

import (
	"context"
	"fmt"

	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/terminal"
	simulation "github.com/muster-dev/muster/internal/simulate"
	"github.com/muster-dev/muster/internal/simulate/trace"
)

// replay runs jobs that come and go under every policy, with every seed.
func (o *options) replay(ctx context.Context) error {
	limits := simulation.Limits(o.limits)
	seeds := max(1, o.seeds)
	if seeds > 1 && o.trace != synthetic && !limits.Random() {
		_, _ = fmt.Fprintf(o.streams.Err, "--seeds %d: nothing is random here, so one run says all\n", seeds)
		seeds = 1
	}
	document := &Document{
		Trace: o.trace, File: o.file, From: o.from, To: o.to,
		Nodes: o.nodes, GPUsPerNode: o.gpusPerNode,
		Limits: o.limits, LimitsMeaning: limits.Meaning(), RestartCost: o.restart.Seconds(),
	}
	progress := terminal.NewProgress(o.streams.Err, "simulating", terminal.Things)
	defer progress.Stop()
	var jobs []simulation.Job
	for i := range seeds {
		seed := o.seed + uint64(i)
		if i == 0 || o.trace == synthetic {
			var err error
			if jobs, err = o.read(seed); err != nil {
				return err
			}
		}
		if err := simulation.Declare(jobs, limits, seed); err != nil {
			return err
		}
		if i == 0 {
			document.Jobs, document.Load = len(jobs), simulation.Load(o.cluster(), jobs)
		}
		for _, policy := range o.policies {
			progress.Say(policy)
			if seeds > 1 {
				progress.Say(fmt.Sprintf("%s, seed %d", policy, seed))
			}
			setup := simulation.Setup{
				Policy: policy, Cluster: o.cluster(), Restart: simulation.Micros(o.restart.Microseconds()),
				Seed: seed, Fairness: o.fairness,
				Progress: func(ended, of int) { progress.Set(int64(ended), int64(of)) },
			}
			report, err := simulation.Run(ctx, setup, jobs)
			if err != nil {
				return stopped(ctx, err)
			}
			document.Results = append(document.Results, report)
		}
	}
	progress.Stop()
	if seeds > 1 {
		document.summarise(o.policies)
	}
	return document.print(o.streams, *o.format)
}

// read reads or makes the jobs.
func (o *options) read(seed uint64) ([]simulation.Job, error) {
	if o.trace == synthetic {
		made := simulation.Synthetic{Jobs: o.jobs, Cluster: o.cluster(), Load: o.load, Seed: seed}
		jobs, err := made.Generate()
		if err != nil {
			return nil, exit.Usage("--jobs %d --load %v: %v", o.jobs, o.load, err)
		}
		return jobs, nil
	}
	file, err := open("--file", o.file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	return trace.ReadPhilly(o.file, file, o.window)
}
