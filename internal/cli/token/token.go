// Package token is the command `muster token`: tokens by which programs use the console, created,
// listed and revoked.
package token

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/output"
	"github.com/muster-dev/muster/internal/cli/session"
	"github.com/muster-dev/muster/internal/cli/website"
	"github.com/muster-dev/muster/internal/people/control"
	sessions "github.com/muster-dev/muster/internal/people/session"
	"github.com/muster-dev/muster/internal/people/web"
)

// New returns the command.
func New(f *connection.Factory) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Create, list and revoke tokens by which programs use the console",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newCreate(f), newList(f), session.NewRevoke(f, sessions.KindToken))
	return cmd
}

type creating struct {
	name    string
	scopes  []string
	expires string
}

func newCreate(f *connection.Factory) *cobra.Command {
	var o creating
	scopes := strings.Join(web.Scopes(), ", ")
	cmd := &cobra.Command{
		Use:   "create --for NAME --scope SCOPE --expires TIME",
		Short: "Create a token; it is printed once",
		Long: `Creates a token for one program and prints it. Muster keeps a hash only, so it cannot
print the token again. A program sends it as "Authorization: Bearer TOKEN".

Scopes: read is the state of the GPUs, programs is your programs behind the console.`,
		Example:           "  muster token create --for nightly-report --scope read --expires 30d",
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	format := output.Flag(cmd, output.JSON, output.YAML)
	cmd.Flags().StringVar(&o.name, "for", "", "name of the program: a-z, 0-9, - and .")
	cmd.Flags().StringSliceVar(&o.scopes, "scope", nil, "what the token opens: "+scopes)
	cmd.Flags().StringVar(&o.expires, "expires", "30d", "life of the token, such as 12h or 30d, at most 366d")
	_ = cmd.RegisterFlagCompletionFunc("scope", cobra.FixedCompletions(web.Scopes(), cobra.ShellCompDirectiveNoFileComp))
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := format.Validate(output.JSON, output.YAML); err != nil {
			return err
		}
		life, err := parse(o.expires)
		switch {
		case err != nil:
			return err
		case o.name == "":
			return exit.Usage("--for is missing: give the name of the program that uses the token, such as nightly-report")
		case len(o.scopes) == 0:
			return exit.Usage("--scope is missing: give some of %s", scopes)
		}
		client, err := website.Client(f)
		if err != nil {
			return err
		}
		made, err := client.CreateToken(cmd.Context(), control.TokenRequest{Name: o.name, Scopes: o.scopes, Lifetime: int64(life / time.Second)})
		if err != nil {
			return website.Explain(f, err)
		}
		if *format != output.Human {
			return output.Print(f.Streams.Out, *format, made)
		}
		if _, err := fmt.Fprintln(f.Streams.Out, made.Token); err != nil {
			return err
		}
		_, err = fmt.Fprintf(f.Streams.Err, "muster: token %s for %s, until %s; it is not printed again\n", made.ID, made.Name, session.Time(made.Expires))
		return err
	}
	return cmd
}

// parse reads a life of a token: a duration of Go, or days.
func parse(text string) (time.Duration, error) {
	life, err := time.ParseDuration(text)
	if days, ok := strings.CutSuffix(text, "d"); ok {
		var count int
		if _, failed := fmt.Sscanf(days+"\n", "%d\n", &count); failed == nil && count <= 366 {
			life, err = time.Duration(count)*24*time.Hour, nil
		}
	}
	if err != nil || life < time.Second || life > 366*24*time.Hour {
		return 0, exit.Usage("--expires %q: give a time of at most 366d, such as 12h or 30d", text)
	}
	return life, nil
}

func newList(f *connection.Factory) *cobra.Command {
	cmd := &cobra.Command{
		Use:               "list",
		Short:             "List your tokens, without their secrets",
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	format := output.Flag(cmd, output.JSON, output.YAML)
	var all bool
	session.AddAll(cmd, &all)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		list, err := session.List(cmd.Context(), f, format, sessions.KindToken, all)
		if err != nil || *format != output.Human {
			return err
		}
		table := session.NewTable(cmd.Context(), list, all, "ID", "FOR", "SCOPES", "LAST REQUEST", "EXPIRES")
		for _, e := range list {
			table.Row(e, e.ID, e.Name, strings.Join(e.Scopes, ","), session.Time(e.Seen), session.Time(e.Expires))
		}
		if table.Len() == 0 {
			_, err := fmt.Fprintln(f.Streams.Out, "no tokens; `muster token create` makes one")
			return err
		}
		return table.Write(f.Streams.Out, f.Streams.OutStyle(), "")
	}
	return cmd
}
