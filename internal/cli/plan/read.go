package plan

import (
	"io"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/alternative"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/imagecheck"
	"github.com/muster-dev/muster/internal/cli/manifest"
	"github.com/muster-dev/muster/internal/cli/refusal"
	"github.com/muster-dev/muster/internal/controller/kubeflow"
)

// read reads all training jobs and pods of a file. It skips objects of other kinds, and pods of
// other schedulers. An embedded Muster places all pods.
func read(stdin io.Reader, path string, embedded bool) ([]work, error) {
	documents, err := manifest.Read(stdin, []string{path})
	if err != nil {
		return nil, err
	}
	var works []work
	for _, d := range documents {
		if d.Object.GetName() == "" {
			d.Object.SetName(strings.TrimSuffix(d.Object.GetGenerateName(), "-"))
		}
		w, err := workOf(d)
		if err != nil {
			return nil, err
		}
		if w == nil || w.pod != nil && !placed(w.pod, embedded) {
			continue
		}
		if d.Object.GetName() == "" {
			return nil, exit.Usage("%s: metadata.name is missing", d.At)
		}
		w.images = imagecheck.Named(d.Object)
		works = append(works, *w)
	}
	if len(works) == 0 {
		for _, d := range documents {
			if kind := d.Object.GroupVersionKind(); alternative.Of(kind.GroupKind()) != "" {
				return nil, exit.Usage("%s: Muster places no %s of %s%s", d.At, kind.Kind, kind.Group, alternative.Phrase(kind.GroupKind(), nil))
			}
		}
		return nil, exit.Usage("%s holds no training job and no pod with schedulerName: muster; `muster run --dry-run -o yaml` prints a job", path)
	}
	return works, nil
}

// placed reports whether Muster places a pod.
func placed(pod *corev1.Pod, embedded bool) bool {
	switch pod.Spec.SchedulerName {
	case v1alpha1.SchedulerName:
		return true
	case "", corev1.DefaultSchedulerName:
		return embedded
	}
	return false
}

// workOf is the work that a document asks for; nil for another kind.
func workOf(d manifest.Document) (*work, error) {
	gvk := d.Object.GroupVersionKind()
	switch group := gvk.Group; {
	case gvk.GroupKind() == v1alpha1.GroupVersion.WithKind("TrainingJob").GroupKind():
		job, err := trainingJob(d.At, d.Object.Object)
		if err != nil {
			return nil, err
		}
		return &work{at: d.At, job: job}, nil
	case group == "" && gvk.Kind == "Pod":
		return podsOf(d, d.Object, 1)
	case group == "apps" && (gvk.Kind == "Deployment" || gvk.Kind == "StatefulSet" || gvk.Kind == "ReplicaSet"):
		return templates(d, "replicas")
	case group == batchv1.GroupName && gvk.Kind == "Job":
		return templates(d, "parallelism")
	}
	job, notes, err := kubeflow.Planned(d.Object)
	if err != nil {
		return nil, exit.Usage("%s: %v", d.At, err)
	}
	if job == nil {
		return nil, nil
	}
	return &work{at: d.At, job: job, foreign: d.Object, notes: notes}, nil
}

// mostPods is the largest number of pods of one object that is planned.
const mostPods = 64

// templates is the pods of an object that has a template and a number in a field.
func templates(d manifest.Document, number string) (*work, error) {
	count, found, err := unstructured.NestedInt64(d.Object.Object, "spec", number)
	if err != nil {
		return nil, exit.Usage("%s: spec.%s is no whole number", d.At, number)
	}
	if !found {
		count = 1
	}
	if count < 0 || count > mostPods {
		return nil, exit.Usage("%s: spec.%s is %d; at most %d pods of one object can be planned", d.At, number, count, mostPods)
	}
	template, _, err := unstructured.NestedMap(d.Object.Object, "spec", "template")
	if err != nil || template == nil {
		return nil, exit.Usage("%s: spec.template is missing", d.At)
	}
	pod := &unstructured.Unstructured{Object: template}
	pod.SetName(d.Object.GetName())
	pod.SetNamespace(d.Object.GetNamespace())
	return podsOf(d, pod, int(count))
}

// podsOf returns a number of equal pods.
func podsOf(d manifest.Document, object *unstructured.Unstructured, count int) (*work, error) {
	pod := &corev1.Pod{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, pod, true); err != nil {
		return nil, exit.Usage("%s: this is no pod: %s", d.At, strings.Join(strings.Fields(err.Error()), " "))
	}
	return &work{at: d.At, pod: pod, count: count, single: d.Object.GetKind() == "Pod"}, nil
}

// trainingJob reads a training job of the document at a place.
func trainingJob(at string, tree map[string]any) (*v1alpha1.TrainingJob, error) {
	type plain v1alpha1.TrainingJob // TrainingJob's own decoder ignores fields that it cannot read
	job := &plain{}
	err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(tree, job, true)
	if err == nil {
		return (*v1alpha1.TrainingJob)(job), nil
	}
	if explained := refusal.Misread("TrainingJob", at, err); explained.Error() != err.Error() {
		return nil, exit.Usage("%v", explained)
	}
	return nil, exit.Usage("%s: this is no training job: %s", at, strings.Join(strings.Fields(err.Error()), " "))
}
