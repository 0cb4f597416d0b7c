package answers_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/answers"
	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/instance"
	"github.com/muster-dev/muster/internal/visibility"
)

// secrets are words of eve that no answer to another user has. Each is in another field.
var secrets = []string{"covertjob", "covertpod", "covertarg", "covertcommand", "covertimage", "covertcode", "covertenv", "covertclaim", "covertstray", "covertnote"}

func logins(uid uint32) string { return map[uint32]string{1001: "ann", 1002: "eve"}[uid] }

func quantity(text string) *resource.Quantity {
	q := resource.MustParse(text)
	return &q
}

// template is of eve or ann: every field that a user fills in has a word in it.
func template(word string) *corev1.PodTemplateSpec {
	return &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{
		Name: "main", Image: "registry/" + word + "image", Command: []string{word + "command"}, Args: []string{word + "arg"},
		Env: []corev1.EnvVar{{Name: "SECRET", Value: word + "env"}},
	}}}}
}

// work is a job, its gang and, if it runs, its placement and pod with the GPU.
func work(namespace, name, word, queue, node, gpu string) []client.Object {
	now := metav1.NewTime(time.Now().Add(-3 * time.Hour).Truncate(time.Second))
	about := metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("uid-" + namespace + name), CreationTimestamp: now, Generation: 1, Annotations: map[string]string{
		v1alpha1.AnnotationSubmitter: "unix:" + strings.TrimPrefix(namespace, "u-"), v1alpha1.AnnotationAuthenticated: "true", "note": word + "note",
	}}
	replicas, tell := int32(1), word+"job waits for claim "+word+"claim"
	job := &v1alpha1.TrainingJob{ObjectMeta: about, Spec: v1alpha1.TrainingJobSpec{Queue: queue, Roles: []v1alpha1.Role{{Name: "worker", Replicas: &replicas, GPUs: quantity("1"), Template: template(word)}}},
		Status: v1alpha1.TrainingJobStatus{Phase: v1alpha1.JobWaiting, Message: tell}}
	gang := &v1alpha1.Gang{ObjectMeta: about, Spec: v1alpha1.GangSpec{Queue: queue, DoneWhen: []string{"worker"}, Roles: []v1alpha1.GangRole{{Name: "worker", Replicas: 1, GPUs: quantity("1"), Template: *template(word)}}},
		Status: v1alpha1.GangStatus{Phase: v1alpha1.GangPending, Message: tell}}
	gang.UID = "gang-" + gang.UID
	objects := []client.Object{job, gang}
	if gpu == "" {
		return objects
	}
	job.Status.Phase, gang.Status.Phase = v1alpha1.JobRunning, v1alpha1.GangRunning
	placement := &v1alpha1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name + "-1", UID: "placement-" + gang.UID, CreationTimestamp: now}, Spec: v1alpha1.PlacementSpec{
		Gang: name, GangUID: gang.UID, Attempt: 1, Nodes: []string{node}, Members: []v1alpha1.PlacedMember{{Role: "worker", GPUs: []string{gpu}}},
	}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name + "-worker-0", UID: types.UID("pod-" + string(gang.UID)), CreationTimestamp: now, Annotations: map[string]string{v1alpha1.AnnotationGPUs: gpu},
		Labels: map[string]string{v1alpha1.LabelJob: name, v1alpha1.LabelGang: name, v1alpha1.LabelRole: "worker", v1alpha1.LabelIndex: "0"},
	}, Spec: template(word).Spec, Status: corev1.PodStatus{Phase: corev1.PodRunning, Message: word + "note"}}
	pod.Spec.NodeName, pod.Spec.SchedulerName = node, v1alpha1.SchedulerName
	return append(objects, placement, pod)
}

// box is a machine with GPUs; on the fourth is a process of eve that is not Muster's.
func box(t testing.TB, name string, gpus int) []client.Object {
	t.Helper()
	inventory := v1alpha1.NodeInventory{HostPorts: &v1alpha1.PortRange{First: 20000, Last: 29999}, Quarantined: []string{"pod u-1002/covertstray (uid), processes [9]"}}
	for i := range gpus {
		g := v1alpha1.GPUDevice{Index: i, UUID: fmt.Sprintf("GPU-%d", i), Model: "A100", MemoryMiB: 81920}
		if i == 3 {
			g.Foreign = []v1alpha1.ForeignProcess{{PID: 77, User: "eve", Command: "covertcommand covertarg"}}
		}
		inventory.GPUs = append(inventory.GPUs, g)
	}
	text, err := json.Marshal(inventory)
	if err != nil {
		t.Fatal(err)
	}
	capacity := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4000"), corev1.ResourceMemory: resource.MustParse("64Ti"), corev1.ResourcePods: resource.MustParse("5000")}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{v1alpha1.AnnotationInventory: string(text)}}, Status: corev1.NodeStatus{
		Allocatable: capacity, Capacity: capacity, Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
	}}
	return []client.Object{node}
}

// world is what the API server of the box has.
func world(t testing.TB, objects ...client.Object) client.Client {
	t.Helper()
	scheme, err := connection.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithIndex(&corev1.Event{}, "involvedObject.uid", func(client.Object) []string { return nil }).Build()
}

// memory lists objects as the manager's cache does: copies of what it has. It reads single
// objects from a client.
type memory struct {
	client.Client
	objects map[string][]client.Object
}

