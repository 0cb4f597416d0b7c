package user

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/output"
	"github.com/muster-dev/muster/internal/cli/terminal"
	"github.com/muster-dev/muster/internal/installation"
	"github.com/muster-dev/muster/internal/tenant"
)

func newList(f *connection.Factory) *cobra.Command {
	var format *output.Format
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the users of Muster, their queues and how many jobs they have",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := format.Validate(output.JSON, output.YAML); err != nil {
				return err
			}
			server, err := f.Client()
			if err != nil {
				return err
			}
			users, err := tenant.List(cmd.Context(), server)
			if err != nil {
				return err
			}
			if *format != output.Human {
				return output.Print(f.Streams.Out, *format, users)
			}
			alone, err := installation.OnOneMachine(cmd.Context(), server)
			if err != nil {
				return err
			}
			if alone && len(users) == 0 {
				_, err := fmt.Fprintln(f.Streams.Out, onOneMachine)
				return err
			}
			return show(f.Streams, users)
		},
	}
	format = output.Flag(cmd, output.JSON, output.YAML)
	return cmd
}

func show(streams terminal.Streams, users []tenant.Standing) error {
	if len(users) == 0 {
		_, err := fmt.Fprintln(streams.Out, "There are no users yet: muster user add NAME")
		return err
	}
	table := terminal.NewTable("NAME", "QUEUE", "RUNNING", "WAITING", "AGE")
	for _, u := range users {
		table.Row(u.Name, u.Queue, fmt.Sprint(u.Running), fmt.Sprint(u.Waiting), terminal.Span(time.Since(u.Since)))
	}
	return table.Write(streams.Out, streams.OutStyle(), "")
}

// notFound says that there is no such user.
func notFound(name string) error {
	return exit.NotFound("there is no user %s; `muster user list` lists them", name)
}
