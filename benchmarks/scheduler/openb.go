package main

import (
	"context"
	"encoding/csv"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/muster-dev/muster/internal/scheduling/placement"
	"github.com/muster-dev/muster/internal/simulate/packing"
	"github.com/muster-dev/muster/internal/simulate/trace"
)

// mixes are the pod lists that are given.
var mixes = []string{"default", "cpu050", "cpu100", "gpushare40", "gpushare60", "gpuspec10", "gpuspec20", "multigpu20", "multigpu30"}

// published says how the policies are called in the published figures.
var published = map[placement.Policy]string{placement.FGD: "06-FGD", placement.BestFit: "05-BestFit", placement.Random: "01-Random"}

// packingSeeds is as many as the published figures are means of.
const packingSeeds = 10

// openb compares the packing with the published figures.
func (b *bench) openb(ctx context.Context) error {
	known, err := b.published()
	if known == nil || err != nil {
		return err
	}
	file, err := b.trace("openb", "openb_node_list_gpu_node.csv")
	if file == nil || err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	nodes, err := trace.ReadOpenbNodes(file.Name(), file)
	if err != nil {
		return err
	}
	for _, mix := range mixes {
		if err := b.mix(ctx, mix, nodes, known); err != nil {
			return err
		}
	}
	return nil
}

// mix measures one mix of pods.
func (b *bench) mix(ctx context.Context, mix string, nodes []trace.OpenbNode, known map[string]float64) error {
	file, err := b.trace("openb", "openb_pod_list_"+mix+".csv")
	if file == nil || err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	pods, err := trace.ReadOpenbPods(file.Name(), file)
	if err != nil {
		return err
	}
	measure := func(policy placement.Policy, learning packing.Learning) (float64, error) {
		options := &packing.Options{Mix: mix, Nodes: nodes, Pods: pods, Policy: policy, Learning: learning}
		for seed := range uint64(packingSeeds) {
			options.Seeds = append(options.Seeds, seed+1)
		}
		rows, err := packing.Run(ctx, options)
		if err != nil {
			return 0, err
		}
		return packing.Mean(rows)[slices.Index(packing.Levels, 100)], nil
	}
	for _, policy := range []placement.Policy{placement.Random, placement.BestFit, placement.FGD} {
		got, err := measure(policy, packing.FromTrace)
		if err != nil {
			return err
		}
		want := known[mix+" "+published[policy]]
		b.table.check(fmt.Sprintf("openb %s, %s: allocation at 100 %%", mix, policy), fmt.Sprintf("%.2f %%", got),
			fmt.Sprintf("%.2f +- 0.5", want), math.Abs(got-want) <= 0.5, fmt.Sprintf("published; %+.2f", got-want))
	}
	for _, one := range []struct {
		learning packing.Learning
		name     string
	}{{packing.FromTrace, "muster"}, {packing.FromArrivals, "muster, mix not known before"}} {
		got, err := measure(placement.Muster, one.learning)
		if err != nil {
			return err
		}
		fgd := known[mix+" 06-FGD"]
		target, least := fmt.Sprintf(">= %.2f", fgd-0.2), fgd-0.2
		if mix == "default" {
			target, least = ">= 95.70", 95.7
		}
		b.table.check(fmt.Sprintf("openb %s, %s: allocation at 100 %%", mix, one.name), fmt.Sprintf("%.2f %%", got),
			target, got >= least, fmt.Sprintf("FGD %.2f published; %+.2f", fgd, got-fgd))
	}
	return nil
}

// published reads the published allocations at 100 %, by "mix policy".
func (b *bench) published() (map[string]float64, error) {
	file, err := b.trace("openb", "published-allocation.csv")
	if file == nil || err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	records, err := csv.NewReader(file).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", file.Name(), err)
	}
	column := slices.Index(records[0], "alloc_pct_at_arrival_100")
	if column < 2 {
		return nil, fmt.Errorf("%s has no column alloc_pct_at_arrival_100", file.Name())
	}
	known := map[string]float64{}
	for _, record := range records[1:] {
		value, err := strconv.ParseFloat(record[column], 64)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", file.Name(), err)
		}
		known[strings.TrimPrefix(record[0], "openb_pod_list_")+" "+record[1]] = value
	}
	return known, nil
}
