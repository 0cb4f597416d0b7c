//go:build embedded

package serve_test

import (
	"bytes"
	"context"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/rehearsal"
	"github.com/muster-dev/muster/internal/cli/terminal"
	"github.com/muster-dev/muster/internal/node/rig"
)

// The API server connects to the manager's door, so both need a machine with an
// address besides its loopback. The control plane's child inherits the test
// binary's network namespace.
func TestMain(m *testing.M) { os.Exit(rig.RunReachable(m.Run)) }

// said is standard error, and tells when something was said.
type said struct {
	mu   sync.Mutex
	text bytes.Buffer
	wait map[string]chan struct{}
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := s.text.Write(p)
	for words, heard := range s.wait {
		if strings.Contains(s.text.String(), words) {
			close(heard)
			delete(s.wait, words)
		}
	}
	return n, err
}

// TestServe runs the command against a real API server until it is told to stop.
func TestServe(t *testing.T) {
	server := rehearsal.Start(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	scheduling := make(chan struct{})
	out := &said{wait: map[string]chan struct{}{"muster: scheduling\n": scheduling}}
	done := make(chan exit.Code, 1)
	go func() {
		args := []string{"serve", "--kubeconfig", server.Kubeconfig, "--metrics", "0", "--health", "0", "--gpu-resource", "nvidia.com/gpu,amd.com/gpu", "--departure-sign", "acme.com/leaves=1m0s"}
		done <- cli.Execute(ctx, args, terminal.Streams{In: &bytes.Buffer{}, Out: &bytes.Buffer{}, Err: out, NoColor: true})
	}()
	select {
	case <-scheduling:
	case code := <-done:
		t.Fatalf("it ended with %d: %s", code, out.text.String())
	case <-time.After(time.Minute):
		t.Fatal("it does not schedule")
	}
	namespace := &corev1.Namespace{}
	if err := server.Client.Get(t.Context(), client.ObjectKey{Name: v1alpha1.SystemNamespace}, namespace); err != nil {
		t.Fatal(err)
	}
	if got := namespace.Annotations[v1alpha1.AnnotationGPUResources]; got != "nvidia.com/gpu,amd.com/gpu" {
		t.Errorf("resources that count GPUs: %q", got)
	}
	if got := namespace.Annotations[v1alpha1.AnnotationDepartureSigns]; got != "acme.com/leaves=1m0s" {
		t.Errorf("signs of nodes that go: %q", got)
	}
	// What needs something that this cluster does not have is refused at once.
	server.Run(t, []rehearsal.Step{
		{Args: "run --name bare --code none -- true", Code: 1, Says: "it names no image, and this cluster has none for such jobs"},
		{Args: "run --name env --code none --image python:3.13 --requirements " + requirements(t) + " -- true", Code: 1, Says: "environments are not built from requirements on this cluster"},
	})
	cancel()
	if code := <-done; code != exit.OK {
		t.Errorf("it ended with %d: %s", code, out.text.String())
	}
}

func requirements(t *testing.T) string {
	t.Helper()
	path := t.TempDir() + "/requirements.txt"
	if err := os.WriteFile(path, []byte("numpy\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
