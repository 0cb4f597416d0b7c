// Package create is the command `muster data create`.
package create

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/data/address"
	"github.com/muster-dev/muster/internal/cli/data/opening"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/output"
	"github.com/muster-dev/muster/internal/cli/refusal"
	"github.com/muster-dev/muster/internal/cli/terminal"
)

var formats = []output.Format{output.Name, output.JSON, output.YAML}

type options struct {
	streams     terminal.Streams
	format      *output.Format
	description string
	dryRun      bool
}

// New returns the command.
func New(f *connection.Factory) *cobra.Command {
	o := &options{streams: f.Streams}
	cmd := &cobra.Command{
		Use:   "create DATASET",
		Short: "Create a dataset",
		Long: `Creates a dataset, without any data. Its first commit, which muster data put
makes, makes its branch.`,
		Example:           `  muster data create digits --description "handwritten digits, 28 x 28"`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().StringVar(&o.description, "description", "", "what the data is, in a sentence")
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "print the dataset as a manifest and create nothing")
	o.format = output.Flag(cmd, formats...)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		object, err := o.complete(args)
		if err != nil {
			return err
		}
		if o.dryRun {
			return o.print(object)
		}
		server, namespace, err := opening.Server(f)
		if err != nil {
			return err
		}
		object.Namespace = namespace
		return o.run(cmd.Context(), server, object)
	}
	return cmd
}

// complete makes the object of what was typed.
func (o *options) complete(args []string) (*v1alpha1.Dataset, error) {
	if err := o.format.Validate(formats...); err != nil {
		return nil, err
	}
	switch len(args) {
	case 0:
		return nil, exit.Usage("create which dataset? Give its name: muster data create digits")
	case 1:
	default:
		return nil, exit.Usage("one dataset at a time: what is %q?", args[1])
	}
	if err := address.CheckDataset(args[0]); err != nil {
		return nil, exit.With(exit.Misuse, err)
	}
	return &v1alpha1.Dataset{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Dataset"},
		ObjectMeta: metav1.ObjectMeta{Name: args[0]},
		Spec:       v1alpha1.DatasetSpec{Description: o.description},
	}, nil
}

func (o *options) run(ctx context.Context, server client.Client, object *v1alpha1.Dataset) error {
	err := server.Create(ctx, object)
	switch {
	case apierrors.IsAlreadyExists(err):
		return exit.With(exit.Failure, fmt.Errorf("there is a dataset %s already: put data into it with `muster data put`, or give another name", object.Name))
	case refusal.NoNamespace(err):
		return exit.NotFound("there is no namespace %s", object.Namespace)
	case apierrors.IsInvalid(err):
		return refusal.Explain("dataset "+object.Name, err)
	case err != nil:
		return fmt.Errorf("creating dataset %s: %w", object.Name, err)
	}
	return o.report(object)
}

func (o *options) report(object *v1alpha1.Dataset) error {
	switch *o.format {
	case output.JSON, output.YAML:
		return o.print(object)
	case output.Name:
		_, err := fmt.Fprintln(o.streams.Out, output.Reference(v1alpha1.GroupVersion.WithKind("Dataset").GroupKind(), object.Name))
		return err
	}
	_, err := fmt.Fprintf(o.streams.Out, "dataset %s created; put files into it with muster data put FOLDER %s\n", object.Name, object.Name)
	return err
}

// print writes the object as a manifest: YAML unless another format is asked
// for.
func (o *options) print(object *v1alpha1.Dataset) error {
	if *o.format == output.Name {
		return o.report(object)
	}
	object.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Dataset"}
	return output.PrintManifest(o.streams.Out, *o.format, object)
}
