package gang

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/memberpod"
)

// reservedKeys are the labels that Muster, policies and networks select its pods with.
var reservedKeys = []string{
	v1alpha1.LabelGang, v1alpha1.LabelJob, v1alpha1.LabelRole, v1alpha1.LabelIndex, v1alpha1.LabelAttempt, v1alpha1.LabelGuarded,
	v1alpha1.LabelBuild, v1alpha1.LabelPlaceholder, v1alpha1.LabelPipeline, v1alpha1.LabelRun, v1alpha1.LabelStage, v1alpha1.LabelOwned,
	"muster.dev/whatever", "a.muster.dev/whatever",
}

// TestLabelsOfUsers makes a pod whose gang has Muster's own labels in each place where a
// user can write some: the pod has the same labels as without them, and the user's others.
func TestLabelsOfUsers(t *testing.T) {
	made := func(change func(r *v1alpha1.GangRole)) map[string]string {
		g, p := testGang(), testPlacement()
		change(&g.Spec.Roles[1])
		pod, err := memberpod.New(g, p, p.Spec.Members[1], v1alpha1.ResourceGPU, told(t, table(g, membersOf(p), func(string) *corev1.Node { return nil })))
		if err != nil {
			t.Fatal(err)
		}
		return pod.Labels
	}
	want := made(func(*v1alpha1.GangRole) {})
	for _, key := range reservedKeys {
		for where, change := range map[string]func(*v1alpha1.GangRole){
			"firstLabels": func(r *v1alpha1.GangRole) {
				r.FirstLabels = map[string]string{key: "other", "example.com/part": "leader"}
			},
			"indexLabels": func(r *v1alpha1.GangRole) {
				r.IndexLabels, r.FirstLabels = []string{key}, map[string]string{"example.com/part": "leader"}
			},
			"template": func(r *v1alpha1.GangRole) {
				r.Template.Labels = map[string]string{key: "other", "example.com/part": "leader"}
			},
		} {
			got := made(change)
			if got["example.com/part"] != "leader" {
				t.Errorf("%s %s: the user's own label is gone: %v", where, key, got)
			}
			for _, other := range reservedKeys {
				if got[other] != want[other] {
					t.Errorf("%s %s: the label %s is %q, want %q", where, key, other, got[other], want[other])
				}
			}
		}
	}
}

// TestRelabelledPods suspends a gang whose pods were given the label of another gang, while
// no kubelet lets them go: nothing is given back before they are gone, and the controller
// asks the API server less and less often.
func TestRelabelledPods(t *testing.T) {
	for name, blind := range map[string]bool{"the cache shows them": false, "the cache does not": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, fault{})
			w.must(w.api.Create(t.Context(), testGang()))
			w.phase(v1alpha1.GangRunning)
			for _, p := range w.pods(t.Context()) {
				p.Labels[v1alpha1.LabelGang] = "other"
				w.must(w.api.Update(t.Context(), &p))
				w.stuck[p.Name] = true
			}
			w.change(func(g *v1alpha1.Gang) { g.Spec.Suspend = true })
			w.blind = blind
			for range 20 {
				w.round()
			}
			if len(w.placements(t.Context())) != 1 {
				t.Fatal("the GPUs of pods that run were given back")
			}
			if blind {
				w.delays(lastRetry)
			} else {
				// As where a node does not answer: an event tells when they are gone.
				result, err := w.ctl.Reconcile(t.Context(), ctrl.Request{NamespacedName: w.key})
				if err != nil || result.RequeueAfter != 0 {
					t.Errorf("the gang is looked at again after %s, %v", result.RequeueAfter, err)
				}
			}
			w.blind, w.stuck = false, map[string]bool{}
			w.until("everything is given back", func() bool { return len(w.placements(t.Context())) == 0 })
		})
	}
}

// delays asserts that the gang is looked at again after ever longer delays, up to a limit.
func (w *world) delays(limit time.Duration) {
	w.t.Helper()
	var before time.Duration
	for range 30 {
		result, err := w.ctl.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: w.key})
		w.must(err)
		if result.RequeueAfter < before || result.RequeueAfter > limit {
			w.t.Fatalf("after a delay of %s one of %s", before, result.RequeueAfter)
		}
		before = result.RequeueAfter
	}
	if before != limit {
		w.t.Fatalf("after 30 looks the delay is %s, want %s", before, limit)
	}
}

// TestOfWhichGang finds the gang of objects whose labels say otherwise.
func TestOfWhichGang(t *testing.T) {
	owner := *metav1.NewControllerRef(testGang(), v1alpha1.GroupVersion.WithKind("Gang"))
	foreign := owner
	foreign.APIVersion = "example.com/v1"
	labels := map[string]string{v1alpha1.LabelGang: "other"}
	for name, c := range map[string]struct {
		object client.Object
		want   string
	}{
		"a pod":                      {&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: labels, OwnerReferences: []metav1.OwnerReference{owner}}}, "resnet"},
		"a pod of nobody":            {&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: labels}}, ""},
		"a pod of another Gang kind": {&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: labels, OwnerReferences: []metav1.OwnerReference{foreign}}}, ""},
		"a placement":                {&v1alpha1.Placement{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: v1alpha1.PlacementSpec{Gang: "resnet"}}, "resnet"},
	} {
		if got := gangOf(c.object); got != c.want {
			t.Errorf("%s: gang %q, want %q", name, got, c.want)
		}
	}
}

// TestVisibleGPUs has images and users ask NVIDIA's container runtime for all GPUs: the
// container that was given some sees what its node says, and the others see none.
func TestVisibleGPUs(t *testing.T) {
	all := []corev1.EnvVar{{Name: "NVIDIA_VISIBLE_DEVICES", Value: "all"}}
	for member, want := range map[int][]string{0: {"void", "void", "void"}, 1: {"", "void", "void"}} {
		g, p := testGang(), testPlacement()
		for i := range g.Spec.Roles {
			s := &g.Spec.Roles[i].Template.Spec
			s.Containers = append(s.Containers, corev1.Container{Name: "beside"})
			s.InitContainers = []corev1.Container{{Name: "before"}}
			for _, c := range []*corev1.Container{&s.Containers[0], &s.Containers[1], &s.InitContainers[0]} {
				c.Env = all
			}
		}
		pod, err := memberpod.New(g, p, p.Spec.Members[member], v1alpha1.ResourceGPU, told(t, table(g, membersOf(p), func(string) *corev1.Node { return nil })))
		if err != nil {
			t.Fatal(err)
		}
		for i, c := range append(pod.Spec.Containers, pod.Spec.InitContainers...) {
			got := ""
			for _, v := range c.Env {
				if v.Name == "NVIDIA_VISIBLE_DEVICES" {
					got += v.Value
				}
			}
			if got != want[i] {
				t.Errorf("member %d, container %s sees %q, want %q", member, c.Name, got, want[i])
			}
		}
	}
}
