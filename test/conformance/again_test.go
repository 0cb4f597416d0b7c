//go:build conformance

package conformance

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// TestAGPUIsGivenAgain measures how long a GPU is idle between two jobs: many short jobs wait for
// four GPUs, and each end makes one Placement possible. Two parts are measured: from the end of the
// program until the API server has its pod's phase, which is the kubelet's part, and from there to
// the next Placement, which is Muster's. Only Muster's part has a limit. A kubelet looks once a
// second which containers have ended, and takes up to 10 s on a machine whose processors and disk
// are busy; without other work, both parts together take less than 3 s.
func TestAGPUIsGivenAgain(t *testing.T) {
	const jobs, gpus, most = 24, 4, 5 * time.Second
	ns := the.namespace(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	placements, err := the.api.Watch(ctx, &v1alpha1.PlacementList{}, client.InNamespace(ns))
	if err != nil {
		t.Fatal(err)
	}
	defer placements.Stop()
	pods, err := the.api.Watch(ctx, &corev1.PodList{}, client.InNamespace(ns))
	if err != nil {
		t.Fatal(err)
	}
	defer pods.Stop()
	for i := range jobs {
		the.submit(t, ns, fmt.Sprintf("short-%d", i), `{roles: [{name: worker, gpus: 1, command: [bash, -c, 'read -t 1 <> <(:); echo "ended=$EPOCHREALTIME"']}]}`)
	}
	placed, told := placedAndEnded(t, placements, pods, jobs)
	var ended []time.Time
	for i := range jobs {
		name := fmt.Sprintf("short-%d", i)
		the.until(t, ns, name, v1alpha1.JobSucceeded)
		text := printed(t, ns, name+"-worker-0", "ended=")
		seconds, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatalf("%s ended at %q: %v", name, text, err)
		}
		ended = append(ended, time.UnixMicro(int64(seconds*1e6)))
	}
	slices.SortFunc(ended, time.Time.Compare)
	ended, told, placed = ended[:jobs-gpus], told[:jobs-gpus], placed[gpus:]
	t.Logf("from the end of a program to its pod's phase: %s", between(ended, told))
	t.Logf("from a pod's phase to the next Placement of its GPU: %s", between(told, placed))
	t.Logf("both together: %s", between(ended, placed))
	if longest := slices.Max(differences(told, placed)); longest > most {
		t.Errorf("from a pod's phase to the next Placement of its GPU it took up to %s, at most %s is allowed", longest, most)
	}
}

// placedAndEnded returns when the Placements of so many jobs were made, and when the API server had
// the ends of their pods.
func placedAndEnded(t *testing.T, placements, pods watch.Interface, jobs int) (placed, ended []time.Time) {
	t.Helper()
	seen := map[string]bool{}
	for len(placed) < jobs || len(ended) < jobs {
		select {
		case event, ok := <-placements.ResultChan():
			if !ok {
				t.Fatalf("the watch ended when %d of %d jobs had been placed", len(placed), jobs)
			}
			if event.Type == watch.Added {
				placed = append(placed, time.Now())
			}
		case event, ok := <-pods.ResultChan():
			if !ok {
				t.Fatalf("the watch ended when the pods of %d of %d jobs had ended", len(ended), jobs)
			}
			if pod, ok := event.Object.(*corev1.Pod); ok && pod.Status.Phase == corev1.PodSucceeded && !seen[pod.Name] {
				seen[pod.Name] = true
				ended = append(ended, time.Now())
			}
		}
	}
	return placed, ended
}

// differences returns how long after each time of one list that of the other is, in order.
func differences(from, to []time.Time) []time.Duration {
	out := make([]time.Duration, len(from))
	for i := range from {
		out[i] = to[i].Sub(from[i])
	}
	slices.Sort(out)
	return out
}

// between describes the differences.
func between(from, to []time.Time) string {
	d := differences(from, to)
	return fmt.Sprintf("median %d ms, longest of %d: %d ms", d[len(d)/2].Milliseconds(), len(d), d[len(d)-1].Milliseconds())
}
