// Package describe is the command `muster queue describe`: everything about one
// queue on one page.
package describe

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/output"
	"github.com/muster-dev/muster/internal/cli/queue/survey"
	"github.com/muster-dev/muster/internal/cli/terminal"
)

// New returns the command.
func New(f *connection.Factory) *cobra.Command {
	var format *output.Format
	cmd := &cobra.Command{
		Use:   "describe QUEUE...",
		Short: "Show a queue: its terms, who uses it, what it may borrow from whom",
		Long: `Shows a queue on one page: its terms, what it uses and could still take of each
class, what it may borrow and whose that is, who borrows what it may claim, its
users and its jobs, and what in it cannot be honoured.`,
		Example: "  muster queue describe vision\n  muster queue describe vision -o json",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			return survey.Complete(cmd.Context(), f, args), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return exit.Usage("describe which queue? Give its name; `muster queue list` lists them")
			}
			if err := format.Validate(output.JSON, output.YAML); err != nil {
				return err
			}
			server, err := f.Client()
			if err != nil {
				return err
			}
			logins := LoginsOn(cmd.Context(), f.AsksDoor(), AtDoor(f))
			return run(cmd.Context(), server, AtDoor(f), logins, f.Streams, *format, args)
		},
	}
	format = output.Flag(cmd, output.JSON, output.YAML)
	return cmd
}

func run(ctx context.Context, reader client.Reader, ask Asker, logins Logins, streams terminal.Streams, format output.Format, names []string) error {
	now, err := survey.Read(ctx, reader)
	if apierrors.IsForbidden(err) {
		if all, err := ask(ctx); err == nil {
			return answered(all, streams, format, names)
		}
		return told(ctx, reader, streams, format, names)
	}
	if err != nil {
		return err
	}
	pages := make([]*page, len(names))
	for i, name := range names {
		q, ok := now.Tree.Find(logins.queue(name))
		if !ok {
			return now.Missing(name)
		}
		pages[i] = &page{now: now, queue: q, name: now.Tree.Name(q), logins: logins}
	}
	switch {
	case format != output.Human && len(pages) == 1:
		return output.Print(streams.Out, format, pages[0].document())
	case format != output.Human:
		documents := make([]Document, len(pages))
		for i, p := range pages {
			documents[i] = p.document()
		}
		return output.Print(streams.Out, format, documents)
	}
	for i, p := range pages {
		if i > 0 {
			_, _ = fmt.Fprintln(streams.Out)
		}
		if err := p.write(streams.Out, streams.OutStyle()); err != nil {
			return err
		}
	}
	return nil
}