func (m memory) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	o := client.ListOptions{}
	o.ApplyOptions(opts)
	var found []runtime.Object
	for _, object := range m.objects[strings.TrimSuffix(fmt.Sprintf("%T", list), "List")] {
		if o.Namespace != "" && object.GetNamespace() != o.Namespace {
			continue
		}
		if o.UnsafeDisableDeepCopy != nil && *o.UnsafeDisableDeepCopy {
			found = append(found, object)
		} else {
			found = append(found, object.DeepCopyObject())
		}
	}
	return meta.SetList(list, found)
}

func reader(b *testing.B, objects []client.Object) client.Client {
	m := memory{Client: world(b, objects...), objects: map[string][]client.Object{}}
	for _, object := range objects {
		kind := fmt.Sprintf("%T", object)
		m.objects[kind] = append(m.objects[kind], object)
	}
	return m
}

// asks are all answers that a caller of a namespace gets, by name.
func asks(a answers.Answers, namespace, job string, rule visibility.Rule) map[string]func(context.Context) (any, error) {
	plan := &v1alpha1.TrainingJob{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "soon"}, Spec: work(namespace, "soon", "own", "vision", "", "")[0].(*v1alpha1.TrainingJob).Spec}
	return map[string]func(context.Context) (any, error){
		"top":      func(ctx context.Context) (any, error) { return a.Top(ctx, rule) },
		"queues":   func(ctx context.Context) (any, error) { return a.Queues(ctx, rule) },
		"status":   func(ctx context.Context) (any, error) { return a.Status(ctx, rule) },
		"doctor":   func(ctx context.Context) (any, error) { return a.Doctor(ctx, rule) },
		"why":      func(ctx context.Context) (any, error) { return a.Why(ctx, rule, namespace, job) },
		"why gang": func(ctx context.Context) (any, error) { return a.Why(ctx, rule, namespace, "gang/"+job) },
		"plan":     func(ctx context.Context) (any, error) { return a.Plan(ctx, rule, "unix:1001", plan) },
	}
}

// TestNoAnswerTellsSecrets walks every answer for eve herself, another user, a user of a cluster
// and an administrator.
func TestNoAnswerTellsSecrets(t *testing.T) {
	objects := append(box(t, "box", 4), &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: "vision"}}, &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: "u-1002"}})
	objects = append(objects, work("u-1002", "covertjob", "covert", "vision", "box", "GPU-0")...)
	objects = append(objects, work("u-1002", "covertjob-2", "covert", "vision", "box", "GPU-1")...)
	objects = append(objects, work("u-1002", "covertjob-3", "covert", "vision", "box", "GPU-gone")...)
	objects = append(objects, work("u-1002", "covertjob-waits", "covert", "vision", "", "")...)
	objects = append(objects, work("u-1001", "waits", "own", "vision", "", "")...)
	lone := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "u-1002", Name: "covertpod", UID: "lone", Annotations: map[string]string{v1alpha1.AnnotationGPUs: "GPU-2"}},
		Spec: template("covert").Spec, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	lone.Spec.NodeName = "box"
	objects = append(objects, lone)
	api := world(t, objects...)
	for name, c := range map[string]struct {
		rule           visibility.Rule
		logins         visibility.Logins
		namespace, job string
		secret         bool
		// has are words that the answers have together.
		has []string
	}{
		"another user":     {visibility.Rule{Own: "u-1001", Login: "ann", ShowUsers: true}, logins, "u-1001", "waits", false, []string{"eve", "vision", "u-1001/waits", "held by eve since", `"name":"u-1002"`, `"login":"eve"`}},
		"of a cluster":     {visibility.Rule{Own: "u-1001"}, nil, "u-1001", "waits", false, []string{"others", "u-1001/waits"}},
		"eve herself":      {visibility.Rule{Own: "u-1002", Login: "eve", ShowUsers: true}, logins, "u-1002", "covertjob-waits", true, []string{"eve", "covertjob", "covertpod", "covertcommand"}},
		"an administrator": {visibility.Rule{Own: "u-1001", Login: "ann", Administrator: true, ShowUsers: true}, logins, "u-1001", "waits", true, []string{"eve", "covertjob", "covertpod", "covertcommand", "covertstray"}},
	} {
		t.Run(name, func(t *testing.T) {
			a := answers.New(answers.Options{Cache: api, API: api, Logins: c.logins, State: func() instance.State {
				return instance.State{Phase: instance.Ready, Settings: "/home/covertnote.yaml", Error: "covertnote"}
			}})
			var all strings.Builder
			for answer, ask := range asks(a, c.namespace, c.job, c.rule) {
				found, err := ask(t.Context())
				if err != nil {
					t.Fatalf("%s: %v", answer, err)
				}
				text, err := json.Marshal(found)
				if err != nil {
					t.Fatal(err)
				}
				all.Write(text)
				if len(text) < 20 {
					t.Errorf("%s says little: %s", answer, text)
				}
				for _, secret := range secrets {
					if !c.secret && strings.Contains(string(text), secret) {
						t.Errorf("%s tells %s: %s", answer, secret, text)
					}
				}
				if name == "of a cluster" && strings.Contains(string(text), "eve") {
					t.Errorf("%s names eve: %s", answer, text)
				}
			}
			for _, word := range c.has {
				if !strings.Contains(all.String(), word) {
					t.Errorf("no answer has %q: %s", word, all.String())
				}
			}
		})
	}
}
