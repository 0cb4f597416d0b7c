package simulate

import (
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/muster-dev/muster/internal/cli/output"
	"github.com/muster-dev/muster/internal/cli/terminal"
	"github.com/muster-dev/muster/internal/scheduling/placement"
	"github.com/muster-dev/muster/internal/simulate/packing"
	"github.com/muster-dev/muster/internal/simulate/trace"
)

// defaultPackingSeeds is how many orders of arrival are tried: as many as the
// published figures are means of.
const defaultPackingSeeds = 10

// packingPolicies lists the policies for pods that come and stay.
func packingPolicies() []string { return []string{"muster", "bestfit", "fgd", "random"} }

// Packing is what `muster simulate --trace openb -o json` prints.
type Packing struct {
	Trace     string `json:"trace"`
	File      string `json:"file"`
	NodesFile string `json:"nodesFile"`
	// Nodes, GPUs and Pods are how many the files have.
	Nodes int `json:"nodes"`
	GPUs  int `json:"gpus"`
	Pods  int `json:"pods"`
	// Knows is what the policies knew of the mix.
	Knows string `json:"knows"`
	// Summary are means over the seeds, Results the single runs.
	Summary []PackingSummary `json:"summary"`
	Results []PackingResult  `json:"results"`
}

// PackingSummary is the mean of a policy over the seeds.
type PackingSummary struct {
	Policy string `json:"policy"`
	Seeds  int    `json:"seeds"`
	// Allocation is how much of the cluster's GPUs is given out, in percent,
	// when the pods that have arrived ask for as much as there is; Least and
	// Most are the extremes over the seeds.
	Allocation float64 `json:"allocationPercent"`
	Least      float64 `json:"leastAllocationPercent"`
	Most       float64 `json:"mostAllocationPercent"`
	// Levels are the same at other arrivals.
	Levels []Level `json:"levels"`
}

// Level is the allocation at one level of arrivals, both in percent of the
// cluster's GPUs.
type Level struct {
	Arrived    int     `json:"arrivedPercent"`
	Allocation float64 `json:"allocationPercent"`
}

// PackingResult is one run.
type PackingResult struct {
	Policy     string  `json:"policy"`
	Seed       uint64  `json:"seed"`
	Allocation float64 `json:"allocationPercent"`
	Levels     []Level `json:"levels"`
	// Arrived and Dropped count pods; one that fits nowhere is dropped.
	Arrived int `json:"arrived"`
	Dropped int `json:"dropped"`
}

// pack runs pods that come and stay under every policy, with every seed.
func (o *options) pack(ctx context.Context) error {
	nodes, pods, err := o.readOpenb()
	if err != nil {
		return err
	}
	document := &Packing{Trace: o.trace, File: o.file, NodesFile: o.nodesFile, Nodes: len(nodes), Pods: len(pods), Knows: o.knows}
	for _, node := range nodes {
		document.GPUs += node.GPUs
	}
	seeds := make([]uint64, defaultPackingSeeds)
	if o.seeds > 0 {
		seeds = make([]uint64, o.seeds)
	}
	for i := range seeds {
		seeds[i] = o.seed + uint64(i)
	}
	progress := terminal.NewProgress(o.streams.Err, "packing", terminal.Things)
	defer progress.Stop()
	of := int64(len(o.policies) * len(seeds))
	for i, name := range o.policies {
		policy, err := placement.ParsePolicy(name)
		if err != nil {
			return err
		}
		progress.Say(name)
		before := int64(i * len(seeds))
		rows, err := packing.Run(ctx, &packing.Options{
			Mix: filepath.Base(o.file), Nodes: nodes, Pods: pods, Policy: policy, Seeds: seeds, Learning: learning(o.knows),
			Progress: func(done, _ int) { progress.Set(before+int64(done), of) },
		})
		if err != nil {
			return stopped(ctx, err)
		}
		document.add(name, rows)
	}
	progress.Stop()
	return document.print(o.streams, *o.format)
}

// What --knows may be.
const (
	knowsTrace    = "trace"
	knowsArrivals = "arrivals"
)

func learning(knows string) packing.Learning {
	if knows == knowsArrivals {
		return packing.FromArrivals
	}
	return packing.FromTrace
}

