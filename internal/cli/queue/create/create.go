// Package create is the command `muster queue create`.
package create

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/output"
	"github.com/muster-dev/muster/internal/cli/queue/survey"
	"github.com/muster-dev/muster/internal/cli/queue/terms"
	"github.com/muster-dev/muster/internal/cli/refusal"
	"github.com/muster-dev/muster/internal/cli/terminal"
)

var formats = []output.Format{output.Name, output.JSON, output.YAML}

type options struct {
	streams terminal.Streams
	format  *output.Format
	dryRun  bool
}

// New returns the command.
func New(f *connection.Factory) *cobra.Command {
	o := &options{streams: f.Streams}
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Create a queue",
		Long: `Creates a queue. What it is guaranteed it can have whenever it wants; while it is
idle, others may borrow it. Amounts are given by class: cpu, memory, gpu (of any
model), or a GPU model; parts of GPUs as 500m or 0.5.`,
		Example: `  muster queue create vision --guaranteed gpu=8,cpu=64,memory=512Gi
  muster queue create ocr --parent vision --limit A100=4 --weight 2
  muster queue create batch --borrowing=false --guaranteed gpu=2`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags := terms.Add(cmd, f)
	o.format = output.Flag(cmd, formats...)
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "print the queue as a manifest and create nothing")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		object, err := o.complete(cmd, flags, args)
		if err != nil {
			return err
		}
		if o.dryRun {
			return o.print(object)
		}
		server, err := f.Client()
		if err != nil {
			return err
		}
		return o.run(cmd.Context(), server, object)
	}
	return cmd
}

// complete makes the object of what was typed.
func (o *options) complete(cmd *cobra.Command, flags *terms.Flags, args []string) (*v1alpha1.Queue, error) {
	if err := o.format.Validate(formats...); err != nil {
		return nil, err
	}
	switch len(args) {
	case 0:
		return nil, exit.Usage("create which queue? Give its name: muster queue create vision --guaranteed gpu=8")
	case 1:
	default:
		return nil, exit.Usage("one queue at a time: what is %q?", args[1])
	}
	if len(validation.IsDNS1123Label(args[0])) > 0 {
		return nil, exit.Usage("%q is no name for a queue: give up to 63 lower-case letters, digits and '-'", args[0])
	}
	object := &v1alpha1.Queue{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Queue"},
		ObjectMeta: metav1.ObjectMeta{Name: args[0]},
	}
	return object, flags.Read(cmd, &object.Spec)
}

func (o *options) run(ctx context.Context, server client.Client, object *v1alpha1.Queue) error {
	now, err := survey.ForChange(ctx, server, "create")
	if err != nil {
		return err
	}
	if now.Object(object.Name) != nil {
		return exit.With(exit.Failure, fmt.Errorf("there is a queue %s already: change it with `muster queue edit %s`", object.Name, object.Name))
	}
	warnings, err := terms.Check(now, object)
	for _, warning := range warnings {
		_, _ = fmt.Fprintln(o.streams.Err, o.streams.ErrStyle().Paint(terminal.Yellow, "warning:")+" "+warning)
	}
	if err != nil {
		return err
	}
	if err := server.Create(ctx, object); err != nil {
		if apierrors.IsInvalid(err) {
			return refusal.Explain("queue "+object.Name, err)
		}
		return fmt.Errorf("creating queue %s: %w", object.Name, err)
	}
	return o.report(object)
}

func (o *options) report(object *v1alpha1.Queue) error {
	switch *o.format {
	case output.JSON, output.YAML:
		return o.print(object)
	case output.Name:
		_, err := fmt.Fprintln(o.streams.Out, output.Reference(v1alpha1.GroupVersion.WithKind("Queue").GroupKind(), object.Name))
		return err
	}
	_, err := fmt.Fprintf(o.streams.Out, "queue %s created; jobs join it with muster run --queue %s\n", object.Name, object.Name)
	return err
}

// print writes the object as a manifest: YAML unless another format is asked
// for.
func (o *options) print(object *v1alpha1.Queue) error {
	if *o.format == output.Name {
		return o.report(object)
	}
	object.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Queue"}
	return output.PrintManifest(o.streams.Out, *o.format, object)
}
