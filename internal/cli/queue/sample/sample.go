// Package sample makes a small world of queues, work and a node, for the tests
// of the verbs.
package sample

import (
	"bytes"
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/terminal"
)

// Streams are streams without colour, and what is written to them.
func Streams() (streams terminal.Streams, out, errs *bytes.Buffer) {
	out, errs = &bytes.Buffer{}, &bytes.Buffer{}
	return terminal.Streams{In: &bytes.Buffer{}, Out: out, Err: errs, NoColor: true}, out, errs
}

// World is a fake server with these objects.
func World(t testing.TB, objects ...client.Object) client.WithWatch {
	t.Helper()
	scheme, err := connection.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
}

// Queue is a queue below parent with this guarantee of GPUs; edit may be nil.
func Queue(name, parent, gpus string, edit func(*v1alpha1.QueueSpec)) *v1alpha1.Queue {
	q := &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name)}, Spec: v1alpha1.QueueSpec{Parent: parent}}
	if gpus != "" {
		q.Spec.Guaranteed = v1alpha1.ResourceAmounts{"gpu": resource.MustParse(gpus)}
	}
	if edit != nil {
		edit(&q.Spec)
	}
	return q
}

// Team is a world with the queues vision (4 GPUs; at most 6), ocr and maps
// below it and batch (2 GPUs), a node with 8 A100, and work: scan holds 3 in
// ocr, sweep 4 in default, and more waits in maps.
func Team(t testing.TB) client.WithWatch {
	t.Helper()
	objects := []client.Object{
		Box(),
		Queue("vision", "", "4", func(s *v1alpha1.QueueSpec) {
			s.Limit = v1alpha1.ResourceAmounts{"gpu": resource.MustParse("6")}
		}),
		Queue("ocr", "vision", "1", nil), Queue("maps", "vision", "2", nil),
		Queue("batch", "", "2", func(s *v1alpha1.QueueSpec) { s.Stopped = true }),
	}
	for _, more := range [][]client.Object{
		Work("scan", "ocr", "ada@box", 0, 3, v1alpha1.GangRunning), Work("sweep", "", "bob", 3, 4, v1alpha1.GangRunning),
		Work("tiles", "maps", "ada@lab", 0, 2, v1alpha1.GangPending), Work("old", "maps", "eve", 0, 2, v1alpha1.GangSucceeded),
	} {
		objects = append(objects, more...)
	}
	return World(t, objects...)
}

// Box is a node with 8 A100.
func Box() *corev1.Node {
	var inventory v1alpha1.NodeInventory
	for i := range 8 {
		inventory.GPUs = append(inventory.GPUs, v1alpha1.GPUDevice{Index: i, UUID: string(rune('a' + i)), Model: "A100"})
	}
	text, _ := json.Marshal(inventory)
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "box", Annotations: map[string]string{v1alpha1.AnnotationInventory: string(text)}},
		Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("512Gi"),
		}},
	}
}

// Work is a gang of so many members with a GPU each, and what else there is of
// it; what it holds begins with the first-th GPU.
func Work(name, queue, user string, first, members int32, phase v1alpha1.GangPhase) []client.Object {
	meta := metav1.ObjectMeta{Namespace: "default", Name: name, Annotations: map[string]string{v1alpha1.AnnotationSubmitter: user}}
	one := resource.MustParse("1")
	gang := &v1alpha1.Gang{ObjectMeta: *meta.DeepCopy(), Spec: v1alpha1.GangSpec{Queue: queue, DoneWhen: []string{"worker"}, Roles: []v1alpha1.GangRole{{
		Name: "worker", Replicas: members, GPUs: &one,
		Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("8Gi")},
		}}}}},
	}}}, Status: v1alpha1.GangStatus{Phase: phase}}
	gang.UID = types.UID("uid-" + name)
	job := &v1alpha1.TrainingJob{ObjectMeta: *meta.DeepCopy(), Spec: v1alpha1.TrainingJobSpec{Queue: queue, Roles: []v1alpha1.Role{{Name: "worker", Script: "train.py"}}}}
	if phase == v1alpha1.GangPending {
		return []client.Object{job, gang}
	}
	placement := &v1alpha1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name + "-1"}, Spec: v1alpha1.PlacementSpec{
		Gang: name, GangUID: gang.UID, Attempt: 1, Nodes: []string{"box"},
	}}
	for i := range members {
		placement.Spec.Add(v1alpha1.PlacedMember{Role: "worker", Index: i, GPUs: []string{string('a' + first + i)}})
	}
	return []client.Object{job, gang, placement}
}