func (o *options) readOpenb() ([]trace.OpenbNode, []trace.OpenbPod, error) {
	file, err := open("--nodes-file", o.nodesFile)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = file.Close() }()
	nodes, err := trace.ReadOpenbNodes(o.nodesFile, file)
	if err != nil {
		return nil, nil, err
	}
	podFile, err := open("--file", o.file)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = podFile.Close() }()
	pods, err := trace.ReadOpenbPods(o.file, podFile)
	return nodes, pods, err
}

// add adds a policy's runs.
func (p *Packing) add(policy string, rows []packing.Row) {
	summary := PackingSummary{Policy: policy, Seeds: len(rows), Levels: levels(packing.Mean(rows)), Least: 100}
	summary.Allocation = full(summary.Levels)
	for _, row := range rows {
		result := PackingResult{
			Policy: policy, Seed: row.Seed, Levels: levels(row.AllocationPercent), Arrived: row.Arrived, Dropped: row.Dropped,
		}
		result.Allocation = full(result.Levels)
		summary.Least = min(summary.Least, result.Allocation)
		summary.Most = max(summary.Most, result.Allocation)
		p.Results = append(p.Results, result)
	}
	p.Summary = append(p.Summary, summary)
}

func levels(allocation []float64) []Level {
	var out []Level
	for i, level := range packing.Levels {
		out = append(out, Level{Arrived: level, Allocation: math.Round(allocation[i]*1e6) / 1e6})
	}
	return out
}

// full is the allocation when as much has arrived as there is.
func full(levels []Level) float64 {
	for _, level := range levels {
		if level.Arrived == 100 {
			return level.Allocation
		}
	}
	return 0
}

func (p *Packing) print(streams terminal.Streams, format output.Format) error {
	switch format {
	case output.JSON:
		return output.Print(streams.Out, format, p)
	case csvFormat:
		return p.csv(streams.Out)
	}
	return p.table(streams.Out, streams.OutStyle())
}

// csv writes a row for every run and level.
func (p *Packing) csv(w io.Writer) error {
	out := csv.NewWriter(w)
	_ = out.Write([]string{"trace", "file", "knows", "policy", "seed", "arrivedPercent", "allocationPercent", "arrived", "dropped"})
	for _, result := range p.Results {
		for _, level := range result.Levels {
			_ = out.Write([]string{
				p.Trace, p.File, p.Knows, result.Policy, strconv.FormatUint(result.Seed, 10), strconv.Itoa(level.Arrived),
				plain(level.Allocation), strconv.Itoa(result.Arrived), strconv.Itoa(result.Dropped),
			})
		}
	}
	out.Flush()
	return out.Error()
}

// table prints the means for people.
func (p *Packing) table(w io.Writer, style terminal.Style) error {
	var text strings.Builder
	_, _ = fmt.Fprintf(&text, "openb (%s): %s, drawn at random until they ask for 130%% of the %s on %s\n",
		p.File, terminal.Count(int64(p.Pods), "pod"), terminal.Count(int64(p.GPUs), "GPU"), terminal.Count(int64(p.Nodes), "node"))
	what := "the mix of the whole trace, beforehand"
	if p.Knows == knowsArrivals {
		what = "what has arrived so far"
	}
	_, _ = fmt.Fprintf(&text, "policies that look at the workload know %s\n", what)
	_, _ = fmt.Fprintf(&text, "percent of all GPUs given out when so many percent were asked for; means over %s\n\n", terminal.Count(int64(p.Summary[0].Seeds), "seed"))
	if _, err := io.WriteString(w, text.String()); err != nil {
		return err
	}
	table := &columns{words: 1, header: []string{"POLICY"}}
	for _, level := range packing.Levels {
		table.header = append(table.header, "AT "+strconv.Itoa(level))
	}
	table.header = append(table.header, "LEAST AT 100", "MOST AT 100")
	for _, summary := range p.Summary {
		cells := []string{summary.Policy}
		for _, level := range summary.Levels {
			cells = append(cells, number(level.Allocation, 2))
		}
		table.row(append(cells, number(summary.Least, 2), number(summary.Most, 2))...)
	}
	return table.write(w, style)
}
