package why

import (
	"context"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubeflowv1 "github.com/muster-dev/muster/api/kubeflow/v1"
	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/queue/sample"
	"github.com/muster-dev/muster/internal/cli/terminal"
	"github.com/muster-dev/muster/internal/scheduling"
)

func TestParse(t *testing.T) {
	for word, want := range map[string]string{
		"mnist": "mnist", "tfjob/mnist": "mnist", "tj/mnist": "mnist", "po/debug": "pod/debug", "pods/debug": "pod/debug", "gangs/a": "gang/a",
		"deploy/web": "deployment/web", "deployments.apps/web": "deployment/web", "job/batch": "job/batch", "pipeline/digits": "pipeline/digits", "pipelineruns/digits-1": "pipelinerun/digits-1",
	} {
		if got, err := parse(word); err != nil || got.String() != want {
			t.Errorf("%s: %s, %v; want %s", word, got, err, want)
		}
	}
	for _, word := range []string{"service/web", "node/a", "pod/a/b", "mnist/worker-0", "", "..", "pod/..", "pod/.", "gang/a%2fb", "a%"} {
		_, err := parse(word)
		if code, _ := exit.Of(err); code != exit.Misuse || !strings.Contains(err.Error(), "give a training job's name, pod/NAME") {
			t.Errorf("%s: %v", word, err)
		}
		if err != nil && strings.Contains(err.Error(), "did you mean") {
			t.Errorf("%s is near to nothing: %v", word, err)
		}
	}
	for word, says := range map[string]string{"pod/": "the name after the / is missing", "deploy/": "the name after the / is missing", "pipline/a": "did you mean pipeline?", "deploymnt/a": "did you mean deployment?"} {
		_, err := parse(word)
		if code, _ := exit.Of(err); code != exit.Misuse || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", word, err, says)
		}
	}
}

// scheduler explains lone pods and gangs, by their names.
func scheduler(known map[string]scheduling.Reason) explain {
	return func(_ context.Context, _ client.Reader, key scheduling.Key, pod bool) (scheduling.Explanation, error) {
		name := key.Name
		if pod {
			name = "pod/" + name
		}
		reason, ok := known[name]
		if !ok {
			return scheduling.Explanation{}, apierrors.NewNotFound(corev1.Resource("pods"), key.Name)
		}
		return scheduling.Explanation{Reason: reason}, nil
	}
}

func podOf(name string, edit func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"app": "web"}}, Spec: corev1.PodSpec{SchedulerName: v1alpha1.SchedulerName}}
	p.Status.Phase = corev1.PodPending
	if edit != nil {
		edit(p)
	}
	return p
}

