//go:build cluster

package cluster_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/muster-dev/muster/test/cluster"
)

// start starts a cluster that ends with the test, and shows the end of its
// logs if the test fails.
func start(t *testing.T, options cluster.Options) *cluster.Cluster {
	t.Helper()
	options.Log = t.Logf
	c, err := cluster.Start(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(c.Tails())
		}
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func pod(name, node string, gpus int64, line ...string) *corev1.Pod {
	grace := int64(0)
	container := corev1.Container{Name: "main", Image: cluster.BusyboxImage, Command: line}
	if gpus > 0 {
		container.Resources.Limits = corev1.ResourceList{"nvidia.com/gpu": *resource.NewQuantity(gpus, resource.DecimalSI)}
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"pod": name}},
		Spec: corev1.PodSpec{
			NodeName: node, RestartPolicy: corev1.RestartPolicyNever, TerminationGracePeriodSeconds: &grace,
			Containers: []corev1.Container{container},
		},
	}
}

func create(t *testing.T, c *cluster.Cluster, pod *corev1.Pod) {
	t.Helper()
	if _, err := c.Client().CoreV1().Pods(metav1.NamespaceDefault).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// await watches a pod until it is as wanted, for a minute at most.
func await(t *testing.T, c *cluster.Cluster, name, what string, wanted func(*corev1.Pod) bool) *corev1.Pod {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	watcher, err := c.Client().CoreV1().Pods(metav1.NamespaceDefault).Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Stop()
	var last *corev1.Pod
	for event := range watcher.ResultChan() {
		if seen, ok := event.Object.(*corev1.Pod); ok && event.Type != watch.Deleted {
			if last = seen; wanted(seen) {
				return seen
			}
		}
	}
	if last == nil {
		t.Fatalf("pod %s was never seen, %s was expected", name, what)
	}
	t.Fatalf("pod %s is not %s: %s %s %+v", name, what, last.Status.Phase, last.Status.Message, last.Status.ContainerStatuses)
	return nil
}

func phase(want corev1.PodPhase) func(*corev1.Pod) bool {
	return func(pod *corev1.Pod) bool { return pod.Status.Phase == want }
}

func logs(t *testing.T, c *cluster.Cluster, name string) string {
	t.Helper()
	stream, err := c.Client().CoreV1().Pods(metav1.NamespaceDefault).GetLogs(name, &corev1.PodLogOptions{}).Stream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stream.Close() }()
	data, err := io.ReadAll(stream)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestJobRunsOnKubelet(t *testing.T) {
	c := start(t, cluster.Options{Scheduler: true, Nodes: []cluster.NodeOptions{{}}})
	three := int32(3)
	template := pod("", "", 0, "/bin/sh", "-c", `echo "member $JOB_COMPLETION_INDEX on $NODE"`)
	template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "NODE", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "spec.nodeName"}}}}
	indexed := batchv1.IndexedCompletion
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "three"},
		Spec:       batchv1.JobSpec{Parallelism: &three, Completions: &three, CompletionMode: &indexed, Template: corev1.PodTemplateSpec{Spec: template.Spec}},
	}
	if _, err := c.Client().BatchV1().Jobs(metav1.NamespaceDefault).Create(t.Context(), job, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitJob(t, c, "three")
	list, err := c.Client().CoreV1().Pods(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{LabelSelector: "job-name=three"})
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != 3 {
		t.Fatalf("the Job made %d pods, want 3", len(list.Items))
	}
	for _, member := range list.Items {
		want := "member " + member.Labels["batch.kubernetes.io/job-completion-index"] + " on node-1\n"
		if got := logs(t, c, member.Name); got != want {
			t.Errorf("logs of %s: %q, want %q", member.Name, got, want)
		}
	}
}

func awaitJob(t *testing.T, c *cluster.Cluster, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	watcher, err := c.Client().BatchV1().Jobs(metav1.NamespaceDefault).Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Stop()
	for event := range watcher.ResultChan() {
		if job, ok := event.Object.(*batchv1.Job); ok && job.Status.Succeeded == 3 {
			return
		}
	}
	pods, err := c.Client().CoreV1().Pods(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{})
	t.Fatalf("the Job did not succeed; its pods: %+v %v", pods, err)
}

