// Package drain is the command `muster node drain`.
package drain

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/node/stock"
	"github.com/muster-dev/muster/internal/cli/output"
	"github.com/muster-dev/muster/internal/cli/terminal"
	"github.com/muster-dev/muster/internal/departure"
)

type options struct {
	streams terminal.Streams
	format  *output.Format
	notice  time.Duration
	timeout time.Duration
	undo    bool
	noWait  bool
}

// New returns the command.
func New(f *connection.Factory) *cobra.Command {
	o := &options{streams: f.Streams}
	cmd := &cobra.Command{
		Use:   "drain NODE...",
		Short: "Have Muster's work leave nodes, whole gangs at a time",
		Long: `Cordons nodes and orders Muster's work off them: every job that has a member there
is stopped as a whole, with the notice that its pods have to save their work, goes
back to its queue and is started again elsewhere. It counts as no failure. Other
pods stay; kubectl drain moves those.

The order stands until it is taken back with --undo, also when this command is
interrupted.`,
		Example: "  muster node drain gpu-1\n  muster node drain gpu-1 --notice 5m --timeout 15m\n  muster node drain gpu-1 --undo",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			return stock.Complete(cmd.Context(), f, args), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.check(args); err != nil {
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
	cmd.Flags().DurationVar(&o.notice, "notice", 0, "how long members may go on once they were told to stop (default: as long as each job says)")
	cmd.Flags().DurationVar(&o.timeout, "timeout", 0, "how long to wait until nothing of Muster's runs there (default: as long as it takes)")
	cmd.Flags().BoolVar(&o.undo, "undo", false, "take the order and its cordon back")
	cmd.Flags().BoolVar(&o.noWait, "no-wait", false, "give the order and return")
	return cmd
}

// check refuses flags that make no sense.
func (o *options) check(args []string) error {
	switch {
	case len(args) == 0:
		return exit.Usage("drain which node? Give names; `muster node list` lists them")
	case o.notice < 0 || o.notice > 0 && o.notice < time.Second:
		return exit.Usage("--notice %s: give a second or more, such as 2m; leave it out for what each job says", o.notice)
	case o.timeout < 0:
		return exit.Usage("--timeout %s: give a duration, such as 10m; leave it out to wait as long as it takes", o.timeout)
	case o.undo && (o.notice > 0 || o.timeout > 0 || o.noWait):
		return exit.Usage("--undo takes an order back, at once: give it without --notice, --timeout and --no-wait")
	}
	return o.format.Validate(output.Name, output.JSON)
}

// run looks at all nodes before any is changed, so that a misspelt name changes
// none, and orders all before any is waited for.
func (o *options) run(ctx context.Context, server client.WithWatch, names []string) error {
	if err := o.find(ctx, server, names); err != nil {
		return err
	}
	for _, name := range names {
		if err := o.order(ctx, server, name); err != nil {
			return err
		}
	}
	if o.undo || o.noWait {
		for _, name := range names {
			if err := o.report(name, map[bool]string{true: "kept", false: "ordered"}[o.undo], nil); err != nil {
				return err
			}
		}
		return nil
	}
	if o.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, o.timeout, errTimeout)
		defer cancel()
	}
	var errs []error
	for _, name := range names {
		left, err := o.await(ctx, server, name)
		switch {
		case err == nil:
			err = o.report(name, "drained", nil)
		case ctx.Err() != nil:
			err = o.unfinished(ctx, name, left)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// errTimeout is why a drain is not waited for any longer.
var errTimeout = errors.New("the time of --timeout is over")

// unfinished says who is left once it is not waited any longer.
func (o *options) unfinished(ctx context.Context, name string, left []string) error {
	why := context.Cause(ctx)
	if errors.Is(why, errTimeout) {
		why = fmt.Errorf("it is not drained after %s", o.timeout)
	}
	who := "who is left is not known"
	if len(left) > 0 {
		who = "left are " + strings.Join(left, ", ")
	}
	return exit.With(exit.Failure, fmt.Errorf("node %s: %w: %s; the drain goes on, and `muster node drain --undo %s` takes it back", name, why, who, name))
}

// find says which nodes there are none of.
func (o *options) find(ctx context.Context, server client.Reader, names []string) error {
	nodes := &corev1.NodeList{}
	if err := server.List(ctx, nodes); err != nil {
		return fmt.Errorf("listing the nodes: %w", err)
	}
	var all []string
	for i := range nodes.Items {
		all = append(all, nodes.Items[i].Name)
	}
	return stock.Known(all, names)
}

// order gives the order to drain a node, or takes it back, on top of what the
// node is now.
func (o *options) order(ctx context.Context, server client.Client, name string) error {
	err := stock.Change(ctx, server, name, func(n *corev1.Node) {
		if o.undo {
			departure.Withdraw(n)
		} else {
			departure.Order(n, o.notice)
		}
	})
	if err != nil {
		return fmt.Errorf("ordering the drain of node %s: %w", name, err)
	}
	return nil
}

// Result is what was done to one node, as -o json prints it.
type Result struct {
	Node string `json:"node"`
	// Result is ordered, drained or kept.
	Result string `json:"result"`
	// Left are the members that are still there.
	Left []string `json:"left,omitempty"`
}

func (o *options) report(name, done string, left []string) error {
	switch *o.format {
	case output.JSON:
		return output.Print(o.streams.Out, output.JSON, Result{Node: name, Result: done, Left: left})
	case output.Name:
		_, err := fmt.Fprintln(o.streams.Out, output.Reference(schema.GroupKind{Kind: "Node"}, name))
		return err
	}
	text := map[string]string{
		"drained": "node %s drained: nothing of Muster's runs there; others' pods stay until kubectl drain %[1]s\n",
		"ordered": "node %s is being drained: `kubectl get pods -A --field-selector spec.nodeName=%[1]s` shows who is left\n",
		"kept":    "node %s takes work again\n",
	}[done]
	_, err := fmt.Fprintf(o.streams.Out, text, name)
	return err
}