// TestWhyOfPods: whatever waits for GPUs in Muster is explained, not training jobs alone.
func TestWhyOfPods(t *testing.T) {
	waiting := func(reason, message string) []corev1.ContainerStatus {
		return []corev1.ContainerStatus{{Name: "main", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}}
	}
	refused := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": kubeflowv1.GroupVersion.String(), "kind": kubeflowv1.KindTFJob, "metadata": map[string]any{"namespace": "default", "name": "tf"},
		"status": map[string]any{"conditions": []any{
			map[string]any{"type": "Created", "status": "True", "message": kubeflowv1.MessageClaimed},
			map[string]any{"type": "Failed", "status": "True", "reason": "TFJobFailedValidation", "message": "it cannot be run as it is written: no replicas"},
		}},
	}}
	server := sample.World(t, refused,
		&v1alpha1.TrainingJob{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "mnist"}, Status: v1alpha1.TrainingJobStatus{Phase: v1alpha1.JobRunning, Message: "all members run"}},
		&v1alpha1.TrainingJob{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "digits-1-train", Labels: map[string]string{v1alpha1.LabelPipeline: "digits", v1alpha1.LabelRun: "digits-1", v1alpha1.LabelStage: "train"}},
			Status: v1alpha1.TrainingJobStatus{Phase: v1alpha1.JobWaiting, Message: "waiting to be scheduled"}},
		&v1alpha1.Pipeline{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "quiet"}},
		&v1alpha1.Gang{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "bare"}, Status: v1alpha1.GangStatus{Phase: v1alpha1.GangPending, Reason: "Missing", Message: "Secret x is missing"}},
		&v1alpha1.Gang{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "mnist-gang", OwnerReferences: []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: "TrainingJob", Name: "mnist", Controller: new(true)}}}},
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}}},
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "empty"}, Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "none"}}}},
		podOf("debug", nil),
		podOf("runs", func(p *corev1.Pod) { p.Spec.NodeName, p.Status.Phase = "one", corev1.PodRunning }),
		podOf("crashes", func(p *corev1.Pod) {
			p.Spec.NodeName, p.Status.Phase, p.Status.ContainerStatuses = "one", corev1.PodRunning, waiting("CrashLoopBackOff", "back-off 10s")
			p.Labels = nil
		}),
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "loops"}, Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "loops"}}}},
		podOf("loops-2", func(p *corev1.Pod) {
			p.Spec.NodeName, p.Status.Phase, p.Labels = "one", corev1.PodRunning, map[string]string{"app": "loops"}
			p.Status.ContainerStatuses = waiting("CrashLoopBackOff", "back-off 10s")
		}),
		podOf("loops-1", func(p *corev1.Pod) {
			p.Spec.NodeName, p.Status.Phase, p.Labels = "one", corev1.PodRunning, map[string]string{"app": "loops"}
		}),
		podOf("pulls", func(p *corev1.Pod) {
			p.Spec.NodeName, p.Status.ContainerStatuses, p.Labels = "one", waiting("ErrImagePull", "no such image"), nil
		}),
		podOf("foreign", func(p *corev1.Pod) { p.Spec.SchedulerName, p.Labels = "volcano", nil }),
		podOf("done", func(p *corev1.Pod) { p.Spec.NodeName, p.Status.Phase, p.Labels = "one", corev1.PodSucceeded, nil }),
		podOf("mnist-worker-0", func(p *corev1.Pod) {
			p.Labels = map[string]string{v1alpha1.LabelGang: "mnist-gang", v1alpha1.LabelJob: "mnist", v1alpha1.LabelRole: "worker", v1alpha1.LabelIndex: "0"}
		}),
		podOf("bare-w-0", func(p *corev1.Pod) { p.Labels = map[string]string{v1alpha1.LabelGang: "bare"} }),
	)
	account := scheduler(map[string]scheduling.Reason{
		"pod/debug": scheduling.Paused{Words: "paused by ada"}, "pod/runs": scheduling.Placed{}, "bare": scheduling.Placed{}, "digits-1-train": scheduling.Paused{Words: "paused by ada"},
	})
	for word, want := range map[string]string{
		"pod/debug": "pod/debug Waiting: nothing new is started, because scheduling is paused", "pod/runs": "pod/runs Running: placed", "pod/crashes": "pod/crashes Running: on node one, but container main does not run: CrashLoopBackOff: back-off 10s",
		"pod/pulls": "ErrImagePull: no such image", "pod/foreign": "it waits for scheduler volcano, and Muster does not place it: for Muster, set spec.schedulerName to muster",
		"pod/done": "pod/done Succeeded: it has ended", "pod/mnist-worker-0": "mnist Running: all members run", "gang/mnist-gang": "mnist Running: all members run",
		"gang/bare": "gang/bare Pending: Secret x is missing", "pod/bare-w-0": "gang/bare Pending: Secret x is missing",
		"deployment/loops": "deployment/loops: 1 of its 2 pods run\npod/loops-2 Running: on node one, but container main does not run: CrashLoopBackOff",
		"deployment/web":   "deployment/web: 1 of its 2 pods run\npod/debug Waiting: nothing new is started, because scheduling is paused",
		"pipeline/digits":  "pipeline/digits: these jobs compute train\ndigits-1-train Waiting: nothing new is started, because scheduling is paused", "pipelinerun/digits-1": "digits-1-train Waiting: nothing new is started, because scheduling is paused",
		"tfjob/tf": "tfjob/tf Failed: it cannot be run as it is written: no replicas. Correct that", "tf": "`muster delete tfjob/tf`",
		"pod/none": "there is no pod none in namespace default", "gang/none": "there is no gang none", "deployment/none": "there is no Deployment none", "deployment/empty": "deployment/empty has no pod that waits or runs: `muster describe deployment/empty`",
		"pipeline/quiet": "`muster pipeline explain quiet`", "pipeline/none": "there is no pipeline none in namespace default; `muster pipeline list`", "pipelinerun/none": "there is no run of a pipeline none", "job/mnist": "muster why mnist",
	} {
		t.Run(word, func(t *testing.T) {
			got := told(t, server, account, word)
			if !strings.Contains(got, want) {
				t.Errorf("%q does not contain %q", got, want)
			}
		})
	}
	answer, err := ask(t.Context(), server, account, "default", subject{kindPod, "pulls"})
	if err != nil || answer.Code != v1alpha1.ReasonCannotStart {
		t.Errorf("an image that cannot be pulled: code %q, %v", answer.Code, err)
	}
}

// told returns the command's output for an argument, or its error.
func told(t *testing.T, server client.Client, account explain, word string) string {
	t.Helper()
	one, err := parse(word)
	if err != nil {
		t.Fatal(err)
	}
	found, err := resolve(t.Context(), server, "default", one)
	if err != nil {
		return err.Error()
	}
	var text strings.Builder
	if found.words != "" {
		text.WriteString(found.words + "\n")
	}
	for _, s := range found.subjects {
		answer, err := ask(t.Context(), server, account, "default", s)
		if err != nil {
			return err.Error()
		}
		if err := answer.write(&text, terminal.Coloured(false)); err != nil {
			t.Fatal(err)
		}
	}
	return text.String()
}
