//go:build embedded

package controlplane_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/muster-dev/muster/internal/controlplane"
	"github.com/muster-dev/muster/internal/controlplane/planetest"
)

// supervisorVerb makes the test binary a supervisor that can be killed. Its
// arguments are the data folder and the child's command.
const supervisorVerb = "supervisor"

func TestMain(m *testing.M) {
	if len(os.Args) < 3 || os.Args[1] != supervisorVerb {
		os.Exit(m.Run())
	}
	if err := superviseUntilKilled(os.Args[2], os.Args[3:]); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

// superviseUntilKilled starts a control plane, prints its child's process id
// and waits for whatever comes.
func superviseUntilKilled(dir string, child []string) error {
	release, err := controlplane.Lock(context.Background(), dir)
	if err != nil {
		return err
	}
	defer release()
	c, err := controlplane.Start(context.Background(), controlplane.Options{DataDir: dir, Executable: child})
	if err != nil {
		return err
	}
	fmt.Println(c.PID())
	<-c.Done()
	return c.Err()
}

// patience bounds everything in these tests that must happen.
const patience = time.Minute

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// attempt starts a control plane whose child is the built program, unless o
// names another.
func attempt(t *testing.T, o controlplane.Options) (*controlplane.ControlPlane, error) {
	t.Helper()
	if o.Executable == nil {
		o.Executable = planetest.Command(t)
	}
	return controlplane.Start(within(t), o)
}

// start starts a control plane that ends with the test.
func start(t *testing.T, o controlplane.Options) *controlplane.ControlPlane {
	t.Helper()
	c, err := attempt(t, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, c) })
	return c
}

func stop(t *testing.T, c *controlplane.ControlPlane) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := c.Stop(ctx); err != nil {
		t.Error(err)
	}
}

func client(t *testing.T, c *controlplane.ControlPlane) *kubernetes.Clientset {
	t.Helper()
	client, err := kubernetes.NewForConfig(c.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// eventually waits until check returns nil.
func eventually(t *testing.T, check func(ctx context.Context) error) {
	t.Helper()
	ctx := within(t)
	for {
		err := check(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatal(err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func configMap(name string, size int) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Data:       map[string]string{"data": strings.Repeat("x", size)},
	}
}

func mustCreate(t *testing.T, api *kubernetes.Clientset, object *corev1.ConfigMap) {
	t.Helper()
	if _, err := api.CoreV1().ConfigMaps("default").Create(within(t), object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func mustHave(t *testing.T, api *kubernetes.Clientset, name string) {
	t.Helper()
	if _, err := api.CoreV1().ConfigMaps("default").Get(within(t), name, metav1.GetOptions{}); err != nil {
		t.Errorf("what was acknowledged before is gone: %v", err)
	}
}

// notes collects what Start tells the user.
type notes struct {
	mu   sync.Mutex
	text strings.Builder
}

func (n *notes) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.Write(p)
}

func (n *notes) String() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.String()
}

func TestKilledChildIsReplacedAndKeepsObjects(t *testing.T) {
	t.Parallel()
	said := &notes{}
	c := start(t, controlplane.Options{DataDir: t.TempDir(), Log: said})
	api := client(t, c)
	mustCreate(t, api, configMap("before", 10))
	killed := c.PID()
	if err := syscall.Kill(killed, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, func(ctx context.Context) error {
		_, err := api.CoreV1().ConfigMaps("default").Get(ctx, "before", metav1.GetOptions{})
		return err
	})
	if c.PID() == killed {
		t.Error("the answer came from the process that was killed")
	}
	if !strings.Contains(said.String(), "starting it again, 1 of 5") {
		t.Errorf("the user was told %q, which does not say that the control plane died", said)
	}
	if c.Err() != nil {
		t.Errorf("Err() = %v while it runs", c.Err())
	}
}

func TestChildThatKeepsDyingIsGivenUp(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	broken := filepath.Join(dir, "broken")
	script := fmt.Sprintf(`if [ -e %s ]; then echo 'panic: the sky fell' >&2; exit 3; fi; exec "$0" "$@"`, broken)
	c := start(t, controlplane.Options{DataDir: dir, Executable: append([]string{"/bin/sh", "-c", script}, planetest.Command(t)...)})
	if err := os.WriteFile(broken, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(c.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	select {
	case <-c.Done():
	case <-within(t).Done():
		t.Fatal("it goes on trying")
	}
	if err := c.Err(); err == nil || !strings.Contains(err.Error(), "the sky fell") || !strings.Contains(err.Error(), "died 6 times") {
		t.Errorf("Err() = %v: it must tell how often the process died, and its last words", err)
	}
}

func TestChildEndsWithKilledParent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	parent := exec.Command(self, append([]string{supervisorVerb, dir}, planetest.Command(t)...)...)
	parent.Stderr = os.Stderr
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := controlplane.Lock(t.Context(), dir); err == nil || !strings.Contains(err.Error(), strconv.Itoa(parent.Process.Pid)) {
		t.Errorf("Lock() = %v, which does not name process %d, which has it", err, parent.Process.Pid)
	}
	port := settingsOf(t, dir)
	killed := time.Now()
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	// At once: what the kernel has not taken back yet is waited for.
	release, err := controlplane.Lock(within(t), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	c := start(t, controlplane.Options{DataDir: dir})
	t.Logf("ready %s after the kill", time.Since(killed))
	_ = parent.Wait()
	if got := settingsOf(t, dir); got != port {
		t.Errorf("the settings are %s, were %s: the orphan's port was taken for somebody else's", got, port)
	}
	if err := syscall.Kill(pid, 0); err == nil && c.PID() != pid {
		state, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if !strings.Contains(string(state), ") Z ") {
			t.Errorf("process %d outlived its supervisor: %s", pid, state)
		}
	}
}

// settingsOf is what the next start of a data folder keeps to: port and range.
func settingsOf(t *testing.T, dir string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "control-plane.json"))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestBare(t *testing.T) {
	t.Parallel()
	c := start(t, controlplane.Options{DataDir: t.TempDir(), Bare: true})
	if _, err := client(t, c).CoreV1().Namespaces().Get(within(t), "muster-system", metav1.GetOptions{}); err == nil {
		t.Error("the bare control plane has Muster's objects")
	}
}
