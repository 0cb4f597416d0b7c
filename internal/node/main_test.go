package node

import (
	"context"
	"crypto/rand"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	metadatafake "k8s.io/client-go/metadata/fake"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/node/origin"
	"github.com/muster-dev/muster/internal/node/process"
	"github.com/muster-dev/muster/internal/node/rig"
)

// TestMain runs the tests on a machine of their own: some have pod networks.
func TestMain(m *testing.M) {
	// The fake API server panics if a watch is this many events behind.
	watch.DefaultChanSize = 10_000
	os.Exit(rig.RunAlone(m))
}

// world is a node with a fake API and a real runtime.
type world struct {
	t      testing.TB
	data   string
	id     string // makes UIDs unique: control groups are the machine's
	client *fake.Clientset
	// metadata is the API as the node sees TrainingJobs and Placements.
	metadata *metadatafake.FakeMetadataClient
	config   func(*Config)
	node     *Node
	stop     func()

	mu      sync.Mutex
	changed chan struct{} // closed when a pod or a node has changed
}

const nodeName = "here"

// newWorld starts a node. Edit changes its configuration.
func newWorld(t testing.TB, edit func(*Config), objects ...*corev1.ConfigMap) *world {
	t.Helper()
	w := &world{t: t, data: t.TempDir(), id: rand.Text()[:8], config: edit, changed: make(chan struct{})}
	w.client = fake.NewClientset(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: "cluster"}})
	for _, o := range objects {
		if _, err := w.client.CoreV1().ConfigMaps(o.Namespace).Create(t.Context(), o, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	w.metadata = metadatafake.NewSimpleMetadataClient(scheme)
	w.watch()
	w.start()
	t.Cleanup(func() {
		w.stop()
		r, err := process.New(process.Options{Root: filepath.Join(w.data, "pods"), Shim: rig.Shim(t)})
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

// watch notes when a pod or a node of the API changes, until the test ends.
func (w *world) watch() {
	w.t.Helper()
	pods, err := w.client.CoreV1().Pods(metav1.NamespaceAll).Watch(w.t.Context(), metav1.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	nodes, err := w.client.CoreV1().Nodes().Watch(w.t.Context(), metav1.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, watcher := range []watch.Interface{pods, nodes} {
		done := make(chan struct{})
		go func() {
			defer close(done)
			for range watcher.ResultChan() {
				w.mu.Lock()
				close(w.changed)
				w.changed = make(chan struct{})
				w.mu.Unlock()
			}
		}()
		w.t.Cleanup(func() { watcher.Stop(); <-done })
	}
}

// until returns once a condition on the API's pods and nodes holds.
func (w *world) until(what string, holds func() bool) {
	w.t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		w.mu.Lock()
		changed := w.changed
		w.mu.Unlock()
		if holds() {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			w.t.Fatalf("waited 20 s for %s", what)
		}
	}
}

// start runs a node over the world's folder and API.
func (w *world) start() {
	w.t.Helper()
	r, err := process.New(process.Options{Root: filepath.Join(w.data, "pods"), Shim: rig.Shim(w.t)})
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
	w.node, err = newNode(config, clients{Core: w.client, Metadata: w.metadata})
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

// member makes the pod a member of a gang.
func (b *podBuilder) member() *podBuilder { return b.ownedBy(v1alpha1.GroupVersion.String(), "Gang") }

// ownedBy gives the pod a controller.
func (b *podBuilder) ownedBy(apiVersion, kind string) *podBuilder {
	yes := true
	b.pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: "owner", UID: "owner", Controller: &yes}}
	return b
}

// of makes the pod a member of the gang of a TrainingJob, which has this code.
func (b *podBuilder) of(job, uid string) *podBuilder {
	b.member()
	b.pod.OwnerReferences[0].Name, b.pod.Labels[v1alpha1.LabelJob] = job, job
	b.pod.Spec.Volumes = []corev1.Volume{{Name: "code", VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{
		Driver: v1alpha1.CodeDriver, VolumeAttributes: map[string]string{"snapshot": "sha256:00", "job": uid},
	}}}}
	c := &b.pod.Spec.Containers[0]
	c.WorkingDir = "/muster/code"
	c.VolumeMounts = []corev1.VolumeMount{{Name: "code", MountPath: "/muster/code"}}
	return b
}

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

// createJob makes a TrainingJob.
func (w *world) createJob(namespace, name, uid string) {
	w.t.Helper()
	jobs, ok := w.metadata.Resource(origin.TrainingJobs).Namespace(namespace).(metadatafake.MetadataClient)
	if !ok {
		w.t.Fatal("the client of the test makes no objects")
	}
	if _, err := jobs.CreateFake(&metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "TrainingJob"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(uid)},
	}, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// dir is the folder of the pod that was made with a UID.
func (w *world) dir(uid string) string { return filepath.Join(w.data, "pods", w.id+"-"+uid) }

// await returns the pod once it satisfies the condition.
func (w *world) await(name, what string, condition func(*corev1.Pod) bool) *corev1.Pod {
	w.t.Helper()
	return w.awaitIn("default", name, what, condition)
}

// awaitIn is await for a pod of another namespace.
func (w *world) awaitIn(namespace, name, what string, condition func(*corev1.Pod) bool) *corev1.Pod {
	w.t.Helper()
	var pod *corev1.Pod
	defer func() {
		if w.t.Failed() && pod != nil {
			w.t.Logf("pod %s: %+v", name, pod.Status)
		}
	}()
	w.until("pod "+name+" to "+what, func() bool {
		var err error
		if pod, err = w.client.CoreV1().Pods(namespace).Get(context.Background(), name, metav1.GetOptions{}); err != nil {
			w.t.Fatalf("waiting for pod %s to %s: %v", name, what, err)
		}
		return condition(pod)
	})
	return pod
}

// awaitGone waits until the API has the pod no longer.
func (w *world) awaitGone(name string) {
	w.t.Helper()
	w.until("pod "+name+" to be gone", func() bool {
		_, err := w.client.CoreV1().Pods("default").Get(context.Background(), name, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
}

// awaitRemoved waits until nothing is left here of the pod that was made with
// a UID and is deleted.
func (w *world) awaitRemoved(uid string) {
	w.t.Helper()
	w.node.mu.Lock()
	worker := w.node.workers[types.UID(w.id+"-"+uid)]
	w.node.mu.Unlock()
	if worker != nil {
		select {
		case <-worker.done:
		case <-time.After(20 * time.Second):
			w.t.Fatalf("pod %s was not removed within 20 s", uid)
		}
	}
	if _, err := os.Stat(w.dir(uid)); !os.IsNotExist(err) {
		w.t.Errorf("the folder of pod %s is still there: %v", uid, err)
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
