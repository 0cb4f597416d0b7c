//go:build conformance

package conformance

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// TestAGPUIsGivenAgain measures from the moment at which a program ends until
// its GPU is promised to the next: many short jobs wait for four GPUs, and each
// end makes one Placement possible. On an idle machine of two cores it takes
// less than 3 s with a real kubelet, which looks once a second what has ended;
// a busy one is given more here.
func TestAGPUIsGivenAgain(t *testing.T) {
	const jobs, gpus, most = 24, 4, 10 * time.Second
	ns := the.namespace(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	placements, err := the.api.Watch(ctx, &v1alpha1.PlacementList{}, client.InNamespace(ns))
	if err != nil {
		t.Fatal(err)
	}
	defer placements.Stop()
	for i := range jobs {
		the.submit(t, ns, fmt.Sprintf("short-%d", i), `{roles: [{name: worker, gpus: 1, command: [bash, -c, 'read -t 1 <> <(:); echo "ended=$EPOCHREALTIME"']}]}`)
	}
	var placed []time.Time
	for len(placed) < jobs {
		event, ok := <-placements.ResultChan()
		if !ok {
			t.Fatalf("the watch ended when %d of %d jobs had been placed", len(placed), jobs)
		}
		if event.Type == watch.Added {
			placed = append(placed, time.Now())
		}
	}
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
	var waits []time.Duration
	for i := range jobs - gpus {
		waits = append(waits, placed[gpus+i].Sub(ended[i]))
	}
	slices.Sort(waits)
	longest := waits[len(waits)-1]
	t.Logf("from the end of a program to its GPU's next Placement: median %d ms, longest of %d: %d ms", waits[len(waits)/2].Milliseconds(), len(waits), longest.Milliseconds())
	if longest > most {
		t.Errorf("it took up to %s, at most %s is wanted", longest, most)
	}
}
