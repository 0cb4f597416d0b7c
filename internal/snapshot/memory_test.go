package snapshot

import (
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/muster-dev/muster/internal/snapshot/conversion"
)

// What one scheduler learned, the next one goes on from; what cannot be read
// costs only what was learned.
func TestLearnedIsKept(t *testing.T) {
	api := testAPI(t, interceptor.Funcs{})
	start := func() *Loop {
		loop, err := NewLoop(Options{Cache: &testCache{}, Client: api, Live: api, Location: time.UTC})
		if err != nil {
			t.Fatal(err)
		}
		if err := loop.remember(t.Context()); err != nil {
			t.Fatal(err)
		}
		return loop
	}
	now := time.Unix(1_700_000_100, 0)
	first := start()
	first.shown(nil, testNode(8))
	pod := memberPod("")
	pod.OwnerReferences, pod.Spec.SchedulerName, pod.Spec.NodeName = nil, "muster", ""
	first.shown(nil, pod)
	first.tell(t.Context(), now)
	first.core.Decide(conversion.Instant(now))
	first.keep(t.Context(), now)
	first.keep(t.Context(), now.Add(keepEvery))
	first.wg.Wait()
	want := first.core.Mix()
	if len(want.Kinds) == 0 {
		t.Fatal("nothing was learned of what usually comes")
	}
	second := start()
	second.tell(t.Context(), now)
	if got := second.core.Mix(); len(got.Kinds) != len(want.Kinds) || got.Kinds[0].Count != want.Kinds[0].Count {
		t.Errorf("after a restart %+v usually comes, want %+v", got, want)
	}
	if decoded[memory](`{"`).mix.Newest != 0 {
		t.Error("what cannot be read counts")
	}
}
