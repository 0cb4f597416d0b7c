//go:build conformance

package conformance

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/test/e2e/harness"
)

// packages serves a wheel to the platform's builds, once open is closed, and
// counts how often it was fetched.
func (p *platform) packages(t testing.TB, open <-chan struct{}) (line string, fetched *atomic.Int32) {
	t.Helper()
	body := harness.Wheel(t, "slowly", "1", "WORD = 'built once'\n")
	fetched = &atomic.Int32{}
	address := p.serve(t, func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, ".whl") {
			http.NotFound(w, r)
			return
		}
		fetched.Add(1)
		select {
		case <-open:
			_, _ = w.Write(body)
		case <-r.Context().Done():
		}
	})
	return fmt.Sprintf("slowly @ http://%s/slowly-1-py3-none-any.whl\n", address), fetched
}

// serve answers the platform's builds, until the test ends.
func (p *platform) serve(t testing.TB, answer http.HandlerFunc) (address string) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", net.JoinHostPort(p.hostAddress(t), "0"))
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: answer}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-done
	})
	return listener.Addr().String()
}

// hostAddress is where builds find this machine: on the network of the cluster's
// machines it is the first.
func (p *platform) hostAddress(t testing.TB) string {
	t.Helper()
	if p.vanish == nil {
		return "127.0.0.1"
	}
	config, err := clientcmd.BuildConfigFromFlags("", p.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	server, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	at := net.ParseIP(server.Hostname()).To4()
	if at == nil {
		t.Fatalf("the API server is at %s, and an address is expected", config.Host)
	}
	return fmt.Sprintf("%d.%d.%d.1", at[0], at[1], at[2])
}

// environmentYAML is a job's environment of requirements, in the platform's
// Python.
func (p *platform) environmentYAML(requirements string) string {
	if p.vanish == nil {
		return fmt.Sprintf("{requirements: %q}", requirements)
	}
	return fmt.Sprintf("{requirements: %q, image: %q}", requirements, p.python)
}

// TestEnvironmentIsBuiltOnce: two jobs with the same requirements ask at once,
// what they need is built once while others have all GPUs, members on every node
// import it, and the next job builds nothing.
func TestEnvironmentIsBuiltOnce(t *testing.T) {
	if the.counts {
		t.Skip("no agent brings environments to the nodes of this platform")
	}
	ns, open := the.namespace(t), make(chan struct{})
	line, fetched := the.packages(t, open)
	const imports = `[python, -c, "import slowly; print(slowly.WORD)"]`
	for _, name := range []string{"one", "two"} {
		the.submit(t, ns, name, fmt.Sprintf("{environment: %s, roles: [{name: worker, replicas: 4, gpus: 1, command: %s}]}", the.environmentYAML(line), imports))
	}
	the.says(t, ns, "one", "environment: ")
	harness.Eventually(t, within, "waiting until the package is fetched", func() error {
		if fetched.Load() == 0 {
			return fmt.Errorf("job one says %q", the.job(t, ns, "one").Status.Message)
		}
		return nil
	})
	// No GPU waits for it.
	the.holding(t, ns, "meanwhile", 4, 1, "")
	the.until(t, ns, "meanwhile", v1alpha1.JobRunning)
	for _, name := range []string{"one", "two"} {
		if job := the.job(t, ns, name); job.Status.Phase != v1alpha1.JobPreparing {
			t.Errorf("%s is %s while its environment is built: %s", name, job.Status.Phase, job.Status.Message)
		}
	}
	the.release(t, ns, "meanwhile", "worker", 0, 1, 2, 3)
	close(open)
	for _, name := range []string{"one", "two"} {
		the.until(t, ns, name, v1alpha1.JobSucceeded)
		for i := range 4 {
			if said := the.output(t, ns, fmt.Sprintf("%s-worker-%d", name, i)); said != "built once\n" {
				t.Errorf("%s-worker-%d says %q", name, i, said)
			}
		}
	}
	// The same again, in other words, by the command that users type.
	file := filepath.Join(t.TempDir(), "requirements.txt")
	if err := os.WriteFile(file, []byte("# what it needs\n\n"+line), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"-n", ns, "run", "--code", "none", "--checkpoints", "none", "--gpus", "1", "--requirements", file}
	if the.vanish != nil {
		args = append(args, "--image", the.python)
	}
	if r := the.muster(t, append(args, "--", "python", "-c", "import slowly; print(slowly.WORD)")...); r.Code != 0 || !strings.Contains(r.Stdout, "built once") {
		t.Errorf("exit code %d: %s%s", r.Code, r.Stdout, r.Stderr)
	}
	if n := fetched.Load(); n != 1 {
		t.Errorf("the package was fetched %d times", n)
	}
	harness.Eventually(t, within, "waiting until no build is left", func() error {
		var pods corev1.PodList
		if err := the.api.List(t.Context(), &pods, client.InNamespace(ns), client.HasLabels{v1alpha1.LabelBuild}); err != nil {
			return err
		}
		if len(pods.Items) > 0 {
			return fmt.Errorf("%s is left, %s", pods.Items[0].Name, pods.Items[0].Status.Phase)
		}
		return nil
	})
}

// TestEnvironmentIsBuiltWhileMusterIsAway: manager and agents are replaced while a
// build runs; what it makes is not made again.
func TestEnvironmentIsBuiltWhileMusterIsAway(t *testing.T) {
	if the.counts || the.vanish == nil {
		t.Skip("no pods of Muster's bring environments to the nodes of this platform")
	}
	ns, open := the.namespace(t), make(chan struct{})
	line, fetched := the.packages(t, open)
	the.submit(t, ns, "one", fmt.Sprintf("{environment: %s, roles: [{name: worker, replicas: 2, gpus: 1, command: [python, -c, import slowly]}]}", the.environmentYAML(line)))
	harness.Eventually(t, within, "waiting until the package is fetched", func() error {
		if fetched.Load() == 0 {
			return fmt.Errorf("job one says %q", the.job(t, ns, "one").Status.Message)
		}
		return nil
	})
	if r := the.kubectl(t, "", "-n", v1alpha1.SystemNamespace, "delete", "pods", "-l", "app.kubernetes.io/name=muster", "--wait=false"); r.Code != 0 {
		t.Fatalf("replacing Muster's pods: %s", r.Stderr)
	}
	close(open)
	the.until(t, ns, "one", v1alpha1.JobSucceeded)
	if n := fetched.Load(); n != 1 {
		t.Errorf("the package was fetched %d times", n)
	}
}

// TestEnvironmentThatCannotBeBuilt fails the job with the installer's words, and
// nothing is held.
func TestEnvironmentThatCannotBeBuilt(t *testing.T) {
	if the.counts {
		t.Skip("no agent brings environments to the nodes of this platform")
	}
	ns := the.namespace(t)
	the.submit(t, ns, "absent", fmt.Sprintf("{environment: %s, roles: [{name: worker, gpus: 1, command: ['true']}]}",
		the.environmentYAML("--no-index\nnothing-of-this-name==1.2\n")))
	job := the.until(t, ns, "absent", v1alpha1.JobFailed)
	if !strings.Contains(job.Status.Message, "No matching distribution found for nothing-of-this-name==1.2") {
		t.Errorf("it says %q", job.Status.Message)
	}
	if n := the.placements(t, ns); n != 0 {
		t.Errorf("%d placements hold something", n)
	}
}

// TestEnvironmentOfATenant: somebody whose namespace is closed, and refuses what
// reaches for the machine, has an environment built there; what another namespace
// has of the same requirements is not theirs.
func TestEnvironmentOfATenant(t *testing.T) {
	if the.counts || the.vanish == nil {
		t.Skip("this platform has no tenants, or no agent that brings environments to its nodes")
	}
	dir, open := t.TempDir(), make(chan struct{})
	close(open)
	line, fetched := the.packages(t, open)
	kubeconfig, file := filepath.Join(dir, "eve.kubeconfig"), filepath.Join(dir, "requirements.txt")
	if err := os.WriteFile(file, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := the.muster(t, "user", "add", "eve", "--lifetime", "1h", "--file", kubeconfig); r.Code != 0 {
		t.Fatalf("muster user add: %s", r.Stderr)
	}
	t.Cleanup(func() {
		if r := the.muster(t, "user", "remove", "eve", "--force", "--yes"); r.Code != 0 {
			t.Errorf("muster user remove: %s", r.Stderr)
		}
	})
	args := []string{"run", "--code", "none", "--checkpoints", "none", "--gpus", "1", "--image", the.python, "--requirements", file, "--", "python", "-c", "import slowly; print(slowly.WORD)"}
	ns := the.namespace(t)
	for i, who := range []platform{*the, {kubeconfig: kubeconfig}} {
		line := args
		if i == 0 {
			line = append([]string{"-n", ns}, args...)
		}
		if r := who.muster(t, line...); r.Code != 0 || !strings.Contains(r.Stdout, "built once") {
			t.Fatalf("exit code %d: %s%s", r.Code, r.Stdout, r.Stderr)
		}
		if n := fetched.Load(); n != int32(i)+1 {
			t.Errorf("the package was fetched %d times, want %d", n, i+1)
		}
	}
}