func TestTwoKubeletsOneNetwork(t *testing.T) {
	c := start(t, cluster.Options{Nodes: []cluster.NodeOptions{{}, {Name: "other"}}})
	// The same host port on both: they are two machines.
	for _, node := range []string{"node-1", "other"} {
		server := pod("server-"+node, node, 0, "/bin/sh", "-c", "mkdir /www && hostname >/www/index.html && exec httpd -f -p 8080 -h /www")
		server.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 8080, HostPort: 8080}}
		create(t, c, server)
	}
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"pod": "server-other"}, Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}}},
	}
	if _, err := c.Client().CoreV1().Services(metav1.NamespaceDefault).Create(t.Context(), service, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	first := await(t, c, "server-node-1", "running", phase(corev1.PodRunning))
	second := await(t, c, "server-other", "running", phase(corev1.PodRunning))
	if first.Status.HostIP == second.Status.HostIP || first.Status.PodIP == second.Status.PodIP {
		t.Fatalf("two nodes share an address: %v, %v", first.Status, second.Status)
	}
	// A pod reaches one on the other node by its address, through the Service
	// by its name and through the host port, and the API server by the Service
	// that every cluster has; and the test itself.
	python, err := cluster.Python(t.Context(), "/usr/bin/python3")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Node("node-1").Import(t.Context(), python); err != nil {
		t.Fatal(err)
	}
	client := pod("client", "node-1", 0, "python3", "-u", "-c", askAll,
		"http://"+second.Status.PodIP+":8080", "http://web", "http://"+c.Node("other").Address+":8080", "http://"+serve(t, c))
	client.Spec.Containers[0].Image = cluster.PythonImage
	create(t, c, client)
	await(t, c, "client", "done", func(pod *corev1.Pod) bool {
		return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	})
	if got, want := logs(t, c, "client"), strings.Repeat("server-other\n", 3)+"from the test\nAPI v1.37.1\n"; got != want {
		t.Errorf("the client on the first node printed\n%s, want\n%s", got, want)
	}
}

// serve answers pods from the test's own process; it returns where.
func serve(t *testing.T, c *cluster.Cluster) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", c.HostAddress()+":0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(response http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(response, "from the test\n")
	})}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		if err := errors.Join(server.Close(), <-served); !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return listener.Addr().String()
}

// askAll asks each address until it answers, since a Service leads somewhere
// only once every party has heard of it; then the API server, as any program
// in a pod does.
const askAll = `
import json, ssl, sys, time, urllib.request
def ask(url, **options):
    deadline = time.monotonic() + 30
    while True:
        try:
            return urllib.request.urlopen(url, timeout=2, **options).read().decode()
        except OSError as error:
            if time.monotonic() > deadline:
                return f"{url}: {error}\n"
            time.sleep(0.1)
for url in sys.argv[1:]:
    print(ask(url), end="")
account = "/var/run/secrets/kubernetes.io/serviceaccount/"
request = urllib.request.Request("https://kubernetes.default.svc/version", headers={"Authorization": "Bearer " + open(account + "token").read()})
print("API", json.loads(ask(request, context=ssl.create_default_context(cafile=account + "ca.crt")))["gitVersion"])
`

func TestKubeletCountsGPUs(t *testing.T) {
	c := start(t, cluster.Options{WithoutServices: true, Nodes: []cluster.NodeOptions{{GPUs: 2, Product: "Pretend-16GB", MemoryMiB: 16384}}})
	node, err := c.Client().CoreV1().Nodes().Get(t.Context(), "node-1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if node.Labels["nvidia.com/gpu.product"] != "Pretend-16GB" || node.Labels["nvidia.com/gpu.memory"] != "16384" {
		t.Errorf("labels of the node: %v", node.Labels)
	}
	create(t, c, pod("two", "node-1", 2, "/bin/sh", "-c", "echo $NVIDIA_VISIBLE_DEVICES; exec sleep 1000"))
	await(t, c, "two", "running", phase(corev1.PodRunning))
	if got, want := logs(t, c, "two"), "GPU-node-1-0,GPU-node-1-1\n"; got != want {
		t.Errorf("a pod with two GPUs sees %q, want %q", got, want)
	}
	create(t, c, pod("third", "node-1", 1, "/bin/sh"))
	refused := await(t, c, "third", "refused", phase(corev1.PodFailed))
	if got := refused.Status.Reason; got != "UnexpectedAdmissionError" && got != "OutOfnvidia.com/gpu" {
		t.Errorf("a pod over capacity was refused for the reason %q: %s", got, refused.Status.Message)
	}
	// What was given out stays given out when the kubelet and the plugin
	// start anew, and is free again once the pod is gone.
	if err := c.Restart(t.Context(), "node-1/kubelet"); err != nil {
		t.Fatal(err)
	}
	if err := c.Client().CoreV1().Pods(metav1.NamespaceDefault).Delete(t.Context(), "two", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitTwoGPUs(t, c)
}

// awaitTwoGPUs tries until the kubelet gives out both GPUs again: it counts
// those of a deleted pod until it has cleaned up after it, and none until the
// plugin has registered with it.
func awaitTwoGPUs(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		create(t, c, pod("again", "node-1", 2, "/bin/sh", "-c", "echo $NVIDIA_VISIBLE_DEVICES"))
		ended := await(t, c, "again", "ended", func(pod *corev1.Pod) bool {
			return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
		})
		if ended.Status.Phase == corev1.PodSucceeded {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the GPUs of a deleted pod are not free: %s %s", ended.Status.Reason, ended.Status.Message)
		}
		if err := c.Client().CoreV1().Pods(metav1.NamespaceDefault).Delete(t.Context(), "again", *metav1.NewDeleteOptions(0)); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := logs(t, c, "again"), "GPU-node-1-0,GPU-node-1-1\n"; got != want {
		t.Errorf("a pod with two GPUs sees %q, want %q", got, want)
	}
}
