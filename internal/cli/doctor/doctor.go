package doctor

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/instance"
	"github.com/muster-dev/muster/internal/cli/output"
	"github.com/muster-dev/muster/internal/cli/terminal"
)

// Verdict says how bad a finding is.
type Verdict string

// The verdicts.
const (
	Good    Verdict = "ok"
	Limited Verdict = "limited" // Muster works, with less
	Bad     Verdict = "bad"     // Muster does not work
)

// Finding is what one check found.
type Finding struct {
	// Check is the subject: "tier", "GPUs", ...
	Check   string  `json:"check"`
	Verdict Verdict `json:"verdict"`
	// Says is what was found, and why.
	Says string `json:"says"`
	// Fix is what to do about it; empty if nothing.
	Fix string `json:"fix,omitempty"`
}

type options struct {
	factory *connection.Factory
	format  *output.Format
}

// New returns the command.
func New(f *connection.Factory) *cobra.Command {
	o := &options{factory: f}
	cmd := &cobra.Command{
		Use:     "doctor",
		GroupID: "machine",
		Short:   "Say what this machine, or a cluster, allows, why, and what is missing",
		Long: `Looks at the machine and says which tier pods run in and why, and what is
missing for GPUs, images, Python, limits, disk and ports. Changes nothing.

With --kubeconfig or $KUBECONFIG it looks at that cluster instead: its version,
Muster's kinds and manager, drivers, device plugins and models of GPUs, other
schedulers on Muster's nodes, storage and clocks.

Exit code 1 where something keeps Muster from working.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	o.format = output.Flag(cmd, output.JSON, output.YAML)
	return cmd
}

func (o *options) run(ctx context.Context) error {
	if err := o.format.Validate(output.JSON, output.YAML); err != nil {
		return err
	}
	if o.factory.AsksDoor() {
		findings, err := atDoor(ctx, o.factory)
		if err != nil {
			return err
		}
		return o.tell(findings)
	}
	if o.factory.Elsewhere() {
		findings, err := elsewhere(ctx, o.factory)
		if err != nil {
			return err
		}
		return o.tell(findings)
	}
	dir, err := o.factory.Home()
	if err != nil {
		return err
	}
	home := instance.Home(dir)
	return o.tell(here(ctx, o.factory, home, dir))
}

// tell prints findings; a bad one is exit code 1.
func (o *options) tell(findings []Finding) (err error) {
	if *o.format != output.Human {
		err = output.Print(o.factory.Streams.Out, *o.format, findings)
	} else {
		err = o.print(findings)
	}
	for _, f := range findings {
		if f.Verdict == Bad && err == nil {
			return exit.With(exit.Failure, nil)
		}
	}
	return err
}

func (o *options) print(findings []Finding) error {
	colours := map[Verdict]terminal.Colour{Good: terminal.Green, Limited: terminal.Yellow, Bad: terminal.Red}
	table := terminal.NewTable()
	for _, f := range findings {
		table.Row(string(f.Verdict), f.Check, f.Says).Paint(0, colours[f.Verdict])
		if f.Fix != "" {
			table.Row("", "", "-> "+f.Fix)
		}
	}
	if err := table.Write(o.factory.Streams.Out, o.factory.Streams.OutStyle(), ""); err != nil {
		return fmt.Errorf("writing the findings: %w", err)
	}
	return nil
}
