package removal

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/muster-dev/muster/api/v1alpha1"
)

func world(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
}

func memberPod(index, gpus string, phase corev1.PodPhase) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "mnist-worker-" + index,
			Labels:      map[string]string{v1alpha1.LabelJob: "mnist", v1alpha1.LabelRole: "worker", v1alpha1.LabelIndex: index},
			Annotations: map[string]string{v1alpha1.AnnotationGPUs: gpus},
		},
		Status: corev1.PodStatus{Phase: phase},
	}
}

// Deleting is over once the last pod is gone, not when the job is.
func TestWaitUntilGone(t *testing.T) {
	job := &v1alpha1.TrainingJob{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "mnist", UID: "a"}}
	running, done := memberPod("0", "GPU-a,GPU-b", corev1.PodRunning), memberPod("1", "GPU-c", corev1.PodSucceeded)
	c := world(t, job, running, done)
	if err := Delete(t.Context(), c, job); err != nil {
		t.Fatal(err)
	}
	var seen []Left
	err := Wait(t.Context(), c, job, func(left Left) {
		seen = append(seen, left)
		switch len(seen) {
		case 1:
			_ = c.Delete(t.Context(), done)
		case 2:
			_ = c.Delete(t.Context(), running)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []Left{
		{Members: []string{"worker-0", "worker-1"}, Running: 1, GPUs: 2},
		{Members: []string{"worker-0"}, Running: 1, GPUs: 2},
		{},
	}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("seen (-want +got):\n%s", diff)
	}
}

// Of several jobs all are waited for, and how many are gone is told.
func TestWaitAll(t *testing.T) {
	job := func(name, uid string) *v1alpha1.TrainingJob {
		return &v1alpha1.TrainingJob{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(uid)}}
	}
	old, mnist, other := job("anew", "old"), job("mnist", "a"), job("other", "b")
	jobs := []*v1alpha1.TrainingJob{old, mnist, other}
	for i := range few { // so that they are not looked at one by one at once
		jobs = append(jobs, job(fmt.Sprintf("gone-%d", i), "c"))
	}
	pod := memberPod("0", "GPU-a,GPU-b", corev1.PodRunning)
	c := world(t, job("anew", "new"), mnist, other, pod)
	type state struct {
		Gone  int
		First string
		Left  Left
	}
	var seen []state
	err := WaitAll(t.Context(), c, jobs, func(gone int, first string, left Left) {
		seen = append(seen, state{gone, first, left})
		switch len(seen) {
		case 1:
			_ = c.Delete(t.Context(), mnist)
		case 2:
			_ = c.Delete(t.Context(), other)
		case 3:
			_ = c.Delete(t.Context(), pod)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	held := Left{Members: []string{"worker-0"}, Running: 1, GPUs: 2}
	with := held
	with.Object = true
	want := []state{{1 + few, "mnist", with}, {1 + few, "mnist", held}, {2 + few, "mnist", held}, {3 + few, "", Left{}}}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("seen (-want +got):\n%s", diff)
	}
}

// A job made anew under the same name is not waited for.
func TestWaitIgnoresNamesake(t *testing.T) {
	old := &v1alpha1.TrainingJob{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "mnist", UID: "old"}}
	namesake := old.DeepCopy()
	namesake.UID = "new"
	c := world(t, namesake, memberPod("0", "GPU-a", corev1.PodRunning))
	if err := Wait(t.Context(), c, old, func(Left) {}); err != nil {
		t.Fatal(err)
	}
}

func TestWaitHonoursItsContext(t *testing.T) {
	job := &v1alpha1.TrainingJob{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "mnist", UID: "a"}}
	ctx, cancel := context.WithCancel(t.Context())
	err := Wait(ctx, world(t, job), job, func(Left) { cancel() })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}
