//go:build embedded

package manager_test

import (
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/manager"
)

// Of two managers one runs; when it is stopped, the other goes on at once.
func TestTwoManagers(t *testing.T) {
	s := newStage(t)
	s.Node("a", 4, true)
	one := s.run("one")
	receive(t, one.Scheduling(), "the first schedules")
	two := s.run("two")
	s.Gang("first", 1, "1")
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
	s.Gang("second", 1, "1")
	s.awaitPods("second", 1)
	if pods := s.Pods("first"); len(pods) != 1 || pods[0].DeletionTimestamp != nil {
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

func receive[T any](t *testing.T, from <-chan T, what string) (got T) {
	t.Helper()
	select {
	case got = <-from:
	case <-time.After(time.Minute):
		t.Fatalf("%s: not within a minute", what)
	}
	return got
}

// TestTheLeaseIsSpared: the manager that leads writes its lease no more often than the
// duration of the lease asks for, although the others look for it several times as often.
func TestTheLeaseIsSpared(t *testing.T) {
	s := newStage(t)
	leads := s.run("leads")
	receive(t, leads.Scheduling(), "it schedules")
	set, err := kubernetes.NewForConfig(s.config)
	if err != nil {
		t.Fatal(err)
	}
	shown, err := set.CoordinationV1().Leases(v1alpha1.SystemNamespace).Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + manager.LeaseName})
	if err != nil {
		t.Fatal(err)
	}
	defer shown.Stop()
	const every = 350 * time.Millisecond // 400 ms for leases of 3 s, less the time within a renewal
	var last time.Time
	for n := 0; n < 6; n++ {
		event := receive(t, shown.ResultChan(), "the lease is renewed")
		lease, ok := event.Object.(*coordinationv1.Lease)
		if !ok {
			t.Fatalf("%s: %v", event.Type, event.Object)
		}
		at := lease.Spec.RenewTime.Time
		if since := at.Sub(last); since < every {
			t.Errorf("renewed %s after the renewal before", since)
		}
		last = at
	}
}
