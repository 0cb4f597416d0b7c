// Package apply is the command `muster apply`: server-side apply of manifests
// of any kind.
package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"

	kubeflowv1 "github.com/muster-dev/muster/api/kubeflow/v1"
	"github.com/muster-dev/muster/internal/cli/alternative"
	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/imagecheck"
	"github.com/muster-dev/muster/internal/cli/manifest"
	"github.com/muster-dev/muster/internal/cli/output"
	"github.com/muster-dev/muster/internal/cli/refusal"
	"github.com/muster-dev/muster/internal/cli/startup"
	"github.com/muster-dev/muster/internal/cli/terminal"
	"github.com/muster-dev/muster/internal/controller/kubeflow"
)

var formats = []output.Format{output.Name, output.YAML, output.JSON}

type options struct {
	factory *connection.Factory
	format  *output.Format
	files   []string
	dryRun  bool
	force   bool
}

// New returns the command.
func New(f *connection.Factory) *cobra.Command {
	o := &options{factory: f}
	cmd := &cobra.Command{
		Use:   "apply -f FILE",
		Short: "Create or change objects as manifests say",
		Long: `Creates the objects of a manifest, or changes those that exist to what it says.
Any kind and several documents a file; a folder stands for the .yaml, .yml and
.json files in it, - for standard input. The fields of other programs are left
alone.`,
		Example: `  muster apply -f job.yaml
  muster run --dry-run -o yaml -- python train.py | muster apply -f -`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.validate(); err != nil {
				return err
			}
			return o.run(cmd.Context())
		},
	}
	o.format = output.Flag(cmd, formats...)
	cmd.Flags().StringArrayVarP(&o.files, "filename", "f", nil, "file or folder of manifests, - for standard input; repeatable")
	_ = cmd.MarkFlagFilename("filename", "yaml", "yml", "json")
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "let the server check everything and change nothing")
	cmd.Flags().BoolVar(&o.force, "force-conflicts", false, "take over fields that another program set")
	return cmd
}

func (o *options) validate() error {
	if len(o.files) == 0 {
		return exit.Usage("nothing to apply: give -f FILE, or -f - for standard input")
	}
	return o.format.Validate(formats...)
}

func (o *options) run(ctx context.Context) error {
	documents, err := manifest.Read(o.factory.Streams.In, o.files)
	if err != nil {
		return err
	}
	for _, document := range documents {
		if err := document.Named(); err != nil {
			if strange := o.strange(document); strange != nil {
				return strange // and the name does not matter
			}
			return err
		}
	}
	client, err := o.factory.Dynamic()
	if err != nil {
		return err
	}
	machine := imagecheck.Of(o.factory)
	var applied []any
	for _, document := range documents {
		after, word, err := o.apply(ctx, client, document)
		if err != nil {
			return err
		}
		if err := o.report(after, word); err != nil {
			return err
		}
		o.foresee(machine, document)
		applied = append(applied, after.Object)
	}
	switch {
	case *o.format != output.YAML && *o.format != output.JSON:
		return nil
	case len(applied) == 1:
		return output.Print(o.factory.Streams.Out, *o.format, applied[0])
	}
	return output.Print(o.factory.Streams.Out, *o.format, map[string]any{"apiVersion": "v1", "kind": "List", "metadata": map[string]any{}, "items": applied})
}

// apply brings one document to the server, and says what that did.
func (o *options) apply(ctx context.Context, client dynamic.Interface, d manifest.Document) (after *unstructured.Unstructured, word string, err error) {
	resource, err := o.resource(client, d)
	if err != nil {
		return nil, "", err
	}
	name := d.Object.GetName()
	before, err := resource.Get(ctx, name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, "", fmt.Errorf("%s: reading %s: %w", d.At, name, o.factory.Explain(err))
	}
	existed := err == nil
	patch := metav1.ApplyOptions{FieldManager: connection.FieldOwner, Force: o.force}
	if o.dryRun {
		patch.DryRun = []string{metav1.DryRunAll}
	}
	err = o.put(ctx, d, func(ctx context.Context) (err error) {
		after, err = resource.Apply(ctx, name, d.Object, patch)
		return err
	})
	if err != nil {
		return nil, "", err
	}
	unstructured.RemoveNestedField(after.Object, "metadata", "managedFields")
	switch {
	case !existed:
		return after, "created", nil
	case before.GetResourceVersion() == after.GetResourceVersion():
		return after, "unchanged", nil
	}
	return after, "configured", nil
}

// foresee prints why an object that the server accepts cannot run: a TFJob or PyTorchJob whose own
// status alone would have the reason, or an image that this machine cannot run.
func (o *options) foresee(machine *imagecheck.Machine, d manifest.Document) {
	if manager, _, _ := unstructured.NestedString(d.Object.Object, "spec", "runPolicy", "managedBy"); manager != "" && manager != kubeflowv1.ManagedByMuster {
		return
	}
	warning := machine.Refusal(imagecheck.Named(d.Object))
	if _, _, err := kubeflow.Planned(d.Object); err != nil {
		warning = err.Error()
	}
	if warning != "" {
		streams := o.factory.Streams
		_, _ = fmt.Fprintf(streams.Err, "%s %s: %s\n", streams.ErrStyle().Paint(terminal.Yellow, "warning:"), d.At, warning)
	}
}

