// Package remove is the command `muster node remove`.
package remove

import (
	"context"
	"errors"
	"fmt"
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

type options struct {
	streams terminal.Streams
	format  *output.Format
	force   bool
	wait    bool
}

// New returns the command.
func New(f *connection.Factory) *cobra.Command {
	o := &options{streams: f.Streams}
	cmd := &cobra.Command{
		Use:     "remove NODE...",
		Aliases: []string{"rm"},
		Short:   "Give nodes' GPUs back to the cluster",
		Long: `Takes Muster's label and taint off nodes: Muster gives out their GPUs no more, and
others' pods may come. A node on which Muster's work has GPUs is refused; with
--wait nothing new is placed there and the node is given back once that work has
ended, with --force at once: what runs goes on, beside whoever comes.`,
		Example: "  muster node remove gpu-1 --wait",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			return stock.Complete(cmd.Context(), f, args), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return exit.Usage("remove which node? Give names; `muster node list` lists them")
			}
			if o.force && o.wait {
				return exit.Usage("--force and --wait: give one: at once, or once Muster's work there has ended")
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
	cmd.Flags().BoolVar(&o.force, "force", false, "give them back although Muster's work has GPUs there")
	cmd.Flags().BoolVar(&o.wait, "wait", false, "place nothing new there, and give them back once Muster's work there has ended")
	return cmd
}

// run looks at all nodes before any is changed, so that a misspelt name changes
// none.
func (o *options) run(ctx context.Context, server client.WithWatch, names []string) error {
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
			errs = append(errs, exit.With(exit.Failure, fmt.Errorf("node %s names its GPUs to Muster itself, and cannot be removed; cordon it (kubectl cordon %s) or stop Muster there", name, name)))
		case len(n.Holders) > 0 && !o.force && !o.wait:
			errs = append(errs, exit.With(exit.Failure, fmt.Errorf("node %s is not removed: %s %s GPUs there; give --wait to give it back once that has ended, or --force to do so at once",
				name, some(n.Holders), has(n.Holders))))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	// Nothing new comes there from now on; others stay off until it is free.
	for _, n := range nodes {
		if o.wait && n.Owned {
			if err := stock.Mark(ctx, server, n.Object.Name, false, true, true); err != nil {
				return err
			}
		}
	}
	for _, n := range nodes {
		if err := o.giveBack(ctx, server, n); err != nil {
			return err
		}
	}
	return nil
}

// giveBack waits if that is wanted, and takes the label and the taint off.
func (o *options) giveBack(ctx context.Context, server client.WithWatch, n *stock.Node) error {
	name, done := n.Object.Name, "removed"
	if o.wait && len(n.Holders) > 0 {
		_, _ = fmt.Fprintf(o.streams.Err, "node %s: waiting for %s to end\n", name, some(n.Holders))
		if err := free(ctx, server, name); err != nil {
			return err
		}
	}
	// What goes on there by force needs the agent to its end; the next removal
	// takes it away.
	held := len(n.Holders) > 0 && !o.wait
	if !n.Owned && !n.Tainted && (held || n.Object.Labels[v1alpha1.LabelAgent] == "") {
		done = "unchanged"
	} else if err := stock.Mark(ctx, server, name, false, false, held); err != nil {
		return err
	}
	return o.report(n, done)
}

// free waits until Muster's work has no GPU of a node.
func free(ctx context.Context, server client.WithWatch, name string) error {
	for {
		changes, err := server.Watch(ctx, &corev1.PodList{}, client.MatchingFields{"spec.nodeName": name})
		if err != nil {
			return fmt.Errorf("watching the pods of node %s: %w", name, err)
		}
		for {
			now, err := stock.Read(ctx, server)
			if err != nil {
				changes.Stop()
				return err
			}
			nodes, err := now.Find([]string{name})
			if err != nil || len(nodes[0].Holders) == 0 {
				changes.Stop()
				return err
			}
			if _, more := <-changes.ResultChan(); !more {
				break // it is watched anew
			}
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("waiting for Muster's work on node %s to end: %w (nothing new is placed there; `muster node remove %s` goes on, `muster node add %s` takes it back)", name, err, name, name)
		}
	}
}

// most is how many holders are named.
const most = 5

// some names the first of several holders.
func some(holders []string) string {
	text := strings.Join(holders[:min(most, len(holders))], ", ")
	if more := len(holders) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func has(holders []string) string {
	if len(holders) == 1 {
		return "has"
	}
	return "have"
}

// Result is what was done to one node, as -o json prints it.
type Result struct {
	Node   string `json:"node"`
	Result string `json:"result"`
	// Holders are those whose GPUs there are still in use.
	Holders []string `json:"holders,omitempty"`
}

func (o *options) report(n *stock.Node, done string) error {
	name, left := n.Object.Name, n.Holders
	if o.wait {
		left = nil
	}
	switch *o.format {
	case output.JSON:
		return output.Print(o.streams.Out, output.JSON, Result{Node: name, Result: done, Holders: left})
	case output.Name:
		_, err := fmt.Fprintln(o.streams.Out, output.Reference(schema.GroupKind{Kind: "Node"}, name))
		return err
	}
	if done == "unchanged" {
		_, err := fmt.Fprintf(o.streams.Out, "node %s is not Muster's\n", name)
		return err
	}
	_, err := fmt.Fprintf(o.streams.Out, "node %s removed: Muster gives out its GPUs no more\n", name)
	if len(left) > 0 {
		_, _ = fmt.Fprintln(o.streams.Err, o.streams.ErrStyle().Paint(terminal.Yellow, "warning:")+
			fmt.Sprintf(" %s %s GPUs there until they end; pods that come meanwhile compete with them", some(left), has(left)))
	}
	return err
}
