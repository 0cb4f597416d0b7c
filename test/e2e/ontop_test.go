//go:build e2e && cluster

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/test/cluster"
	"github.com/muster-dev/muster/test/e2e/harness"
)

// pythonImage has a Python, and the wheels of a package.
const pythonImage = "muster.test/ontop:1"

// onTop is a pipeline whose programs import what is in the image, and a package on top
// of it: workers, and the member of a job.
const onTop = `metadata: {name: packed}
spec:
  environment: {image: %q, requirements: %q}
  stages:
  - name: tell
    input: {dataset: things, glob: "/*"}
    command: [python, -c, 'import os, slowly; open(os.environ["MUSTER_OUTPUT"] + "/" + os.environ["MUSTER_DATUM"], "w").write(open("/srv/only-here").read() + slowly.WORD)']
  - name: train
    input: {stage: tell}
    training:
      framework: None
      checkpoints: {none: true}
      backoffLimit: 0
      roles: [{name: worker, command: [python, -c, 'import os, slowly; open(os.environ["MUSTER_OUTPUT"] + "/all", "w").write("trained by " + slowly.WORD)']}]
`

// imports says what a member has of its environment.
const imports = `import os, slowly, sys
print(slowly.WORD, sys.prefix, "of", os.getuid())
try:
    open(sys.prefix + "/mine", "w")
except OSError:
    print("which is for reading")
`

// TestPackagesOnTopOfImages has packages be put on top of images on one machine, with a
// real containerd, in both tiers.
func TestPackagesOnTopOfImages(t *testing.T) {
	ctx := deadline(t, 10*time.Minute)
	containerd, err := cluster.StartRuntime(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := containerd.Stop(); err != nil {
			t.Error(err)
		}
	})
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Fatal(err)
	}
	image, err := cluster.Python(ctx, python)
	if err != nil {
		t.Fatal(err)
	}
	image.Name = pythonImage
	wheels := t.TempDir()
	for _, version := range []string{"1", "2"} {
		name := "slowly-" + version + "-py3-none-any.whl"
		write(t, wheels, name, string(harness.Wheel(t, "slowly", version, "WORD = 'version "+version+"\\n'\n")))
		image.Files = append(image.Files, cluster.File{To: "/srv/wheels/" + name, From: filepath.Join(wheels, name)})
	}
	has := func(words, user string) {
		t.Helper()
		other := image
		other.User = user
		other.Files = append(other.Files[:len(other.Files):len(other.Files)], cluster.File{To: "/srv/only-here", Content: words + "\n"})
		if err := containerd.Import(ctx, "muster", other); err != nil {
			t.Fatal(err)
		}
	}
	for _, x := range costly(plainTier) {
		t.Run(x.name, func(t *testing.T) {
			has("first", "")
			m := muster(t, x, "containerd: "+containerd.Socket+"\n")
			t.Run("pipeline", func(t *testing.T) { stagesOnTop(t, m, func() { has("second", "1234") }) })
			t.Run("refused", func(t *testing.T) { refusedOnTop(t, m) })
		})
	}
	if long {
		t.Run("killed", func(t *testing.T) { killedOnTop(t, containerd.Socket) })
	}
}

// shelf has a pod serve the wheels of the image, and returns the lines of requirements
// that lead there.
func shelf(t *testing.T, m *harness.Muster, ns string) string {
	t.Helper()
	const port = "18931"
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name = ns, "shelf"
	pod.Spec.Containers = []corev1.Container{{
		Name: "main", Image: pythonImage, ImagePullPolicy: corev1.PullIfNotPresent,
		Command: []string{"sh", "-c", `at=$POD_IP; [ "$at" = "" ] && at=127.0.0.1; exec python3 -m http.server ` + port + ` --bind $at --directory /srv/wheels`},
		Env:     []corev1.EnvVar{{Name: "POD_IP", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"}}}},
	}}
	if err := m.Client.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Client.Delete(context.Background(), pod) })
	harness.Eventually(t, time.Minute, "waiting for the shelf", func() error {
		if err := m.Client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil {
			return err
		}
		if pod.Status.Phase != corev1.PodRunning || pod.Status.PodIP == "" {
			return fmt.Errorf("%+v", pod.Status)
		}
		return nil
	})
	return fmt.Sprintf("--no-index\n--find-links http://%s:%s/\n--trusted-host %[1]s\n", pod.Status.PodIP, port)
}