// put asks the server to apply a document. It asks again once a server that has just
// started accepts the document's kind.
func (o *options) put(ctx context.Context, d manifest.Document, ask func(context.Context) error) error {
	patient := func() error {
		return startup.Await(ctx, o.factory.Streams.Err, "objects of kind "+d.Object.GetKind(), startup.Within, ask)
	}
	err := patient()
	if meetsNoKind(err) { // kinds of Muster are known without asking the server
		found, failed := o.discover(d)
		switch {
		case failed != nil:
			return fmt.Errorf("%s: asking the server for its kinds: %w", d.At, o.factory.Explain(failed))
		case !found:
			return o.unknown(d)
		}
		err = patient()
	}
	if err != nil {
		return o.refused(d, err)
	}
	return nil
}

// meetsNoKind is true for the answer of a server that has nothing at a path.
func meetsNoKind(err error) bool {
	return apierrors.IsNotFound(err) && strings.Contains(err.Error(), "the server could not find the requested resource")
}

// discover asks the server anew whether it has a document's kind.
func (o *options) discover(d manifest.Document) (bool, error) {
	o.factory.Rediscover()
	client, err := o.factory.ToDiscoveryClient()
	if err != nil {
		return false, err
	}
	list, err := client.ServerResourcesForGroupVersion(d.Object.GetAPIVersion())
	if apierrors.IsNotFound(err) || errors.Is(err, memory.ErrCacheNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Kind == d.Object.GetKind() }), nil
}

// unknown is the error for a kind that the server does not have. It names the replacement, if there
// is one.
func (o *options) unknown(d manifest.Document) error {
	gvk := d.Object.GroupVersionKind()
	var served []string
	if mapper, err := o.factory.Mapper(); err == nil {
		if mappings, err := mapper.RESTMappings(gvk.GroupKind()); err == nil {
			for _, m := range mappings {
				if version := m.GroupVersionKind.Version; version != gvk.Version && !slices.Contains(served, version) {
					served = append(served, version)
				}
			}
		}
	}
	phrase := cmp.Or(alternative.Phrase(gvk.GroupKind(), served), "; `muster kubectl api-resources` lists the kinds that it knows")
	return exit.NotFound("%s: the server knows no kind %s of %s%s", d.At, gvk.Kind, gvk.GroupVersion(), phrase)
}

// strange is the error for a kind of another system that the server does not have, else nil.
func (o *options) strange(d manifest.Document) error {
	gvk := d.Object.GroupVersionKind()
	if alternative.Of(gvk.GroupKind()) == "" {
		return nil
	}
	mapper, err := o.factory.Mapper()
	if err != nil {
		return err
	}
	if _, err := mapper.RESTMapping(gvk.GroupKind(), gvk.Version); meta.IsNoMatchError(err) {
		return o.unknown(d)
	}
	return nil
}

// resource finds where the server keeps the document's kind. A kind that an
// earlier document defined is found on the second look.
func (o *options) resource(client dynamic.Interface, d manifest.Document) (dynamic.ResourceInterface, error) {
	gvk := d.Object.GroupVersionKind()
	mapper, err := o.factory.Mapper()
	if err != nil {
		return nil, err
	}
	mapping, err := mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if meta.IsNoMatchError(err) {
		o.factory.Rediscover()
		if mapper, err = o.factory.Mapper(); err != nil {
			return nil, err
		}
		mapping, err = mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	}
	if meta.IsNoMatchError(err) {
		return nil, o.unknown(d)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: asking the server for its kinds: %w", d.At, o.factory.Explain(err))
	}
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		return client.Resource(mapping.Resource), nil
	}
	namespace := d.Object.GetNamespace()
	if namespace == "" {
		if namespace, err = o.factory.Namespace(); err != nil {
			return nil, err
		}
		d.Object.SetNamespace(namespace)
	}
	return client.Resource(mapping.Resource).Namespace(namespace), nil
}

// refused makes sentences of the server's refusal.
func (o *options) refused(d manifest.Document, err error) error {
	subject := fmt.Sprintf("%s: %s %s", d.At, d.Object.GetKind(), d.Object.GetName())
	if refusal.NoNamespace(err) {
		return exit.NotFound("%s: there is no namespace %s: `muster kubectl create namespace %s` makes it", subject, d.Object.GetNamespace(), d.Object.GetNamespace())
	}
	if apierrors.IsConflict(err) {
		return fmt.Errorf("%s: another program set some of these fields (%w); --force-conflicts takes them over", subject, err)
	}
	if explained := refusal.Explain(subject, err); explained.Error() != err.Error() {
		return explained
	}
	return fmt.Errorf("%s: %w", subject, o.factory.Explain(err))
}

// report prints one line about a document.
func (o *options) report(after *unstructured.Unstructured, word string) error {
	reference := output.Reference(after.GroupVersionKind().GroupKind(), after.GetName())
	streams := o.factory.Streams
	switch *o.format {
	case output.Human:
	case output.Name:
		_, err := fmt.Fprintln(streams.Out, reference)
		return err
	default:
		return nil
	}
	colour := terminal.Green
	if word == "unchanged" {
		colour = terminal.Dim
	}
	note := ""
	if o.dryRun {
		note = " (dry run: nothing was changed)"
	}
	_, err := fmt.Fprintf(streams.Out, "%s %s%s\n", reference, streams.OutStyle().Paint(colour, word), note)
	return err
}
