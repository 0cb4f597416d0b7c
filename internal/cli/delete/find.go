package delete

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubeflowv1 "github.com/muster-dev/muster/api/kubeflow/v1"
	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/kind"
	"github.com/muster-dev/muster/internal/cli/manifest"
	"github.com/muster-dev/muster/internal/cli/member"
)

// target is objects of one kind in one namespace.
type target struct {
	kind.Wanted
	namespace string
	// absent is true where an object that does not exist is no error.
	absent bool
}

// job reports whether the objects are training jobs, or become some.
func (t target) job() bool {
	group := t.Mapping.GroupVersionKind.GroupKind()
	return group == kind.TrainingJobs || group.Group == kubeflowv1.GroupVersion.Group
}

// means reports whether the target covers an object of a kind: of exactly this one where a kind of
// Kubeflow was named.
func (t target) means(group schema.GroupKind) bool {
	named := t.Mapping.GroupVersionKind.GroupKind()
	return named == kind.TrainingJobs || named == group
}

// made reports whether the target covers a training job: any one, or one that was made of an object
// of the kind of Kubeflow that was named.
func (t target) made(job *v1alpha1.TrainingJob) bool {
	by := metav1.GetControllerOf(job)
	return t.means(kind.TrainingJobs) || by != nil && t.means(schema.FromAPIVersionAndKind(by.APIVersion, by.Kind).GroupKind())
}

type targets []target

// where returns a phrase with the namespace of all targets; empty for objects of several namespaces
// or none.
func (t targets) where(namespace string) string {
	if slices.ContainsFunc(t, func(one target) bool { return one.namespace != namespace }) {
		return ""
	}
	return " in namespace " + namespace
}

// wanted resolves the command line to targets.
func (o *options) wanted(args []string, namespace string) (targets, error) {
	mapper, err := o.factory.Mapper()
	if err != nil {
		return nil, err
	}
	if len(o.files) > 0 {
		return o.written(mapper, namespace)
	}
	parsed, err := kind.Parse(mapper, args)
	if err != nil {
		return nil, err
	}
	var out targets
	for _, one := range parsed {
		switch named := len(one.Names) > 0; {
		case named && (o.all || o.selector != ""):
			return nil, exit.Usage("names, --all and --selector do not go together: give one")
		case !named && !o.all && o.selector == "":
			return nil, exit.Usage("delete which of the %s? Give names, --all or --selector", one.Mapping.Resource.Resource)
		}
		out = append(out, targetOf(one, namespace, o.ignore))
	}
	return out, nil
}

// targetOf is objects of a kind in a namespace, or in none.
func targetOf(one kind.Wanted, namespace string, absent bool) target {
	if !one.Namespaced() {
		namespace = ""
	}
	return target{Wanted: one, namespace: namespace, absent: absent}
}

// written returns the objects of the manifests, the last first: later objects of a manifest need
// earlier ones.
func (o *options) written(mapper meta.RESTMapper, namespace string) (targets, error) {
	documents, err := manifest.Read(o.factory.Streams.In, o.files)
	if err != nil {
		return nil, err
	}
	var out targets
	for _, d := range documents {
		if err := d.Named(); err != nil {
			return nil, err
		}
		gvk := d.Object.GroupVersionKind()
		mapping, err := mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
		if meta.IsNoMatchError(err) {
			continue // without its kind there is no object either
		}
		if err != nil {
			return nil, fmt.Errorf("%s: asking the server for its kinds: %w", d.At, o.factory.Explain(err))
		}
		in := d.Object.GetNamespace()
		if in == "" {
			in = namespace
		}
		out = append(out, targetOf(kind.Wanted{Mapping: mapping, Names: []string{d.Object.GetName()}}, in, true))
	}
	slices.Reverse(out)
	return out, nil
}

// find reads all objects of the targets.
func (o *options) find(ctx context.Context, server client.Client, wanted targets) (jobs []*v1alpha1.TrainingJob, others []other, err error) {
	for _, t := range wanted {
		if t.job() {
			found, err := o.findJobs(ctx, server, t)
			if err != nil {
				return nil, nil, err
			}
			jobs = append(jobs, found...)
			continue
		}
		found, err := o.findOthers(ctx, t)
		if err != nil {
			return nil, nil, err
		}
		others = append(others, found...)
	}
	return jobs, others, nil
}

func (o *options) findJobs(ctx context.Context, server client.Client, t target) ([]*v1alpha1.TrainingJob, error) {
	if len(t.Names) == 0 {
		return o.listJobs(ctx, server, t)
	}
	var jobs []*v1alpha1.TrainingJob
	for _, name := range t.Names {
		job, err := member.Job(ctx, server, t.namespace, name)
		if err == nil && !t.made(job) {
			err = exit.NotFound("there is no %s %s in namespace %s; the training job of that name was not made from a %[1]s", t.Mapping.GroupVersionKind.Kind, name, t.namespace)
		}
		if err != nil {
			if foreign := member.Foreign(ctx, server, t.namespace, name); foreign != nil && t.means(foreign.GroupVersionKind().GroupKind()) {
				jobs = append(jobs, unmade(foreign))
				continue
			}
		}
		if code, _ := exit.Of(err); code == exit.Missing && t.absent {
			continue
		}
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, job)
	}
	return jobs, nil
}

// listJobs lists the training jobs of a namespace that the flags select; for a kind of Kubeflow,
// only those that were made of an object of it.
func (o *options) listJobs(ctx context.Context, server client.Client, t target) ([]*v1alpha1.TrainingJob, error) {
	selector, err := labels.Parse(o.selector)
	if err != nil {
		return nil, exit.Usage("--selector %s: give labels such as key=value", o.selector)
	}
	list := &v1alpha1.TrainingJobList{}
	if err := server.List(ctx, list, &client.ListOptions{Namespace: t.namespace, LabelSelector: selector}); err != nil {
		return nil, fmt.Errorf("listing the training jobs: %w", err)
	}
	var jobs []*v1alpha1.TrainingJob
	for i := range list.Items {
		if t.made(&list.Items[i]) {
			jobs = append(jobs, &list.Items[i])
		}
	}
	return jobs, nil
}

func (o *options) findOthers(ctx context.Context, t target) ([]other, error) {
	dynamic, err := o.factory.Dynamic()
	if err != nil {
		return nil, err
	}
	resource := dynamic.Resource(t.Mapping.Resource).Namespace(t.namespace)
	var found []other
	if len(t.Names) == 0 {
		list, err := resource.List(ctx, metav1.ListOptions{LabelSelector: o.selector})
		if err != nil {
			return nil, fmt.Errorf("listing the %s: %w", t.Mapping.Resource.Resource, err)
		}
		for i := range list.Items {
			found = append(found, other{resource: resource, kind: t.Mapping.GroupVersionKind.GroupKind(), name: list.Items[i].GetName(), uid: list.Items[i].GetUID()})
		}
		return found, nil
	}
	for _, name := range t.Names {
		object, err := resource.Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err) && t.absent:
			continue
		case apierrors.IsNotFound(err):
			return nil, exit.NotFound("there is no %s %s%s", t.Mapping.GroupVersionKind.Kind, name, targets{t}.where(t.namespace))
		case err != nil:
			return nil, fmt.Errorf("reading %s %s: %w", t.Mapping.GroupVersionKind.Kind, name, err)
		}
		found = append(found, other{resource: resource, kind: t.Mapping.GroupVersionKind.GroupKind(), name: name, uid: object.GetUID()})
	}
	return found, nil
}
