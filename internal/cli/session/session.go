// Package session is the command `muster session`: sessions of browsers at the console, listed and
// revoked.
package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/output"
	"github.com/muster-dev/muster/internal/cli/website"
	sessions "github.com/muster-dev/muster/internal/people/session"
)

// New returns the command.
func New(f *connection.Factory) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "session",
		Short: "List and revoke the sessions of browsers at the console",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newList(f), NewRevoke(f, sessions.KindSession))
	return cmd
}

func newList(f *connection.Factory) *cobra.Command {
	cmd := &cobra.Command{
		Use:               "list",
		Short:             "List your sessions",
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	format := output.Flag(cmd, output.JSON, output.YAML)
	var all bool
	AddAll(cmd, &all)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		list, err := List(cmd.Context(), f, format, sessions.KindSession, all)
		if err != nil || *format != output.Human {
			return err
		}
		table := NewTable(cmd.Context(), list, all, "ID", "BROWSER", "ADDRESS", "LAST REQUEST", "EXPIRES")
		for _, e := range list {
			table.Row(e, e.ID, e.Name, e.Origin, Time(e.Seen), Time(e.Expires))
		}
		if table.Len() == 0 {
			_, err := fmt.Fprintln(f.Streams.Out, "no sessions; `muster console` opens one")
			return err
		}
		return table.Write(f.Streams.Out, f.Streams.OutStyle(), "")
	}
	return cmd
}

// Time is a time in a list.
func Time(t time.Time) string { return t.Local().Format("2006-01-02 15:04") }

// List returns the caller's entries of a kind, or with all those of all users, and prints them in a
// format that is not a table.
func List(ctx context.Context, f *connection.Factory, format *output.Format, kind sessions.Kind, all bool) ([]sessions.Entry, error) {
	if err := format.Validate(output.JSON, output.YAML); err != nil {
		return nil, err
	}
	client, err := website.Client(f)
	if err != nil {
		return nil, err
	}
	found, err := client.List(ctx, all)
	if err != nil {
		return nil, website.Explain(f, err)
	}
	list := []sessions.Entry{}
	for _, e := range found {
		if e.Kind == kind {
			list = append(list, e)
		}
	}
	if *format != output.Human {
		return list, output.Print(f.Streams.Out, *format, list)
	}
	return list, nil
}

// NewRevoke returns the command that ends entries of a kind.
func NewRevoke(f *connection.Factory, kind sessions.Kind) *cobra.Command {
	return &cobra.Command{
		Use:     "revoke ID...",
		Short:   fmt.Sprintf("End %ss at once", kind),
		Example: fmt.Sprintf("  muster %s revoke 5f0c31a2b4d6e8f0", kind),
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return exit.Usage("give the ID of a %[1]s; `muster %[1]s list` lists them", kind)
			}
			return nil
		},
		ValidArgsFunction: func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
			return propose(cmd.Context(), f, kind), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := website.Client(f)
			if err != nil {
				return err
			}
			for _, id := range args {
				err := client.Revoke(cmd.Context(), id)
				switch {
				case errors.Is(err, sessions.ErrUnknown):
					return exit.NotFound("you have no %[1]s %[2]q; `muster %[1]s list` lists them", kind, id)
				case err != nil:
					return website.Explain(f, err)
				}
				if _, err := fmt.Fprintf(f.Streams.Out, "%s %s revoked\n", kind, id); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// propose lists IDs for the shell. Errors propose nothing.
func propose(ctx context.Context, f *connection.Factory, kind sessions.Kind) []string {
	client, err := website.Client(f)
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	all, err := client.List(ctx, false)
	if err != nil {
		return nil
	}
	var ids []string
	for _, e := range all {
		if e.Kind == kind {
			ids = append(ids, e.ID+"\t"+e.Name)
		}
	}
	return ids
}
