package harness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// Muster is one that runs in a data folder of its own.
type Muster struct {
	// Home is the data folder.
	Home string
	// Args are the arguments of `muster up`.
	Args []string
	// Host is the host name that it sees, in a namespace of its own; empty: the
	// machine's.
	Host string
	// Client reads and writes its objects.
	Client client.WithWatch

	http   *http.Client
	server string
}

// Readyz returns an error until the API server's /readyz says that everything
// is ready.
func (m *Muster) Readyz(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, m.server+"/readyz", nil)
	if err != nil {
		return err
	}
	answer, err := m.http.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("/readyz answers %s", answer.Status)
	}
	return nil
}

// Result is how a command ended.
type Result struct {
	Stdout, Stderr string
	Code           int
	Took           time.Duration
}

// Root is the repository's folder.
func Root() string {
	dir, err := os.Getwd()
	if err != nil {
		panic(err) // a process without a working directory runs no test
	}
	for ; dir != "/"; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
	}
	return "."
}

// Binary is the muster that is tested: the one that $MUSTER_BINARY names, by
// its absolute path, else the one that `make build` made.
func Binary() string {
	if named := os.Getenv("MUSTER_BINARY"); named != "" {
		return named
	}
	return filepath.Join(Root(), "bin", "muster")
}

// KubectlBinary is the kubectl that `make test-deps` links.
func KubectlBinary() string { return filepath.Join(Root(), "bin", "kubectl") }

// Up starts Muster in home, in the background, and waits until it is ready.
func Up(ctx context.Context, home string, args ...string) (*Muster, error) {
	m := &Muster{Home: home, Args: args}
	return m, m.Start(ctx)
}

// Start starts it again after it was stopped or killed.
func (m *Muster) Start(ctx context.Context) error {
	r := m.Run(ctx, append([]string{"up", "--detach"}, m.Args...)...)
	if r.Code != 0 {
		return fmt.Errorf("muster up: exit code %d\n%s%s", r.Code, r.Stderr, m.logTail())
	}
	return m.Connect()
}

// Connect makes a new client from the kubeconfig. A Muster that a command started again has another
// port if another program took its port meanwhile.
func (m *Muster) Connect() error {
	config, err := clientcmd.BuildConfigFromFlags("", m.Kubeconfig())
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	config.QPS = -1
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return err
	}
	log.SetLogger(logr.Discard())
	if m.http, err = rest.HTTPClientFor(config); err != nil {
		return err
	}
	m.server = config.Host
	m.Client, err = client.NewWithWatch(config, client.Options{Scheme: scheme})
	return err
}

// Kubeconfig is the path of the kubeconfig that it wrote.
func (m *Muster) Kubeconfig() string { return filepath.Join(m.Home, "kubeconfig") }

func (m *Muster) logTail() string {
	data, err := os.ReadFile(filepath.Join(m.Home, "muster.log"))
	if err != nil {
		return ""
	}
	return string(data[max(0, len(data)-4000):])
}

// Command returns the command `muster args` for this data folder.
func (m *Muster) Command(ctx context.Context, args ...string) *exec.Cmd {
	name := Binary()
	if m.Host != "" {
		named := []string{"--uts", "sh", "-c", `hostname "$0" && exec "$@"`, m.Host, name}
		if os.Geteuid() != 0 {
			named = append([]string{"--user", "--map-root-user"}, named...)
		}
		name, args = "unshare", append(named, args...)
	}
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "MUSTER_HOME="+m.Home, "KUBECONFIG=")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 20 * time.Second
	return cmd
}

// Run runs `muster args` to its end.
func (m *Muster) Run(ctx context.Context, args ...string) Result {
	return Finish(m.Command(ctx, args...))
}

// RunIn runs `muster args` in a folder.
func (m *Muster) RunIn(ctx context.Context, dir string, args ...string) Result {
	cmd := m.Command(ctx, args...)
	cmd.Dir = dir
	return Finish(cmd)
}

// Kubectl runs kubectl with this Muster's kubeconfig; stdin may be empty.
func (m *Muster) Kubectl(ctx context.Context, stdin string, args ...string) Result {
	cmd := exec.CommandContext(ctx, KubectlBinary(), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+m.Kubeconfig())
	cmd.Stdin = strings.NewReader(stdin)
	return Finish(cmd)
}

// Finish runs a command to its end.
func Finish(cmd *exec.Cmd) Result {
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	start := time.Now()
	err := cmd.Run()
	r := Result{Stdout: out.String(), Stderr: errs.String(), Took: time.Since(start)}
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		r.Code = exit.ExitCode()
	case err != nil:
		r.Code = -1
		r.Stderr += err.Error()
	}
	return r
}

