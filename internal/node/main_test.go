package node

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	metadatafake "k8s.io/client-go/metadata/fake"

	"github.com/muster-dev/muster/internal/node/process"
)

// shimBinary is built once for all tests.
var shimBinary string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "shim")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	shimBinary = filepath.Join(dir, "muster-shim")
	build := exec.Command("go", "build", "-trimpath", "-o", shimBinary, "github.com/muster-dev/muster/cmd/muster-shim")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building the shim: %v\n%s", err, out)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// world is a node with a fake API and a real runtime.
type world struct {
	t      testing.TB
	data   string
	id     string // makes UIDs unique: control groups are the machine's
	client *fake.Clientset
	config func(*Config)
	node   *Node
	stop   func()
}

const nodeName = "here"

// newWorld starts a node. Edit changes its configuration.
func newWorld(t testing.TB, edit func(*Config), objects ...*corev1.ConfigMap) *world {
	t.Helper()
	w := &world{t: t, data: t.TempDir(), id: rand.Text()[:8], config: edit}
	w.client = fake.NewClientset(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: "cluster"}})
	for _, o := range objects {
		if _, err := w.client.CoreV1().ConfigMaps(o.Namespace).Create(t.Context(), o, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	w.start()
	t.Cleanup(func() {
		w.stop()
		r, err := process.New(process.Options{Root: filepath.Join(w.data, "pods"), Shim: shimBinary})
		if err != nil {
			t.Error(err)
			return
		}
		defer r.Close()
		left, err := r.Adopt(context.Background())
		if err != nil {
			t.Error(err)
		}
		for _, p := range left {
			if err := p.Kill(context.Background()); err != nil {
				t.Error(err)
			}
		}
	})
	return w
}

// start runs a node over the world's folder and API.
func (w *world) start() {
	w.t.Helper()
	r, err := process.New(process.Options{Root: filepath.Join(w.data, "pods"), Shim: shimBinary})
	if err != nil {
		w.t.Fatal(err)
	}
	config := Config{
		Name: nodeName, DataDir: w.data, Runtime: r, HostIP: "192.0.2.7",
		Log: slog.New(slog.NewTextHandler(testWriter{w.t}, nil)),
	}
	if w.config != nil {
		w.config(&config)
	}
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		w.t.Fatal(err)
	}
	w.node, err = newNode(config, clients{Core: w.client, Metadata: metadatafake.NewSimpleMetadataClient(scheme)})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := w.node.Run(ctx); err != nil {
			w.t.Errorf("running the node: %v", err)
		}
	}()
	w.stop = func() {
		cancel()
		<-done
		r.Close()
		w.stop = func() {}
	}
	select {
	case <-w.node.Ready():
	case <-time.After(20 * time.Second):
		w.t.Fatal("the node was not ready after 20 s")
	}
}

type testWriter struct{ t testing.TB }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Log(strings.TrimSpace(string(p)))
	return len(p), nil
}

// podBuilder makes pods.
type podBuilder struct{ pod corev1.Pod }

// newPod is a pod with one container that runs a shell script.
func newPod(name, script string) *podBuilder {
	return &podBuilder{pod: corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name), Annotations: map[string]string{}, Labels: map[string]string{}},
		Spec: corev1.PodSpec{
			NodeName: nodeName, RestartPolicy: corev1.RestartPolicyNever,
			Containers: []corev1.Container{container("main", script)},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}}
}

func container(name, script string) corev1.Container {
	return corev1.Container{Name: name, Image: "muster.dev/host", Command: []string{"/bin/sh", "-c", script}}
}

// with changes the pod.
func (b *podBuilder) with(f func(*corev1.Pod)) *podBuilder { f(&b.pod); return b }

func (b *podBuilder) restart(p corev1.RestartPolicy) *podBuilder {
	b.pod.Spec.RestartPolicy = p
	return b
}

func (w *world) create(b *podBuilder) *corev1.Pod {
	w.t.Helper()
	b.pod.UID = types.UID(w.id + "-" + string(b.pod.UID))
	pod, err := w.client.CoreV1().Pods(b.pod.Namespace).Create(context.Background(), &b.pod, metav1.CreateOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return pod
}

// dir is the folder of the pod that was made with a UID.
func (w *world) dir(uid string) string { return filepath.Join(w.data, "pods", w.id+"-"+uid) }

// await returns the pod once it satisfies the condition.
func (w *world) await(name, what string, condition func(*corev1.Pod) bool) *corev1.Pod {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for {
		pod, err := w.client.CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			w.t.Fatalf("waiting for pod %s to %s: %v", name, what, err)
		}
		if condition(pod) {
			return pod
		}
		select {
		case <-ctx.Done():
			w.t.Fatalf("pod %s did not %s within 20 s: %+v", name, what, pod.Status)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// awaitGone waits until the API has the pod no longer.
func (w *world) awaitGone(name string) {
	w.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		_, err := w.client.CoreV1().Pods("default").Get(context.Background(), name, metav1.GetOptions{})
		if err != nil {
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("pod %s was there after 20 s", name)
		}
	}
}

// terminate does what the API server does with a graceful deletion.
func (w *world) terminate(name string, grace int64) {
	w.t.Helper()
	pods := w.client.CoreV1().Pods("default")
	pod, err := pods.Get(context.Background(), name, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	now := metav1.Now()
	pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &now, &grace
	if _, err := pods.Update(context.Background(), pod, metav1.UpdateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

func inPhase(phase corev1.PodPhase) func(*corev1.Pod) bool {
	return func(p *corev1.Pod) bool { return p.Status.Phase == phase }
}

func ended(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}
