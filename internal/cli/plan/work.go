package plan

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/refusal"
	"github.com/muster-dev/muster/internal/controller/trainingjob"
)

// work is one object of a file: a training job, or a number of equal pods.
type work struct {
	// at is its place in the file.
	at  string
	job *v1alpha1.TrainingJob
	// foreign is the TFJob or PyTorchJob that the job was made of, and notes are its
	// fields without effect.
	foreign *unstructured.Unstructured
	notes   []string

	pod    *corev1.Pod
	count  int
	single bool

	// images are those that it runs, and refused is the message for one that the machine cannot run;
	// empty: it can run all.
	images  []string
	refused string
}

// podPrefix begins a pod's name in an [Answer].
const podPrefix = "pod/"

// check makes a dry run, in which the server sets defaults and returns its refusals. Work of that
// name may exist: the plan is then for the changed work.
func (w *work) check(ctx context.Context, server client.Client, namespace string) error {
	if w.pod != nil {
		return w.checkPod(ctx, server, namespace)
	}
	if w.job.Namespace == "" {
		w.job.Namespace = namespace
	}
	if w.foreign != nil {
		if err := w.checkForeign(ctx, server); err != nil {
			return err
		}
	}
	checked := w.job.DeepCopy()
	switch err := server.Create(ctx, checked, client.DryRunAll); {
	case apierrors.IsAlreadyExists(err):
	case err != nil:
		return refusal.Explain(w.job.Name, err)
	default:
		w.job = checked
	}
	return nil
}

// checkForeign makes the server check the TFJob or PyTorchJob.
func (w *work) checkForeign(ctx context.Context, server client.Client) error {
	checked := w.foreign.DeepCopy()
	checked.SetNamespace(w.job.Namespace)
	err := server.Create(ctx, checked, client.DryRunAll)
	switch {
	case meta.IsNoMatchError(err):
		return exit.NotFound("%s: the server knows no kind %s of %s", w.at, checked.GetKind(), checked.GetAPIVersion())
	case err != nil && !apierrors.IsAlreadyExists(err):
		return refusal.Explain(w.job.Name, err)
	}
	return nil
}

// checkPod makes the server check and complete a pod. It uses another name: a Deployment's pods may
// exist already.
func (w *work) checkPod(ctx context.Context, server client.Client, namespace string) error {
	if w.pod.Namespace == "" {
		w.pod.Namespace = namespace
	}
	checked := w.pod.DeepCopy()
	checked.Name, checked.GenerateName = "", "plan-"
	if err := server.Create(ctx, checked, client.DryRunAll); err != nil {
		return refusal.Explain(w.pod.Name, err)
	}
	checked.Name, checked.GenerateName = w.pod.Name, ""
	w.pod = checked
	return nil
}

// unit is a unit of decisions of the scheduler: a gang or a pod.
type unit struct {
	name string
	uid  types.UID
	// refused is the reason why the machine would not run it; empty: it would.
	refused string
}

// joined adds gangs and pods that do not exist yet; a gang replaces one of its name.
type joined struct {
	client.Reader
	gangs []v1alpha1.Gang
	pods  []corev1.Pod
}

// add adds work with a creation time, and returns its units.
func (j *joined) add(w *work, created metav1.Time) ([]unit, error) {
	if w.pod != nil {
		return j.addPods(w, created), nil
	}
	gang, problem := trainingjob.Planned(w.job)
	if problem != "" {
		return nil, exit.Usage("%s would fail: %s", w.job.Name, problem)
	}
	gang.UID, gang.CreationTimestamp = types.UID(fmt.Sprintf("planned-%d", len(j.gangs))), created
	j.gangs = append(j.gangs, *gang)
	return []unit{{name: w.job.Name, uid: gang.UID}}, nil
}

func (j *joined) addPods(w *work, created metav1.Time) []unit {
	var units []unit
	for i := range w.count {
		pod := w.pod.DeepCopy()
		if !w.single {
			pod.Name = fmt.Sprintf("%s-%d", pod.Name, i)
		}
		pod.UID, pod.CreationTimestamp = types.UID(fmt.Sprintf("planned-pod-%d", len(j.pods))), created
		pod.Spec.NodeName, pod.Status = "", corev1.PodStatus{Phase: corev1.PodPending}
		j.pods = append(j.pods, *pod)
		units = append(units, unit{name: podPrefix + pod.Name, uid: pod.UID})
	}
	return units
}

// List implements [client.Reader].
func (j *joined) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if err := j.Reader.List(ctx, list, opts...); err != nil {
		return err
	}
	switch list := list.(type) {
	case *v1alpha1.GangList:
		list.Items = slices.DeleteFunc(list.Items, func(g v1alpha1.Gang) bool {
			waits := g.Status.Phase == "" || g.Status.Phase == v1alpha1.GangPending
			return waits && slices.ContainsFunc(j.gangs, func(p v1alpha1.Gang) bool { return p.Namespace == g.Namespace && p.Name == g.Name })
		})
		list.Items = append(list.Items, j.gangs...)
	case *corev1.PodList:
		list.Items = slices.DeleteFunc(list.Items, func(p corev1.Pod) bool {
			return p.Spec.NodeName == "" && slices.ContainsFunc(j.pods, func(planned corev1.Pod) bool { return planned.Namespace == p.Namespace && planned.Name == p.Name })
		})
		list.Items = append(list.Items, j.pods...)
	}
	return nil
}
