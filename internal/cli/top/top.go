package top

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/output"
	"github.com/muster-dev/muster/internal/cli/terminal"
	"github.com/muster-dev/muster/internal/snapshot"
)

// refreshEvery is how often -w looks again.
const refreshEvery = 2 * time.Second

// Sampler measures the GPUs of this machine, by their UUIDs. What cannot be
// measured is left out.
type Sampler func(context.Context) map[string]Measure

type options struct {
	factory *connection.Factory
	format  *output.Format
	watch   bool
}

// New returns the command.
func New(f *connection.Factory) *cobra.Command {
	o := &options{factory: f}
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Show nodes, GPUs, how busy they are and who holds them",
		Long: `Shows every node with its GPUs: how busy each is, and which member of which job
holds it, or whose process, where it is not Muster's. How busy a GPU is can be
seen on the machine that it is in.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return exit.Usage("top takes no arguments; `muster describe %s` shows one job", args[0])
			}
			return nil
		},
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.validate(); err != nil {
				return err
			}
			return o.run(cmd.Context())
		},
	}
	o.format = output.Flag(cmd, output.JSON, output.YAML)
	cmd.Flags().BoolVarP(&o.watch, "watch", "w", false, "look again every two seconds")
	return cmd
}

func (o *options) validate() error {
	if o.watch && *o.format != output.Human {
		return exit.Usage("-w and -o %s do not go together: a document cannot be refreshed", *o.format)
	}
	return o.format.Validate(output.JSON, output.YAML)
}

func (o *options) run(ctx context.Context) error {
	server, err := o.factory.Client()
	if err != nil {
		return err
	}
	// A machine without GPUs, or a Muster elsewhere: nothing to measure.
	local, closeLocal := openLocal(ctx)
	defer closeLocal()
	if o.watch {
		return o.refresh(ctx, o.sees(server, local))
	}
	see := o.sees(server, local)
	report, err := see(ctx)
	if err != nil {
		return err
	}
	streams := o.factory.Streams
	if *o.format != output.Human {
		return output.Print(streams.Out, *o.format, report)
	}
	return report.write(streams.Out, streams.OutStyle(), time.Now())
}

// refresh shows the report again and again until ctx ends: in one place on a
// terminal, one below the other elsewhere.
func (o *options) refresh(ctx context.Context, see func(context.Context) (Report, error)) error {
	streams := o.factory.Streams
	draw := func(page string) error {
		_, err := fmt.Fprintln(streams.Out, page)
		return err
	}
	if terminal.Is(streams.Out) && !streams.Dumb {
		screen := terminal.NewScreen(streams.Out)
		defer screen.Close()
		draw = screen.Draw
	}
	resized, stop := terminal.Resized()
	defer stop()
	tick := time.NewTicker(refreshEvery)
	defer tick.Stop()
	for {
		report, err := see(ctx)
		if ctx.Err() != nil {
			return exit.With(exit.Interrupted, nil)
		}
		if err != nil {
			return err
		}
		var page strings.Builder
		if err := report.write(&page, streams.OutStyle(), time.Now()); err != nil {
			return err
		}
		if err := draw(page.String()); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return exit.With(exit.Interrupted, nil)
		case <-resized:
		case <-tick.C:
		}
	}
}

// sees is how a report comes about: by looking, or for somebody who may not look
// at nodes, by asking the manager.
func (o *options) sees(server client.Reader, local Sampler) func(context.Context) (Report, error) {
	// The door of a machine measures its GPUs, which not every user may.
	forbidden := o.factory.AsksDoor()
	return func(ctx context.Context) (Report, error) {
		if !forbidden {
			report, err := look(ctx, server, local)
			if forbidden = apierrors.IsForbidden(err); !forbidden {
				return report, err
			}
		}
		manager, err := o.factory.Visitor()
		if err != nil {
			return Report{}, err
		}
		namespace, err := o.factory.Namespace()
		if err != nil {
			return Report{}, err
		}
		var report Report
		err = manager.Ask(ctx, namespace, "/top", nil, &report)
		return report, err
	}
}

// Look reports what a reader may see, without measurements.
func Look(ctx context.Context, reader client.Reader) (Report, error) { return look(ctx, reader, nil) }

// look reads nodes and pods, and measures what is here.
func look(ctx context.Context, reader client.Reader, local Sampler) (Report, error) {
	nodes, err := snapshot.Nodes(ctx, reader)
	if err != nil {
		return Report{}, err
	}
	var pods corev1.PodList
	if err := reader.List(ctx, &pods); err != nil {
		return Report{}, fmt.Errorf("listing the pods: %w", err)
	}
	var measures map[string]Measure
	if local != nil {
		measures = local(ctx)
	}
	others, err := snapshot.HeldByOthers(ctx, reader, nodes, pods.Items)
	if err != nil {
		return Report{}, err
	}
	return Build(nodes, pods.Items, others, measures), nil
}
