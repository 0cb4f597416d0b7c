// Package graph is the command `muster pipeline graph`.
package graph

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/data/whole"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/output"
	"github.com/muster-dev/muster/internal/cli/pipeline/lookup"
	"github.com/muster-dev/muster/internal/pipeline"
)

var formats = []output.Format{output.JSON, output.YAML}

type options struct {
	factory *connection.Factory
	format  *output.Format
	svg     string
}

// New returns the command.
func New(f *connection.Factory) *cobra.Command {
	o := &options{factory: f}
	cmd := &cobra.Command{
		Use:   "graph PIPELINE",
		Short: "Draw a pipeline: what reads what, and how its last run stands",
		Example: `  muster pipeline graph digits
  muster pipeline graph digits --svg digits.svg`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: lookup.Complete(f, false),
	}
	o.format = output.Flag(cmd, formats...)
	cmd.Flags().StringVar(&o.svg, "svg", "", "write a drawing into this file, - for standard output")
	_ = cmd.MarkFlagFilename("svg", "svg")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := o.format.Validate(formats...); err != nil {
			return err
		}
		name, err := lookup.One(args, "a pipeline")
		if err != nil {
			return err
		}
		return o.run(cmd.Context(), name)
	}
	return cmd
}

// Node is a branch that is read from outside, or a stage.
type Node struct {
	Name string `json:"name"`
	// Kind is branch, times or stage.
	Kind string `json:"kind"`
	// Reads are the names of the nodes that it reads.
	Reads []string `json:"reads,omitempty"`
	// Does is what a stage runs, in a few words, and Writes where it commits.
	Does   string `json:"does,omitempty"`
	Writes string `json:"writes,omitempty"`
	// Phase and Message are those of the last run.
	Phase   string `json:"phase,omitempty"`
	Message string `json:"message,omitempty"`
}

func (o *options) run(ctx context.Context, name string) error {
	server, namespace, err := o.factory.Reach()
	if err != nil {
		return err
	}
	p, err := lookup.Pipeline(ctx, server, namespace, name)
	if err != nil {
		return err
	}
	g, err := pipeline.Parse(p.Name, &p.Spec)
	if err != nil {
		return exit.With(exit.Failure, fmt.Errorf("pipeline %s cannot run: %w", name, err))
	}
	var last *v1alpha1.PipelineRun
	if p.Status.LastRun != "" {
		// One that was deleted shows nothing.
		last, _ = lookup.Run(ctx, server, namespace, name)
	}
	nodes := Nodes(g, last)
	switch {
	case *o.format != output.Human:
		return output.Print(o.factory.Streams.Out, *o.format, nodes)
	case o.svg == "-":
		_, err := fmt.Fprint(o.factory.Streams.Out, SVG(name, nodes))
		return err
	case o.svg != "":
		return whole.File(o.svg, func(to io.Writer) error {
			_, err := io.WriteString(to, SVG(name, nodes))
			return err
		})
	}
	_, err = fmt.Fprint(o.factory.Streams.Out, Text(nodes, o.factory.Streams.OutStyle()))
	return err
}

// Nodes are what a pipeline consists of, each after those that it reads.
func Nodes(g *pipeline.Graph, last *v1alpha1.PipelineRun) []Node {
	var nodes []Node
	known := map[string]bool{}
	for _, stage := range g.Stages {
		n := Node{Name: stage.Name, Kind: "stage", Does: does(stage), Writes: stage.Dataset + "@" + stage.Branch}
		for _, source := range stage.Sources {
			from, kind := source.Stage, "stage"
			switch {
			case source.Cron != nil:
				from, kind = source.Cron.Schedule, "times"
			case from == "":
				from, kind = source.Dataset+"@"+source.Branch, "branch"
			}
			if kind != "stage" && !known[from] {
				known[from] = true
				nodes = append(nodes, Node{Name: from, Kind: kind})
			}
			n.Reads = appendNew(n.Reads, from)
		}
		if last != nil {
			if s, err := lookup.Stage(last, stage.Name); err == nil {
				n.Phase, n.Message = string(s.Phase), s.Message
			}
		}
		nodes = append(nodes, n)
	}
	return nodes
}

func appendNew(list []string, word string) []string {
	for _, is := range list {
		if is == word {
			return list
		}
	}
	return append(list, word)
}

// does is what a stage runs.
func does(stage *pipeline.Stage) string {
	spec := &stage.Spec
	text := ""
	switch {
	case spec.Training != nil:
		text = "training " + training(spec.Training.Roles)
	case spec.Spark != nil:
		text = "spark " + application(spec.Spark)
	case spec.Script != "":
		text = spec.Script
	case len(spec.Command) > 0:
		text = spec.Command[0]
	}
	if spec.GPUs != nil && !spec.GPUs.IsZero() {
		text += ", " + spec.GPUs.String() + " GPU"
	}
	if spec.Parallelism != nil {
		text += fmt.Sprintf(", up to %d at once", spec.Parallelism.Max)
	}
	return text
}

// training is the roles of a training job in words.
func training(roles []v1alpha1.Role) string {
	parts := make([]string, len(roles))
	for i := range roles {
		n := int32(1)
		if r := roles[i].Replicas; r != nil {
			n = *r
		}
		parts[i] = fmt.Sprintf("%d %s", n, roles[i].Name)
		if gpus := roles[i].GPUs; gpus != nil && !gpus.IsZero() {
			parts[i] += fmt.Sprintf(" with %s GPU each", gpus)
		}
	}
	return strings.Join(parts, ", ")
}

// application is a Spark application in words.
func application(spec *v1alpha1.SparkStage) string {
	least, most := int32(1), int32(1)
	if e := spec.Executors; e != nil {
		most = e.Max
		if e.Min != nil {
			least = *e.Min
		}
	}
	text := fmt.Sprintf("%s, %d executors", spec.Script, most)
	switch {
	case least < most:
		text = fmt.Sprintf("%s, %d to %d executors", spec.Script, least, most)
	case most == 1:
		text = spec.Script + ", 1 executor"
	}
	if spec.GPUs != nil && !spec.GPUs.IsZero() {
		text += fmt.Sprintf(" with %s GPU each", spec.GPUs)
	}
	return text
}
