//go:build embedded

package manager_test

import (
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/muster-dev/muster/internal/manager"
)

// Of two managers one runs; when it is stopped, the other goes on at once.
func TestTwoManagers(t *testing.T) {
	s := newStage(t)
	s.node("a", 4, true)
	one := s.run("one")
	receive(t, one.Scheduling(), "the first schedules")
	two := s.run("two")
	s.gang("first", 1, "1")
	s.awaitPods("first", 1)
	select {
	case <-two.Elected():
		t.Fatal("both are elected")
	default:
	}
	begin := time.Now()
	if err := one.stop(); err != nil {
		t.Fatal(err)
	}
	receive(t, two.Scheduling(), "the second schedules")
	t.Logf("the second schedules %s after the first was told to stop", time.Since(begin).Round(time.Millisecond))
	s.gang("second", 1, "1")
	s.awaitPods("second", 1)
	if pods := s.pods("first"); len(pods) != 1 || pods[0].DeletionTimestamp != nil {
		t.Errorf("the first gang's pods: %d", len(pods))
	}
}

// A manager answers when it is asked how it is, elected or not, and tells what it
// counts.
func TestHealth(t *testing.T) {
	s := newStage(t)
	health, metrics := freeAddress(t), freeAddress(t)
	first := s.run("first")
	receive(t, first.Elected(), "the first is elected")
	s.runWith("second", func(o *manager.Options) { o.HealthAddress, o.MetricsAddress = health, metrics })
	deadline := time.Now().Add(30 * time.Second)
	for _, url := range []string{"http://" + health + "/healthz", "http://" + health + "/readyz", "http://" + metrics + "/metrics"} {
		for {
			code, err := get(t, url)
			if err == nil && code == http.StatusOK {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: %d, %v", url, code, err)
			}
			time.Sleep(20 * time.Millisecond) // nothing signals that a listener is open
		}
	}
}

func get(t *testing.T, url string) (int, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, answer.Body)
	_ = answer.Body.Close()
	return answer.StatusCode, err
}

// freeAddress is an address on which nobody listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}

func receive(t *testing.T, from <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-from:
	case <-time.After(time.Minute):
		t.Fatalf("%s: not within a minute", what)
	}
}
