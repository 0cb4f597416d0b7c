// Package list is the command `muster node list`: the nodes, their GPUs and whose
// these are to give out.
package list

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/node/stock"
	"github.com/muster-dev/muster/internal/cli/output"
	"github.com/muster-dev/muster/internal/cli/terminal"
)

var formats = []output.Format{output.JSON, output.YAML, output.Name}

// New returns the command.
func New(f *connection.Factory) *cobra.Command {
	var format *output.Format
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls", "get"},
		Short:   "List the nodes, their GPUs and whose these are to give out",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return exit.Usage("list takes no arguments; `kubectl describe node %s` shows one node", args[0])
			}
			return nil
		},
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := format.Validate(formats...); err != nil {
				return err
			}
			server, err := f.Client()
			if err != nil {
				return err
			}
			return run(cmd.Context(), server, f.Streams, *format)
		},
	}
	format = output.Flag(cmd, formats...)
	return cmd
}

// Row is one node, as -o json prints it.
type Row struct {
	Node string `json:"node"`
	// Muster says whether Muster gives out its GPUs: yes, no, or leaving.
	Muster string `json:"muster"`
	GPUs   int    `json:"gpus"`
	Model  string `json:"model,omitempty"`
	Held   int    `json:"held"`
	Others int    `json:"heldByOthers"`
	// Picks says who picks the GPU that a member has: muster, or kubelet where
	// the node only counts them.
	Picks    string   `json:"picks,omitempty"`
	Holders  []string `json:"holders,omitempty"`
	NotReady string   `json:"notReady,omitempty"`
	// Cordoned is true if the scheduler places nothing new on the node (kubectl cordon), and Drained
	// if `muster node drain` moves Muster's work away.
	Cordoned bool `json:"cordoned,omitempty"`
	Drained  bool `json:"drained,omitempty"`
}

func run(ctx context.Context, reader client.Reader, streams terminal.Streams, format output.Format) error {
	now, err := stock.Read(ctx, reader)
	if err != nil {
		return err
	}
	rows := make([]Row, 0, len(now.Nodes))
	for i := range now.Nodes {
		rows = append(rows, rowOf(&now.Nodes[i]))
	}
	switch format {
	case output.JSON, output.YAML:
		return output.Print(streams.Out, format, rows)
	case output.Name:
		for _, r := range rows {
			if _, err := fmt.Fprintln(streams.Out, output.Reference(schema.GroupKind{Kind: "Node"}, r.Node)); err != nil {
				return err
			}
		}
		return nil
	}
	table := terminal.NewTable("NODE", "MUSTER'S", "GPUS", "MODEL", "HELD", "BY OTHERS", "PICKED BY", "NOTE")
	for _, r := range rows {
		table.Row(r.Node, r.Muster, strconv.Itoa(r.GPUs), dash(r.Model), strconv.Itoa(r.Held), strconv.Itoa(r.Others), dash(r.Picks), r.note())
	}
	return table.Write(streams.Out, streams.OutStyle(), "")
}

func rowOf(n *stock.Node) Row {
	r := Row{
		Node: n.Object.Name, Muster: "no", GPUs: n.GPUs, Model: n.Model, Held: n.Held, Others: n.Others, Holders: n.Holders, NotReady: n.NotReady,
		Cordoned: n.Object.Spec.Unschedulable,
		Drained:  slices.ContainsFunc(n.Object.Spec.Taints, func(t corev1.Taint) bool { return t.Key == v1alpha1.TaintDrain }),
	}
	switch {
	case n.Names:
		r.Muster, r.Picks = "yes", "muster"
	case n.Owned:
		r.Muster, r.Picks = "yes", "kubelet"
		if n.Claims {
			r.Picks = "muster"
		}
	case n.Tainted:
		r.Muster = "leaving"
	}
	return r
}

// note says what is the matter with a node, and what to do.
func (r Row) note() string {
	var parts []string
	if r.NotReady != "" {
		parts = append(parts, "not ready: "+r.NotReady)
	}
	switch {
	case r.Drained:
		parts = append(parts, "drained: `muster node drain "+r.Node+" --undo` lets work run there again")
	case r.Cordoned:
		parts = append(parts, "cordoned, nothing new comes: `kubectl uncordon "+r.Node+"`")
	}
	switch {
	case r.Muster == "leaving":
		parts = append(parts, "others are kept off; `muster node remove "+r.Node+"` gives it back")
	case r.Muster == "no" && r.GPUs > 0:
		parts = append(parts, "`muster node add "+r.Node+"` has Muster give them out")
	}
	return strings.Join(parts, "; ")
}

func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
