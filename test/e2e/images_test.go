//go:build e2e && cluster

package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/test/cluster"
	"github.com/muster-dev/muster/test/e2e/harness"
)

// boxImage has a file that this machine does not have.
const boxImage = "muster.test/box:1"

// TestImages runs jobs in images, with a real containerd, in both tiers.
func TestImages(t *testing.T) {
	ctx := deadline(t, 8*time.Minute)
	containerd, err := cluster.StartRuntime(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := containerd.Stop(); err != nil {
			t.Error(err)
		}
	})
	box, err := cluster.Busybox(ctx)
	if err != nil {
		t.Fatal(err)
	}
	box.Name, box.Files = boxImage, append(box.Files, cluster.File{To: "/srv/only-here", Content: "only in the image\n"})
	if err := containerd.Import(ctx, "muster", box); err != nil {
		t.Fatal(err)
	}
	registry := cluster.NewRegistry()
	defer registry.Close()
	registry.User, registry.Password = "u", "p"
	if err := registry.Push("team/box:1", box); err != nil {
		t.Fatal(err)
	}
	for _, x := range tiers {
		t.Run(x.name, func(t *testing.T) {
			m := muster(t, x, "containerd: "+containerd.Socket+"\n")
			t.Run("run", func(t *testing.T) { runInImage(t, m) })
			t.Run("adopt", func(t *testing.T) { adoptImage(t, m) })
			t.Run("pull", func(t *testing.T) { pullImage(t, m, registry) })
			t.Run("absent", func(t *testing.T) { absentImage(t, m, registry) })
			t.Run("told", func(t *testing.T) { toldOfImages(t, m, containerd) })
			left := func() error {
				list, err := containerd.Ctr(ctx, "--namespace", "muster", "snapshots", "list")
				if err == nil && strings.Contains(list, "muster/") {
					err = fmt.Errorf("roots are left:\n%s", list)
				}
				return err
			}
			harness.Eventually(t, 60*time.Second, "waiting until everything was given back", left)
		})
	}
}