// stagesOnTop: packages are there for workers and members, and what they were resolved
// to counts for results, and what the image is, whoever its programs run as.
func stagesOnTop(t *testing.T, m *harness.Muster, change func()) {
	ns, ctx := m.Namespace(t), deadline(t, 4*time.Minute)
	lines := shelf(t, m, ns)
	muster := func(args ...string) harness.Result {
		t.Helper()
		return m.Run(ctx, append([]string{"-n", ns}, args...)...)
	}
	ran := func(words string, tell, train int64) {
		t.Helper()
		expect(t, applyText(t, m, ns, "p.yaml", fmt.Sprintf(onTop, pythonImage, lines+words+"\n")), 0)
		expect(t, muster("pipeline", "wait", "packed", "--timeout", "120s"), 0)
		got := map[string]int64{}
		run := lastRun(t, muster("pipeline", "runs", "packed", "-o", "json"))
		for _, s := range run.Stages {
			got[s.Name] = s.Datums.Computed
		}
		if diff := cmp.Diff(map[string]int64{"tell": tell, "train": train}, got); diff != "" {
			t.Errorf("%s: %s", words, diff)
		}
	}
	expect(t, muster("data", "create", "things"), 0)
	expect(t, muster("data", "put", folder(t, map[string]string{"a": "", "b": ""}), "things"), 0)
	ran("slowly==1", 2, 1)
	expect(t, muster("data", "cat", "packed-tell:/a"), 0, "first\nversion 1")
	expect(t, muster("data", "cat", "packed-train:/all"), 0, "trained by version 1")
	ran("slowly<2", 0, 0)
	ran("slowly>1", 2, 1)
	expect(t, muster("data", "cat", "packed-train:/all"), 0, "trained by version 2")
	expect(t, muster("pipeline", "explain", "packed", "tell"), 0, "environment: slowly: 1 -> 2")
	change() // of which the name says nothing
	harness.Eventually(t, time.Minute, "waiting until the image is looked at again", func() error {
		if r := muster("pipeline", "explain", "packed", "--next"); r.Code != 0 || !strings.Contains(r.Stdout, "environment: image: sha256:") {
			return fmt.Errorf("%s%s", r.Stdout, r.Stderr)
		}
		return nil
	})
	expect(t, muster("pipeline", "rerun", "packed"), 0)
	ran("slowly>1", 2, 1)
	expect(t, muster("data", "cat", "packed-tell:/a"), 0, "second\nversion 2")
	// The same packages are there for a job, which names its image.
	file := filepath.Join(t.TempDir(), "requirements.txt")
	if err := os.WriteFile(file, []byte(lines+"slowly>1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	expect(t, muster("run", "--name", "imports", "--code", "none", "--image", pythonImage, "--requirements", file, "--", "python", "-c", imports), 0,
		"version 2", "/muster/env of 1234", "which is for reading")
	if left := m.Run(ctx, "kubectl", "-n", ns, "get", "pods", "-l", v1alpha1.LabelBuild, "-o", "name"); strings.Contains(left.Stdout, "build-") {
		t.Errorf("builds are left: %s", left.Stdout)
	}
}

// refusedOnTop: what cannot be built fails in the installer's words, and what cannot be
// meant is said.
func refusedOnTop(t *testing.T, m *harness.Muster) {
	ns, ctx := m.Namespace(t), deadline(t, 2*time.Minute)
	expect(t, m.Run(ctx, "-n", ns, "data", "create", "things"), 0)
	expect(t, m.Run(ctx, "-n", ns, "data", "put", folder(t, map[string]string{"a": ""}), "things"), 0)
	for image, says := range map[string]string{
		pythonImage:          "No matching distribution found for nothing-of-this-name",
		v1alpha1.HostImage:   "stands for this machine's own programs",
		"127.0.0.1:1/none:1": "connection refused",
	} {
		text := fmt.Sprintf(onTop, image, "--no-index\nnothing-of-this-name==1\n")
		expect(t, applyText(t, m, ns, "p.yaml", text), 0)
		harness.Eventually(t, 90*time.Second, "waiting for "+says, func() error {
			if r := m.Run(ctx, "-n", ns, "pipeline", "runs", "packed", "-o", "json"); !strings.Contains(r.Stdout, says) {
				return fmt.Errorf("%s%s", r.Stdout, r.Stderr)
			}
			return nil
		})
		expect(t, m.Run(ctx, "-n", ns, "pipeline", "delete", "--yes", "packed"), 0)
	}
}

// killedOnTop kills Muster while a build goes on: that goes on, and is not begun again.
func killedOnTop(t *testing.T, containerd string) {
	m := muster(t, plainTier, "containerd: "+containerd+"\n")
	ctx := deadline(t, 3*time.Minute)
	wheel := harness.Wheel(t, "slowly", "3", "WORD = 'built at last'\n")
	var fetched atomic.Int32
	asked, open := make(chan struct{}, 16), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fetched.Add(1)
		asked <- struct{}{}
		select {
		case <-open:
			_, _ = w.Write(wheel)
		case <-r.Context().Done():
		}
	}))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "requirements.txt")
	if err := os.WriteFile(file, []byte("slowly @ "+server.URL+"/slowly-3-py3-none-any.whl\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	submit(t, m, "default", "built", "--code", "none", "--image", pythonImage, "--requirements", file, "--", "python", "-c", "import slowly; print(slowly.WORD)")
	select {
	case <-asked:
	case <-ctx.Done():
		t.Fatal("nobody asked for the package")
	}
	waitPhase(t, m, "default", "built", v1alpha1.JobPreparing)
	m.Kill9(t)
	if err := m.Start(ctx); err != nil {
		t.Fatal(err)
	}
	close(open)
	waitPhase(t, m, "default", "built", v1alpha1.JobSucceeded)
	expect(t, m.Run(ctx, "logs", "built"), 0, "built at last")
	if n := fetched.Load(); n != 1 {
		t.Errorf("the package was fetched %d times", n)
	}
}
