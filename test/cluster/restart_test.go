//go:build cluster

package cluster_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/test/cluster"
)

func TestContainersOutliveWhatIsKilled(t *testing.T) {
	c := start(t, cluster.Options{
		Nodes: []cluster.NodeOptions{{}, {}},
		Args:  map[string][]string{"kube-controller-manager": {"--node-monitor-grace-period=8s", "--node-monitor-period=1s"}},
	})
	create(t, c, pod("long", "node-1", 0, "/bin/sh", "-c", "exec sleep 1000"))
	before := await(t, c, "long", "running", phase(corev1.PodRunning))
	for _, name := range []string{"node-1/kubelet", "node-1/containerd", "etcd", "kube-apiserver", "kube-controller-manager"} {
		if err := c.Kill(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		if c.Runs(name) {
			t.Fatalf("%s runs although it was killed", name)
		}
		if err := c.Restart(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	// The kubelet, the runtime and the API work together again.
	create(t, c, pod("later", "node-1", 0, "/bin/sh", "-c", "echo later"))
	await(t, c, "later", "done", phase(corev1.PodSucceeded))
	if got := logs(t, c, "later"); got != "later\n" {
		t.Errorf("a pod after the restarts printed %q", got)
	}
	after := await(t, c, "long", "running", phase(corev1.PodRunning))
	if was, is := before.Status.ContainerStatuses[0], after.Status.ContainerStatuses[0]; was.ContainerID != is.ContainerID || is.RestartCount != 0 {
		t.Errorf("the container was replaced: %s, now %s after %d restarts", was.ContainerID, is.ContainerID, is.RestartCount)
	}
	if err := c.Kill(t.Context(), "nothing"); err == nil || !strings.Contains(err.Error(), "node-1/kubelet") {
		t.Errorf("a program that does not exist was killed, or the error names none that does: %v", err)
	}
	vanish(t, c)
}

// vanish pulls the plug of the first node: what ran there is gone, and the
// control plane notices that nobody renews its lease.
func vanish(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	there := descendants(t, os.Getpid())
	if err := c.Node("node-1").Vanish(); err != nil {
		t.Fatal(err)
	}
	for _, process := range living(there) {
		if process.command == "sleep" {
			t.Error("a container outlives its node")
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	watcher, err := c.Client().CoreV1().Nodes().Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Stop()
	for event := range watcher.ResultChan() {
		node, ok := event.Object.(*corev1.Node)
		if !ok {
			continue
		}
		for _, condition := range node.Status.Conditions {
			if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionUnknown {
				if node.Name != "node-1" {
					t.Errorf("%s is unknown, and node-1 vanished", node.Name)
				}
				return
			}
		}
	}
	t.Fatal("nobody noticed within a minute that a node vanished")
}

func TestImageOfVirtualEnvironment(t *testing.T) {
	environment := filepath.Join(t.TempDir(), "environment")
	if output, err := exec.CommandContext(t.Context(), "python3", "-m", "venv", "--without-pip", environment).CombinedOutput(); err != nil {
		t.Fatalf("making a virtual environment: %v\n%s", err, output)
	}
	packages, err := filepath.Glob(environment + "/lib/python3*/site-packages")
	if err != nil || len(packages) != 1 {
		t.Fatalf("looking for the folder of packages: %v, %v", packages, err)
	}
	if err := os.WriteFile(packages[0]+"/brought.py", []byte("word = 'along'\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	image, err := cluster.Python(t.Context(), environment+"/bin/python3")
	if err != nil {
		t.Fatal(err)
	}
	c := start(t, cluster.Options{WithoutServices: true, Nodes: []cluster.NodeOptions{{Images: []cluster.Image{image}}}})
	python := pod("python", "node-1", 0, "python3", "-c", "import brought, ctypes, hashlib, socket; print(brought.word)")
	python.Spec.Containers[0].Image = cluster.PythonImage
	create(t, c, python)
	await(t, c, "python", "done", func(pod *corev1.Pod) bool {
		return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	})
	if got := logs(t, c, "python"); got != "along\n" {
		t.Errorf("Python in a pod printed %q", got)
	}
}