// runInImage: its own files, the job's code folder, logs, exit codes, exec, and
// the end in time.
func runInImage(t *testing.T, m *harness.Muster) {
	ns := m.Namespace(t)
	ctx := deadline(t, 2*time.Minute)
	dir := folder(t, map[string]string{"code.txt": "from the code folder\n"})
	r := m.RunIn(ctx, dir, "-n", ns, "run", "--name", "sees", "--image", boxImage, "--", "sh", "-c", "cat /srv/only-here code.txt; pwd; test ! -e /usr/share && echo no machine")
	expect(t, r, 0, "only in the image", "from the code folder", "/muster/code", "no machine")

	expect(t, m.RunIn(ctx, dir, "-n", ns, "run", "--name", "fails", "--image", boxImage, "--backoff-limit", "0", "--detach", "--", "sh", "-c", "echo last words; exit 9"), 0)
	waitPhase(t, m, ns, "fails", v1alpha1.JobFailed)
	if code := onlyContainer(t, m, ns, "fails").State.Terminated.ExitCode; code != 9 {
		t.Errorf("exit code %d, want 9", code)
	}
	expect(t, m.Run(ctx, "-n", ns, "logs", "fails"), 0, "last words")

	expect(t, m.Kubectl(ctx, fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: stays}, spec: {restartPolicy: Never, terminationGracePeriodSeconds: 2,
		containers: [{name: c, image: %q, command: [sh, -c, "trap '' TERM; echo $CUDA_VISIBLE_DEVICES; while true; do sleep 1; done"], resources: {limits: {nvidia.com/gpu: 1}}}]}}`, boxImage), "-n", ns, "apply", "-f", "-"), 0)
	expect(t, m.Kubectl(ctx, "", "-n", ns, "wait", "pod/stays", "--for=jsonpath={.status.phase}=Running", "--timeout=60s"), 0)
	expect(t, m.Kubectl(ctx, "", "-n", ns, "exec", "stays", "--", "cat", "/srv/only-here"), 0, "only in the image")
	start := time.Now()
	expect(t, m.Kubectl(ctx, "", "-n", ns, "delete", "pod", "stays"), 0)
	if took := time.Since(start); took < 2*time.Second || took > 15*time.Second {
		t.Errorf("it took %s to end what ignores SIGTERM and has 2 s", took)
	}
	for _, p := range harness.Processes(m.Home) {
		if strings.Contains(p.Command, "trap") {
			t.Errorf("left running: %s", p)
		}
	}
}

// onlyContainer is the status of a job's one container.
func onlyContainer(t *testing.T, m *harness.Muster, ns, job string) corev1.ContainerStatus {
	t.Helper()
	var pods corev1.PodList
	if err := m.Client.List(t.Context(), &pods, client.InNamespace(ns), client.MatchingLabels{v1alpha1.LabelJob: job}); err != nil {
		t.Fatal(err)
	}
	if len(pods.Items) != 1 || len(pods.Items[0].Status.ContainerStatuses) != 1 {
		t.Fatalf("the pods of %s are %+v", job, pods.Items)
	}
	return pods.Items[0].Status.ContainerStatuses[0]
}

// adoptImage kills Muster under a job that runs in an image: it goes on, and
// its end is seen.
func adoptImage(t *testing.T, m *harness.Muster) {
	ns := m.Namespace(t)
	ctx := deadline(t, 2*time.Minute)
	dir := folder(t, map[string]string{"a": ""})
	expect(t, m.RunIn(ctx, dir, "-n", ns, "run", "--name", "long", "--image", boxImage, "--backoff-limit", "0", "--detach", "--",
		"sh", "-c", "until test -e go; do sleep 0.1; done; cat /srv/only-here; exit 5"), 0)
	waitPhase(t, m, ns, "long", v1alpha1.JobRunning)
	before := onlyContainer(t, m, ns, "long")
	m.Kill9(t)
	if err := m.Start(ctx); err != nil {
		t.Fatal(err)
	}
	waitPhase(t, m, ns, "long", v1alpha1.JobRunning)
	if after := onlyContainer(t, m, ns, "long"); after.ContainerID != before.ContainerID || after.RestartCount != 0 {
		t.Errorf("%s became %s, restarted %d times", before.ContainerID, after.ContainerID, after.RestartCount)
	}
	expect(t, m.Kubectl(ctx, "", "-n", ns, "exec", "long-worker-0", "--", "touch", "go"), 0)
	waitPhase(t, m, ns, "long", v1alpha1.JobFailed)
	if code := onlyContainer(t, m, ns, "long").State.Terminated.ExitCode; code != 5 {
		t.Errorf("exit code %d, want 5", code)
	}
	expect(t, m.Run(ctx, "-n", ns, "logs", "long"), 0, "only in the image")
}

// pullImage pulls from a registry that asks who it is.
func pullImage(t *testing.T, m *harness.Muster, registry *cluster.Registry) {
	ns := m.Namespace(t)
	ctx := deadline(t, 2*time.Minute)
	expect(t, m.Kubectl(ctx, "", "-n", ns, "create", "secret", "docker-registry", "pull", "--docker-server", registry.Host, "--docker-username", "u", "--docker-password", "p"), 0)
	expect(t, m.Kubectl(ctx, fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {restartPolicy: Never, imagePullSecrets: [{name: pull}],
		containers: [{name: c, image: %q, command: [cat], args: [/srv/only-here]}]}}`, registry.Host+"/team/box:1"), "-n", ns, "apply", "-f", "-"), 0)
	expect(t, m.Kubectl(ctx, "", "-n", ns, "wait", "pod/p", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=60s"), 0)
	expect(t, m.Kubectl(ctx, "", "-n", ns, "logs", "p"), 0, "only in the image")
}

// absentImage: the registry's words come with the attempt that is given up.
func absentImage(t *testing.T, m *harness.Muster, registry *cluster.Registry) {
	ns := m.Namespace(t)
	ctx := deadline(t, 2*time.Minute)
	name := registry.Host + "/team/none:1"
	expect(t, m.Kubectl(ctx, fmt.Sprintf(`{apiVersion: muster.dev/v1alpha1, kind: TrainingJob, metadata: {name: absent}, spec: {startTimeout: 3s, environment: {image: %q},
		roles: [{name: worker, replicas: 2, gpus: 1, command: ['true']}]}}`, name), "-n", ns, "apply", "-f", "-"), 0)
	harness.Eventually(t, 60*time.Second, "waiting for the reason", func() error {
		said := job(t, m, ns, "absent").Status.Message
		for _, word := range []string{"did not start", "within 3s", "ErrImagePull", name, "401 Unauthorized"} {
			if !strings.Contains(said, word) {
				return fmt.Errorf("nothing says %q: %s", word, said)
			}
		}
		return nil
	})
}

// toldOfImages: `muster status` and `muster doctor` say whether images can be
// run, and a pod is told what is missing.
func toldOfImages(t *testing.T, m *harness.Muster, containerd *cluster.Runtime) {
	ns := m.Namespace(t)
	ctx := deadline(t, 2*time.Minute)
	expect(t, m.Run(ctx, "status"), 0, "through containerd v2", containerd.Socket)
	if r := m.Run(ctx, "doctor"); !strings.Contains(r.Stdout, "run through containerd v2") {
		t.Errorf("muster doctor says %s", r.Stdout)
	}
	containerd.Kill()
	defer func() {
		if err := containerd.Start(ctx); err != nil {
			t.Error(err)
		}
	}()
	if r := m.Run(ctx, "doctor"); !strings.Contains(r.Stdout, "there is no containerd at "+containerd.Socket) {
		t.Errorf("muster doctor says %s", r.Stdout)
	}
	r := m.RunIn(ctx, folder(t, map[string]string{"a": ""}), "-n", ns, "run", "--name", "refused", "--image", boxImage, "--", "true")
	expect(t, r, 1, "there is no containerd at "+containerd.Socket, "install and start it", "muster.dev/host")
	if _, err := os.Stat(containerd.Socket); err == nil {
		t.Error("containerd was not away")
	}
}
