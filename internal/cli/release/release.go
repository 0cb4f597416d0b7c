// Package release is the command `muster release`: gives back what a stuck gang
// holds, whether its members answer or not.
package release

import (
	"bufio"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/person"
	"github.com/muster-dev/muster/internal/cli/terminal"
)

type options struct {
	streams terminal.Streams
	// asks is true where somebody can be asked.
	asks   bool
	who    string
	force  bool
	yes    bool
	noWait bool
	// patience is how long to wait until everything is released.
	patience time.Duration
}

// New returns the command.
func New(f *connection.Factory) *cobra.Command {
	o := &options{streams: f.Streams, patience: 30 * time.Second}
	cmd := &cobra.Command{
		Use:   "release JOB --force",
		Short: "Give back what a stuck job holds, although its members do not answer",
		Long: `Takes away what a training job holds, without waiting for its members to end: for
jobs that hang because a node is gone, or does not answer. The pods are deleted
and their GPUs are given to others, at once.

Nobody can tell then whether the processes are gone. On a node that answers they
are killed without notice; on one that does not, they may go on, and use GPUs
that others are given. So the command says what runs where, and asks.

The job is not ended by it: it is started again when there is room. To end it,
delete it as well; to keep it from starting, suspend it first.`,
		Example: "  muster release mnist --force",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.validate(args); err != nil {
				return err
			}
			server, namespace, err := f.Reach()
			if err != nil {
				return err
			}
			o.asks, o.who = terminal.Is(f.Streams.In), person.Author(cmd.Context(), f.Client)
			return o.run(cmd.Context(), server, namespace, args[0])
		},
	}
	f.TakeJobs(cmd, "release which job?")
	cmd.Flags().BoolVar(&o.force, "force", false, "yes, without waiting for its members; required")
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "do not ask")
	cmd.Flags().BoolVar(&o.noWait, "no-wait", false, "return at once; it is released all the same")
	return cmd
}

func (o *options) validate(args []string) error {
	switch {
	case len(args) > 1:
		return exit.Usage("one job at a time: what is %q?", args[1])
	case !o.force:
		return exit.Usage("release takes away what %s holds although its members may run: give --force if that is meant; `muster suspend %[1]s` stops it in good order", args[0])
	}
	return nil
}

func (o *options) run(ctx context.Context, server client.Client, namespace, name string) error {
	// 1. What is held, and where.
	h, err := look(ctx, server, namespace, name)
	if err != nil {
		return err
	}
	if h.placement == nil && len(h.members) == 0 {
		_, err := fmt.Fprintf(o.streams.Out, "%s holds nothing\n", name)
		return err
	}
	// 2. Whether that is meant.
	if err := h.tell(o.streams); err != nil {
		return err
	}
	if err := o.confirm(ctx, name); err != nil {
		return err
	}
	// 3. The order, which the gang's controller carries out.
	from := h.gang.DeepCopy()
	metav1.SetMetaDataAnnotation(&h.gang.ObjectMeta, v1alpha1.AnnotationRelease, fmt.Sprintf("%d %s", h.attempt, strings.Join(strings.Fields(o.who), "-")))
	if err := server.Patch(ctx, h.gang, client.MergeFrom(from)); err != nil {
		return fmt.Errorf("releasing %s: %w", name, err)
	}
	word := "releasing"
	if !o.noWait {
		if err := o.wait(ctx, server, h); err != nil {
			return err
		}
		word = "released"
	}
	if _, err := fmt.Fprintf(o.streams.Out, "%s %s: %s\n", name, word, terminal.Count(int64(h.gpus()), "GPU")); err != nil {
		return err
	}
	h.remind(o.streams)
	return nil
}

// confirm asks whether it is meant.
func (o *options) confirm(ctx context.Context, name string) error {
	switch {
	case o.yes:
		return nil
	case !o.asks:
		return exit.Usage("releasing %s by force is to be confirmed, and standard input is no terminal: give --yes", name)
	}
	_, _ = fmt.Fprintf(o.streams.Err, "Release %s by force? [y/N] ", name)
	answer := make(chan string, 1)
	// A read from a terminal cannot be cancelled: after ^C it ends with the
	// process.
	go func() {
		line, _ := bufio.NewReader(o.streams.In).ReadString('\n')
		answer <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case said := <-answer:
		if said == "y" || said == "yes" {
			return nil
		}
	}
	return exit.With(exit.Failure, fmt.Errorf("%s is not released; nothing was changed", name))
}

// pollEvery is how often the server is asked what is left.
const pollEvery = 100 * time.Millisecond

// wait returns once nothing of the attempt is left.
func (o *options) wait(ctx context.Context, server client.Client, h *held) error {
	patience, cancel := context.WithTimeout(ctx, o.patience)
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	progress := terminal.NewProgress(o.streams.Err, "Releasing "+h.gang.Name, terminal.Things)
	defer progress.Stop()
	for {
		left, err := h.left(patience, server)
		if err == nil && left == "" {
			return nil
		}
		if err != nil && patience.Err() == nil {
			return err
		}
		progress.Say(left)
		select {
		case <-patience.Done():
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return exit.With(exit.Failure, fmt.Errorf("%s is not released after %s: %s; the order stands. Does Muster run? See `muster status`", h.gang.Name, terminal.Span(o.patience), left))
		case <-tick.C:
		}
	}
}
