// Package get is the command `muster get`: lists objects of any kind, as the
// server lays their table out, training jobs where no kind is named.
package get

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/kind"
	"github.com/muster-dev/muster/internal/cli/output"
)

var formats = []output.Format{output.Wide, output.JSON, output.YAML, output.Name}

type options struct {
	factory   *connection.Factory
	format    *output.Format
	watch     bool
	all       bool
	selector  string
	noHeaders bool
	labels    bool

	namespace string
	wanted    []kind.Wanted
}

// New returns the command.
func New(f *connection.Factory) *cobra.Command {
	o := &options{factory: f}
	cmd := &cobra.Command{
		Use:     "get [KIND] [NAME...]",
		Aliases: []string{"list", "ls", "ps"},
		Short:   "List training jobs, or objects of any kind",
		Long: `Lists training jobs, or objects of any other kind that the server knows: pods,
nodes, gangs, deployments. Kinds may be written short (tj, po, no, deploy) and
several at once (pods,services). A name that is no kind is a training job's. A
TFJob or PyTorchJob that has no training job, because it was refused or waits, is
in the table of training jobs as tfjob/NAME or pytorchjob/NAME.`,
		Example: `  muster get
  muster get mnist -o yaml
  muster get pods -l muster.dev/job=mnist -w
  muster get nodes -o wide`,
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			return f.CompleteObjects(cmd.Context(), args), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.validate(); err != nil {
				return err
			}
			if err := o.complete(args); err != nil {
				return err
			}
			return o.run(cmd.Context())
		},
	}
	o.format = output.Flag(cmd, formats...)
	cmd.Flags().BoolVarP(&o.watch, "watch", "w", false, "go on and print every change")
	cmd.Flags().BoolVarP(&o.all, "all-namespaces", "A", false, "of all namespaces")
	cmd.Flags().StringVarP(&o.selector, "selector", "l", "", "only those with these labels: key=value,key!=value")
	cmd.Flags().BoolVar(&o.noHeaders, "no-headers", false, "leave the line of column names out")
	cmd.Flags().BoolVar(&o.labels, "show-labels", false, "add a column of labels")
	return cmd
}

func (o *options) validate() error {
	if err := o.format.Validate(formats...); err != nil {
		return err
	}
	if o.watch && (*o.format == output.JSON || *o.format == output.YAML) {
		return exit.Usage("-w and -o %s do not go together: a document cannot be added to; use -o name or a table", *o.format)
	}
	return nil
}

func (o *options) complete(args []string) error {
	mapper, err := o.factory.Mapper()
	if err != nil {
		return err
	}
	if o.wanted, err = kind.Parse(mapper, args); err != nil {
		return err
	}
	named := false
	for _, one := range o.wanted {
		named = named || len(one.Names) > 0
	}
	switch {
	case named && o.selector != "":
		return exit.Usage("names and --selector do not go together: give one")
	case named && o.all:
		return exit.Usage("a name is in one namespace: give -n NAMESPACE in place of -A")
	case o.watch && len(o.wanted) > 1:
		return exit.Usage("only one kind can be watched at a time")
	case o.watch && len(o.wanted[0].Names) > 1:
		return exit.Usage("only one object, or all of a kind, can be watched at a time")
	}
	if !o.all {
		o.namespace, err = o.factory.Namespace()
	}
	return err
}

func (o *options) run(ctx context.Context) error {
	switch *o.format {
	case output.JSON, output.YAML:
		return o.documents(ctx)
	}
	shown := 0
	for i, one := range o.wanted {
		tables := &tables{options: o, wanted: one, out: o.factory.Streams.Out, style: o.factory.Streams.OutStyle(), several: len(o.wanted) > 1, first: i == 0}
		if err := tables.run(ctx); err != nil {
			return err
		}
		shown += tables.rows
	}
	if shown == 0 && !o.watch {
		return o.nothing()
	}
	return nil
}

// nothing says that there is nothing to list, which is no error.
func (o *options) nothing() error {
	names := make([]string, len(o.wanted))
	for i, one := range o.wanted {
		names[i] = one.Mapping.Resource.Resource
		if one.Mapping.GroupVersionKind.GroupKind() == kind.TrainingJobs {
			names[i] = "training jobs"
		}
	}
	where := ""
	if !o.all && o.wanted[0].Namespaced() {
		where = " in namespace " + o.namespace
	}
	_, err := fmt.Fprintf(o.factory.Streams.Err, "There are no %s%s.\n", strings.Join(names, ", "), where)
	return err
}

// documents prints the objects whole, as JSON or YAML.
func (o *options) documents(ctx context.Context) error {
	dynamic, err := o.factory.Dynamic()
	if err != nil {
		return err
	}
	var items []unstructured.Unstructured
	single := false
	for _, one := range o.wanted {
		client := dynamic.Resource(one.Mapping.Resource).Namespace(o.scope(one))
		for _, name := range one.Names {
			object, err := client.Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return o.missing(ctx, one, name, err)
			}
			items = append(items, *object)
		}
		if len(one.Names) == 0 {
			list, err := client.List(ctx, metav1.ListOptions{LabelSelector: o.selector})
			if err != nil {
				return o.explain(one, "", err)
			}
			items = append(items, list.Items...)
		}
		single = len(one.Names) == 1
	}
	for i := range items {
		unstructured.RemoveNestedField(items[i].Object, "metadata", "managedFields")
	}
	if single && len(items) == 1 && len(o.wanted) == 1 {
		return output.Print(o.factory.Streams.Out, *o.format, items[0].Object)
	}
	list := map[string]any{"apiVersion": "v1", "kind": "List", "metadata": map[string]any{}}
	objects := make([]any, len(items))
	for i := range items {
		objects[i] = items[i].Object
	}
	list["items"] = objects
	return output.Print(o.factory.Streams.Out, *o.format, list)
}

// scope is the namespace to look in; "" for all, and for kinds without.
func (o *options) scope(one kind.Wanted) string {
	if !one.Namespaced() {
		return ""
	}
	return o.namespace
}

// explain makes the server's "not found" a sentence.
func (o *options) explain(one kind.Wanted, name string, err error) error {
	if apierrors.IsForbidden(err) {
		// The client of tables does not read what the server says of it.
		switch namespace := o.scope(one); {
		case namespace != "":
			return fmt.Errorf("reading %s: forbidden: you may not in namespace %q; -n names another", one.Mapping.Resource.Resource, namespace)
		case one.Namespaced():
			return fmt.Errorf("reading %s: forbidden: you may not in all namespaces; leave out --all-namespaces", one.Mapping.Resource.Resource)
		}
		return fmt.Errorf("reading %s: forbidden: you may not; ask an administrator of the cluster to do this, or to give you the right to list %[1]s", one.Mapping.Resource.Resource)
	}
	if !apierrors.IsNotFound(err) {
		return fmt.Errorf("reading %s: %w", one.Mapping.Resource.Resource, err)
	}
	what := strings.ToLower(one.Mapping.GroupVersionKind.Kind)
	if one.Mapping.GroupVersionKind.GroupKind() == kind.TrainingJobs {
		what = "training job"
	}
	if name == "" {
		return exit.NotFound("the server does not serve %s", one.Mapping.Resource.Resource)
	}
	if !one.Namespaced() {
		return exit.NotFound("there is no %s %s", what, name)
	}
	return exit.NotFound("there is no %s %s in namespace %s", what, name, o.namespace)
}
