// Package apply is the command `muster pipeline apply`.
package apply

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/data/opening"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/output"
	"github.com/muster-dev/muster/internal/cli/refusal"
)

var formats = []output.Format{output.Name, output.YAML, output.JSON}

type options struct {
	factory *connection.Factory
	format  *output.Format
	files   []string
	// templates are Jsonnet files, beside those among files; args are their arguments.
	templates, args []string
	dryRun          bool
	// stored are the snapshots that the pipeline which is being read names, code those
	// of the ones that were read.
	stored []string
	code   map[*unstructured.Unstructured][]string
}

// New returns the command.
func New(f *connection.Factory) *cobra.Command {
	o := &options{factory: f}
	cmd := &cobra.Command{
		Use:   "apply -f FILE",
		Short: "Create or change a pipeline as a file says, with its code",
		Long: `Creates the pipelines of a YAML or JSON file, or changes those that are there. What
the file leaves out, apiVersion and kind included, has its default.

Code is taken along: code of the pipeline or of a stage names a folder or a file,
relative to the file, of which a snapshot is stored. A stage that names a script
and no code has that one file as its code, so that a change of another stage's
script does not compute it again; say code: FOLDER where a script needs others.

A change of the stages starts a run, which computes what the change touches.

Pachyderm's pipeline specifications are taken as well (docs/pachyderm.md): what
each field becomes is shown by --dry-run -o yaml.

A file of Jsonnet (*.jsonnet) is evaluated first, with the arguments of --arg, as by
pachctl. It imports files of its own folder alone.`,
		Example: `  muster pipeline apply -f pipeline.yaml
  muster pipeline apply --jsonnet edges.jsonnet --arg suffix=1 --arg src=images
  muster pipeline apply -f pipeline.yaml --dry-run -o yaml`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.files = append(o.files, o.templates...)
			if len(o.files) == 0 {
				return exit.Usage("nothing to apply: give -f FILE, or -f - for standard input")
			}
			if err := o.checkArgs(); err != nil {
				return err
			}
			if err := o.format.Validate(formats...); err != nil {
				return err
			}
			return o.run(cmd.Context())
		},
	}
	o.format = output.Flag(cmd, formats...)
	cmd.Flags().StringArrayVarP(&o.files, "filename", "f", nil, "file of pipelines, - for standard input; repeatable")
	_ = cmd.MarkFlagFilename("filename", "yaml", "yml", "json", "jsonnet")
	cmd.Flags().StringArrayVar(&o.templates, "jsonnet", nil, "Jsonnet file that evaluates to pipelines; repeatable")
	_ = cmd.MarkFlagFilename("jsonnet", "jsonnet", "libsonnet")
	cmd.Flags().StringArrayVar(&o.args, "arg", nil, "argument of the Jsonnet files, as name=value; repeatable")
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "let the server check everything and change nothing")
	return cmd
}

func (o *options) run(ctx context.Context) error {
	_, namespace, err := opening.Server(o.factory)
	if err != nil {
		return err
	}
	var all []*unstructured.Unstructured
	for _, file := range o.files {
		found, err := o.read(ctx, file)
		if err != nil {
			return err
		}
		all = append(all, found...)
	}
	if err := o.runnable(all); err != nil {
		return err
	}
	if err := o.notePrograms(ctx, all); err != nil {
		return err
	}
	if err := o.send(ctx, all); err != nil {
		return err
	}
	var trees []any
	for _, p := range all {
		if p.GetNamespace() == "" {
			p.SetNamespace(namespace)
		}
		after, word, err := o.apply(ctx, p)
		if err != nil {
			return err
		}
		trees = append(trees, after.Object)
		switch *o.format {
		case output.Human:
			note := ""
			if o.dryRun {
				note = " (dry run: nothing was changed)"
			}
			if _, err := fmt.Fprintf(o.factory.Streams.Out, "pipeline %s %s%s\n", after.GetName(), word, note); err != nil {
				return err
			}
		case output.Name:
			if _, err := fmt.Fprintln(o.factory.Streams.Out, output.Reference(v1alpha1.GroupVersion.WithKind("Pipeline").GroupKind(), after.GetName())); err != nil {
				return err
			}
		}
	}
	switch {
	case *o.format != output.YAML && *o.format != output.JSON:
		return nil
	case len(trees) == 1:
		return output.Print(o.factory.Streams.Out, *o.format, trees[0])
	}
	return output.Print(o.factory.Streams.Out, *o.format, map[string]any{"apiVersion": "v1", "kind": "List", "metadata": map[string]any{}, "items": trees})
}

// apply brings a pipeline to the server, and says what that did.
func (o *options) apply(ctx context.Context, p *unstructured.Unstructured) (after *unstructured.Unstructured, word string, err error) {
	server, err := o.factory.Dynamic()
	if err != nil {
		return nil, "", err
	}
	resource := server.Resource(v1alpha1.GroupVersion.WithResource("pipelines")).Namespace(p.GetNamespace())
	before, err := resource.Get(ctx, p.GetName(), metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, "", fmt.Errorf("reading pipeline %s: %w", p.GetName(), o.factory.Explain(err))
	}
	existed := err == nil
	patch := metav1.ApplyOptions{FieldManager: connection.FieldOwner, Force: true}
	if o.dryRun {
		patch.DryRun = []string{metav1.DryRunAll}
	}
	if after, err = resource.Apply(ctx, p.GetName(), p, patch); err != nil {
		if words := refusal.Explain("pipeline "+p.GetName(), err); !errors.Is(words, err) || words.Error() != err.Error() {
			return nil, "", exit.Usage("%s", words)
		}
		return nil, "", fmt.Errorf("applying pipeline %s: %w", p.GetName(), o.factory.Explain(err))
	}
	unstructured.RemoveNestedField(after.Object, "metadata", "managedFields")
	switch {
	case !existed:
		return after, "created", nil
	case before.GetGeneration() == after.GetGeneration() && before.GetResourceVersion() == after.GetResourceVersion():
		return after, "unchanged", nil
	}
	return after, "configured", nil
}
