package why

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/kind"
	"github.com/muster-dev/muster/internal/cli/suggestion"
)

// The kinds of objects that the command takes.
const (
	kindJob         = "job"
	kindPod         = "pod"
	kindGang        = "gang"
	kindPipeline    = "pipeline"
	kindRun         = "pipelinerun"
	kindDeployment  = "deployment"
	kindStatefulSet = "statefulset"
	kindReplicaSet  = "replicaset"
	kindBatchJob    = "batchjob"
)

// kinds are how a command line names these kinds, but training jobs.
var kinds = map[string]string{
	"pod": kindPod, "pods": kindPod, "po": kindPod, "gang": kindGang, "gangs": kindGang,
	"pipeline": kindPipeline, "pipelines": kindPipeline, "pipelinerun": kindRun, "pipelineruns": kindRun,
	"deployment": kindDeployment, "deployments": kindDeployment, "deploy": kindDeployment, "statefulset": kindStatefulSet, "statefulsets": kindStatefulSet, "sts": kindStatefulSet,
	"replicaset": kindReplicaSet, "replicasets": kindReplicaSet, "rs": kindReplicaSet, "job": kindBatchJob, "jobs": kindBatchJob,
}

// makers are the kinds whose pods a label selector in their spec selects.
var makers = map[string]schema.GroupVersionKind{
	kindDeployment:  {Group: "apps", Version: "v1", Kind: "Deployment"},
	kindStatefulSet: {Group: "apps", Version: "v1", Kind: "StatefulSet"},
	kindReplicaSet:  {Group: "apps", Version: "v1", Kind: "ReplicaSet"},
	kindBatchJob:    {Group: "batch", Version: "v1", Kind: "Job"},
}

// subject is an object that is asked about.
type subject struct{ kind, name string }

// String is how a command line names it.
func (s subject) String() string {
	switch s.kind {
	case kindJob:
		return s.name
	case kindBatchJob:
		return "job/" + s.name
	}
	return s.kind + "/" + s.name
}

// longestShort is the length of the longest word for which no other word is proposed.
const longestShort = 4

// parse reads the words of a command line: mnist, tfjob/mnist, pod/debug.
func parse(word string) (subject, error) {
	name := kind.Job(word)
	prefix, rest, found := strings.Cut(name, "/")
	if !found {
		return named(kindJob, name, word)
	}
	bare, _, _ := strings.Cut(strings.ToLower(prefix), ".")
	if rest == "" {
		return subject{}, exit.Usage("%s: the name after the / is missing: give it, as in muster why pod/NAME; `muster get` lists training jobs, and `muster get pods` pods", word)
	}
	if of := kinds[bare]; of != "" && !strings.Contains(rest, "/") {
		return named(of, rest, word)
	}
	near := ""
	if len(bare) > longestShort && kinds[bare] == "" { // of short words many are near
		near = suggestion.Phrase(bare, []string{kindPod, kindGang, kindPipeline, kindRun, kindDeployment, kindStatefulSet, kindReplicaSet})
	}
	return subject{}, exit.Usage("%s: this is no object that waits for GPUs: give a training job's name, pod/NAME, gang/NAME, deployment/NAME, statefulset/NAME, replicaset/NAME, job/NAME, pipeline/NAME or pipelinerun/NAME%s; `muster describe %s` shows an object of any kind and its events",
		word, near, word)
}

// named is the object of a kind and name, unless no object can have the name.
func named(kind, name, word string) (subject, error) {
	wrong := content.IsPathSegmentName(name)
	if name == "" {
		wrong = []string{"may not be empty"}
	}
	if len(wrong) > 0 {
		return subject{}, exit.Usage("%q: the name of an object %s; give a training job's name, pod/NAME or gang/NAME", word, strings.Join(wrong, " and "))
	}
	return subject{kind, name}, nil
}

// resolved has the waiting or running objects that an argument names, and a sentence that
// introduces them.
type resolved struct {
	words    string
	subjects []subject
}

// resolve finds the pods or jobs of an object that has some.
func resolve(ctx context.Context, reader client.Reader, namespace string, one subject) (resolved, error) {
	switch one.kind {
	case kindPipeline, kindRun:
		return stages(ctx, reader, namespace, one)
	case kindDeployment, kindStatefulSet, kindReplicaSet, kindBatchJob:
		return podsOf(ctx, reader, namespace, one)
	}
	return resolved{subjects: []subject{one}}, nil
}

