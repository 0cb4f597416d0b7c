// Package add is the command `muster node add`.
package add

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/node/stock"
	"github.com/muster-dev/muster/internal/cli/output"
	"github.com/muster-dev/muster/internal/cli/terminal"
)

type options struct {
	streams terminal.Streams
	format  *output.Format
	force   bool
}

// New returns the command.
func New(f *connection.Factory) *cobra.Command {
	o := &options{streams: f.Streams}
	cmd := &cobra.Command{
		Use:   "add NODE...",
		Short: "Give Muster the GPUs of nodes",
		Long: `Labels and taints nodes, so that Muster gives out their GPUs and nobody else's pods
come there. Pods that are there already stay; what they have of the GPUs counts
as held. Nodes without GPUs are refused, unless --force is given for such as get
theirs later.`,
		Example: "  muster node add gpu-1 gpu-2",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			return stock.Complete(cmd.Context(), f, args), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return exit.Usage("add which node? Give names; `muster node list` lists them")
			}
			if err := o.format.Validate(output.Name, output.JSON); err != nil {
				return err
			}
			server, err := f.Client()
			if err != nil {
				return err
			}
			return o.run(cmd.Context(), server, args)
		},
	}
	o.format = output.Flag(cmd, output.Name, output.JSON)
	cmd.Flags().BoolVar(&o.force, "force", false, "add nodes too that show no GPU yet")
	return cmd
}

// run looks at all nodes before any is changed, so that a misspelt name changes
// none.
func (o *options) run(ctx context.Context, server client.Client, names []string) error {
	now, err := stock.Read(ctx, server)
	if err != nil {
		return err
	}
	nodes, err := now.Find(names)
	if err != nil {
		return err
	}
	var errs []error
	for _, n := range nodes {
		switch name := n.Object.Name; {
		case n.Names:
			errs = append(errs, exit.With(exit.Failure, fmt.Errorf("node %s names its GPUs to Muster itself: they are Muster's already", name)))
		case n.GPUs == 0 && !o.force:
			errs = append(errs, exit.With(exit.Failure, fmt.Errorf("node %s shows no GPU: is its device plugin running, and does muster serve know the resource (--gpu-resource)? --force adds it all the same", name)))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for _, n := range nodes {
		done := "added"
		if n.Owned && n.Tainted && n.Object.Labels[v1alpha1.LabelAgent] != "" {
			done = "unchanged"
		} else if err := stock.Mark(ctx, server, n.Object.Name, true, true, true); err != nil {
			return err
		}
		if err := o.report(n, done); err != nil {
			return err
		}
	}
	return nil
}

// Result is what was done to one node, as -o json prints it, a line each.
type Result struct {
	Node   string `json:"node"`
	Result string `json:"result"`
	GPUs   int    `json:"gpus"`
	Model  string `json:"model,omitempty"`
	Others int    `json:"heldByOthers,omitempty"`
}

func (o *options) report(n *stock.Node, done string) error {
	name := n.Object.Name
	switch *o.format {
	case output.JSON:
		return output.Print(o.streams.Out, output.JSON, Result{Node: name, Result: done, GPUs: n.GPUs, Model: n.Model, Others: n.Others})
	case output.Name:
		_, err := fmt.Fprintln(o.streams.Out, output.Reference(schema.GroupKind{Kind: "Node"}, name))
		return err
	}
	what := fmt.Sprintf("%d %s", n.GPUs, n.Model)
	if n.GPUs == 0 {
		what = "no GPU yet"
	}
	if done == "unchanged" {
		_, err := fmt.Fprintf(o.streams.Out, "node %s is Muster's already: %s\n", name, what)
		return err
	}
	_, err := fmt.Fprintf(o.streams.Out, "node %s added: %s\n", name, what)
	if n.Others > 0 {
		_, _ = fmt.Fprintln(o.streams.Err, o.streams.ErrStyle().Paint(terminal.Yellow, "warning:")+
			fmt.Sprintf(" pods that are not Muster's hold %d of them until they end", n.Others))
	}
	return err
}