// Down deletes everything that runs, stops Muster and returns an error if any
// process of its containers is left.
func (m *Muster) Down(ctx context.Context) error {
	var errs []error
	if m.Client != nil {
		errs = append(errs, m.deleteAll(ctx))
	}
	if r := m.Run(ctx, "down"); r.Code != 0 {
		errs = append(errs, fmt.Errorf("muster down: %s", r.Stderr))
	}
	left := Processes(m.Home)
	for _, p := range left {
		errs = append(errs, fmt.Errorf("left running: %s", p))
		_ = p.Kill()
	}
	return errors.Join(errs...)
}

func (m *Muster) deleteAll(ctx context.Context) error {
	var errs []error
	var namespaces corev1.NamespaceList
	if err := m.Client.List(ctx, &namespaces); err != nil {
		return fmt.Errorf("listing namespaces: %w", err)
	}
	for _, ns := range namespaces.Items {
		if strings.HasPrefix(ns.Name, "kube-") {
			continue
		}
		r := m.Kubectl(ctx, "", "delete", "trainingjobs,deployments,statefulsets,jobs,cronjobs,pods", "--all", "-n", ns.Name, "--wait=true", "--timeout=60s")
		if r.Code != 0 && !strings.Contains(r.Stderr, "not found") {
			errs = append(errs, fmt.Errorf("deleting what runs in %s: %s", ns.Name, r.Stderr))
		}
	}
	return errors.Join(errs...)
}

// Namespace makes a namespace for one test, deleted with it.
func (m *Muster) Namespace(t testing.TB) string {
	t.Helper()
	ns := &corev1.Namespace{}
	ns.GenerateName = "t-"
	if err := m.Client.Create(context.Background(), ns); err != nil {
		t.Fatalf("creating a namespace: %v", err)
	}
	// Bare pods are refused until the namespace's account is there.
	Eventually(t, 20*time.Second, "waiting for the default service account", func() error {
		return m.Client.Get(t.Context(), client.ObjectKey{Namespace: ns.Name, Name: "default"}, &corev1.ServiceAccount{})
	})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
		defer cancel()
		if t.Failed() {
			m.logState(ctx, t, ns.Name)
		}
		if r := m.Run(ctx, "-n", ns.Name, "delete", "--all"); r.Code != 0 {
			t.Errorf("deleting the jobs: %s", r.Stderr)
		}
		// Not waited for: the namespace controller looks again only after many seconds.
		if err := m.Client.Delete(ctx, ns); client.IgnoreNotFound(err) != nil {
			t.Errorf("deleting the namespace: %v", err)
		}
	})
	return ns.Name
}

// logState logs the objects and the events of a namespace, and the end of Muster's log.
func (m *Muster) logState(ctx context.Context, t testing.TB, ns string) {
	t.Helper()
	for _, args := range [][]string{
		{"get", "trainingjobs,gangs,placements,pods"},
		{"get", "events", "--sort-by=.metadata.creationTimestamp", "-o", "custom-columns=AT:.lastTimestamp,OF:.involvedObject.name,REASON:.reason,MESSAGE:.message"},
	} {
		r := m.Kubectl(ctx, "", append([]string{"-n", ns}, args...)...)
		t.Logf("kubectl %s:\n%s%s", strings.Join(args[:2], " "), r.Stdout, r.Stderr)
	}
	t.Logf("muster.log ends:\n%s", m.logTail())
}

// Eventually calls check until it returns nil. It fails the test with the last error after
// timeout. It pauses between two calls as pause says.
func Eventually(t testing.TB, timeout time.Duration, what string, check func() error) {
	t.Helper()
	deadline := time.NewTimer(timeout)
	defer deadline.Stop()
	for begin := time.Now(); ; {
		asked := time.Now()
		err := check()
		if err == nil {
			return
		}
		select {
		case <-deadline.C:
			t.Fatalf("%s, after %s: %v", what, timeout, err)
		case <-time.After(pause(time.Since(begin), time.Since(asked))):
		}
	}
}

// pause returns the pause before the next check. It grows with the time waited, from 20 to
// 100 ms. After a check that starts a program it is three times the check's duration, at most
// 500 ms, so that checks leave the processors to the program under test.
func pause(waited, took time.Duration) time.Duration {
	const least, most, afterProgram = 20 * time.Millisecond, 100 * time.Millisecond, 500 * time.Millisecond
	return max(least, min(waited/20, most), min(3*took, afterProgram))
}