// podsOf chooses the pod of a Deployment or the like that is to be explained: the first
// that does not run, or the first.
func podsOf(ctx context.Context, reader client.Reader, namespace string, one subject) (resolved, error) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(makers[one.kind])
	err := reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: one.name}, object)
	switch {
	case apierrors.IsNotFound(err):
		return resolved{}, exit.NotFound("there is no %s %s in namespace %s%s", object.GetKind(), one.name, namespace, instead(one))
	case err != nil:
		return resolved{}, fmt.Errorf("reading %s: %w", one, err)
	}
	selector, err := selectorOf(object)
	if err != nil {
		return resolved{}, fmt.Errorf("reading the selector of %s: %w", one, err)
	}
	var list corev1.PodList
	if err := reader.List(ctx, &list, client.InNamespace(namespace), selector); err != nil {
		return resolved{}, fmt.Errorf("listing the pods of %s: %w", one, err)
	}
	list.Items = slices.DeleteFunc(list.Items, func(p corev1.Pod) bool {
		return p.DeletionTimestamp != nil || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
	})
	if len(list.Items) == 0 {
		return resolved{}, exit.NotFound("%s has no pod that waits or runs: `muster describe %[1]s` shows why", one)
	}
	slices.SortFunc(list.Items, func(a, b corev1.Pod) int {
		if by := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); by != 0 {
			return by
		}
		return strings.Compare(a.Name, b.Name)
	})
	running := 0
	first := -1
	for i := range list.Items {
		switch {
		case runs(&list.Items[i]):
			running++
		case first < 0:
			first = i
		}
	}
	words := fmt.Sprintf("%s: %d of its %d pods run", one, running, len(list.Items))
	if first >= 0 && len(list.Items)-running > 1 {
		words += "; the first of those that do not:"
	}
	return resolved{words, []subject{{kindPod, list.Items[max(0, first)].Name}}}, nil
}

// runs reports whether a pod runs with all its containers: none waits for its next start.
func runs(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodRunning && !slices.ContainsFunc(p.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool { return c.State.Waiting != nil })
}

// instead is a hint for the name of a training job after the kind job.
func instead(one subject) string {
	if one.kind == kindBatchJob {
		return "; a training job is named without a kind: muster why " + one.name
	}
	return ""
}

func selectorOf(object *unstructured.Unstructured) (client.ListOption, error) {
	tree, _, err := unstructured.NestedMap(object.Object, "spec", "selector")
	if err != nil {
		return nil, err
	}
	written := &metav1.LabelSelector{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(tree, written); err != nil {
		return nil, err
	}
	selector, err := metav1.LabelSelectorAsSelector(written)
	if err != nil {
		return nil, err
	}
	return client.MatchingLabelsSelector{Selector: selector}, nil
}

// exists returns an error if there is no such pipeline, or no such run.
func exists(ctx context.Context, reader client.Reader, namespace string, one subject) error {
	var object client.Object = &v1alpha1.Pipeline{}
	noun, list := "pipeline", "`muster pipeline list` lists them"
	if one.kind == kindRun {
		object, noun, list = &v1alpha1.PipelineRun{}, "run of a pipeline", "`muster pipeline runs PIPELINE` lists those of a pipeline"
	}
	err := reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: one.name}, object)
	switch {
	case apierrors.IsNotFound(err):
		return exit.NotFound("there is no %s %s in namespace %s; %s", noun, one.name, namespace, list)
	case err != nil:
		return fmt.Errorf("reading %s: %w", one, err)
	}
	return nil
}

// stages finds the training jobs that compute stages of a pipeline, or of one run.
func stages(ctx context.Context, reader client.Reader, namespace string, one subject) (resolved, error) {
	label := v1alpha1.LabelPipeline
	if one.kind == kindRun {
		label = v1alpha1.LabelRun
	}
	var list v1alpha1.TrainingJobList
	if err := reader.List(ctx, &list, client.InNamespace(namespace), client.MatchingLabels{label: one.name}); err != nil {
		return resolved{}, fmt.Errorf("listing the jobs of %s: %w", one, err)
	}
	out := resolved{}
	names := map[string]bool{}
	for i := range list.Items {
		j := &list.Items[i]
		if j.Status.Phase == v1alpha1.JobSucceeded || j.Status.Phase == v1alpha1.JobFailed {
			continue
		}
		out.subjects = append(out.subjects, subject{kindJob, j.Name})
		names[j.Labels[v1alpha1.LabelStage]] = true
	}
	if len(out.subjects) == 0 {
		if err := exists(ctx, reader, namespace, one); err != nil {
			return resolved{}, err
		}
		of := one.name
		if one.kind == kindRun {
			of = "PIPELINE"
		}
		return resolved{}, exit.NotFound("%s has no stage that waits for GPUs or runs: `muster pipeline runs %s` shows the state of its runs, and `muster pipeline explain %[2]s` the datums that a run would compute, with reasons", one, of)
	}
	slices.SortFunc(out.subjects, func(a, b subject) int { return strings.Compare(a.name, b.name) })
	sorted := make([]string, 0, len(names))
	for name := range names {
		sorted = append(sorted, name)
	}
	slices.Sort(sorted)
	out.words = fmt.Sprintf("%s: these jobs compute %s", one, strings.Join(sorted, ", "))
	return out, nil
}
