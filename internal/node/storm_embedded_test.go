//go:build embedded

package node

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/muster-dev/muster/internal/controlplane"
	"github.com/muster-dev/muster/internal/controlplane/planetest"
	"github.com/muster-dev/muster/internal/node/process"
	"github.com/muster-dev/muster/internal/node/rig"
)

// TestRefusedPodsAreNoStorm: upstream's controllers make one pod of each
// workload that the node refuses, and write little more than that.
func TestRefusedPodsAreNoStorm(t *testing.T) {
	plane := planetest.Start(t)
	api, err := kubernetes.NewForConfig(plane.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	runNode(t, plane)
	before, err := api.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pods, err := api.CoreV1().Pods("default").Watch(t.Context(), metav1.ListOptions{ResourceVersion: before.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer pods.Stop()
	kinds := createRefused(t, api)
	made := lookedAtAgain(t, api, pods, len(kinds))
	for _, kind := range kinds {
		if n := len(made[kind]); n != 1 {
			t.Errorf("%d pods were made for the %s, want 1", n, kind)
		}
	}
	after, err := api.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// Each write of any object raises the version by one. Within the 10 s of this test pods that fail
	// would be created again some 400 times for each workload, with five writes or more each. The control
	// plane that just started writes up to some 200 objects of its own meanwhile.
	const most = 500
	if writes := revision(t, after.ResourceVersion) - revision(t, before.ResourceVersion); writes > most {
		t.Errorf("%d writes to the store, want at most %d", writes, most)
	} else {
		t.Logf("%d writes to the store", writes)
	}
}

// runNode runs a node of the plain tier until the test ends.
func runNode(t *testing.T, plane *controlplane.ControlPlane) {
	t.Helper()
	dir := t.TempDir()
	runtime, err := process.New(process.Options{Root: filepath.Join(dir, "pods"), Shim: rig.Shim(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(runtime.Close)
	n, err := New(Config{
		Name: nodeName, DataDir: dir, REST: plane.RESTConfig(), Runtime: runtime, HostIP: "127.0.0.1",
		Log: slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{Level: slog.LevelError})),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	select {
	case <-n.Ready():
	case <-time.After(time.Minute):
		t.Fatal("the node was not ready within a minute")
	}
}

// createRefused creates a workload of each kind whose pod the node refuses, and
// returns the kinds of the pods' controllers.
func createRefused(t *testing.T, api kubernetes.Interface) []string {
	t.Helper()
	template := func(name string, restart corev1.RestartPolicy) (corev1.PodTemplateSpec, *metav1.LabelSelector) {
		labels := map[string]string{"app": name}
		return corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec: corev1.PodSpec{
				NodeName: nodeName, RestartPolicy: restart,
				Containers: []corev1.Container{{Name: "c", Image: "nginx"}},
			},
		}, &metav1.LabelSelector{MatchLabels: labels}
	}
	meta, options := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }, metav1.CreateOptions{}
	apps := api.AppsV1()
	pod, selector := template("deployment", corev1.RestartPolicyAlways)
	_, err := apps.Deployments("default").Create(t.Context(), &appsv1.Deployment{ObjectMeta: meta("deployment"), Spec: appsv1.DeploymentSpec{Template: pod, Selector: selector}}, options)
	if err == nil {
		pod, selector = template("set", corev1.RestartPolicyAlways)
		_, err = apps.StatefulSets("default").Create(t.Context(), &appsv1.StatefulSet{ObjectMeta: meta("set"), Spec: appsv1.StatefulSetSpec{Template: pod, Selector: selector}}, options)
	}
	if err == nil {
		pod, selector = template("daemon", corev1.RestartPolicyAlways)
		_, err = apps.DaemonSets("default").Create(t.Context(), &appsv1.DaemonSet{ObjectMeta: meta("daemon"), Spec: appsv1.DaemonSetSpec{Template: pod, Selector: selector}}, options)
	}
	if err == nil {
		pod, _ = template("job", corev1.RestartPolicyNever)
		_, err = api.BatchV1().Jobs("default").Create(t.Context(), &batchv1.Job{ObjectMeta: meta("job"), Spec: batchv1.JobSpec{Template: pod}}, options)
	}
	if err != nil {
		t.Fatal(err)
	}
	return []string{"ReplicaSet", "StatefulSet", "DaemonSet", "Job"}
}

// lookedAtAgain returns the pods of each kind of controller once the node has
// looked a second time at so many of them, and all wait with the reason.
func lookedAtAgain(t *testing.T, api kubernetes.Interface, pods watch.Interface, want int) map[string]map[types.UID]bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	events, err := api.CoreV1().Events("default").Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()
	made, again, waiting := map[string]map[types.UID]bool{}, map[types.UID]bool{}, map[types.UID]bool{}
	for len(again) < want || len(waiting) < want {
		select {
		case e := <-pods.ResultChan():
			pod, ok := e.Object.(*corev1.Pod)
			if !ok {
				t.Fatalf("watching pods: %+v", e.Object)
			}
			kind := metav1.GetControllerOf(pod).Kind
			if made[kind] == nil {
				made[kind] = map[types.UID]bool{}
			}
			made[kind][pod.UID] = true
			if waitsFor(reasonUnsupported)(pod) {
				waiting[pod.UID] = true
			}
		case e := <-events.ResultChan():
			if event, ok := e.Object.(*corev1.Event); ok && event.Reason == reasonUnsupported && event.Count > 1 {
				again[event.InvolvedObject.UID] = true
			}
		case <-ctx.Done():
			t.Fatalf("after a minute the node has looked again at %d pods, and %d wait, of %d; made: %v", len(again), len(waiting), want, count(made))
		}
	}
	return made
}

func count(made map[string]map[types.UID]bool) string {
	text := ""
	for kind, pods := range made {
		text += fmt.Sprintf("%s %d ", kind, len(pods))
	}
	return text
}

func revision(t *testing.T, version string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(version, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
