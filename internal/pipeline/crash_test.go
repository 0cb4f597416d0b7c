package pipeline

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/backend"
	"github.com/muster-dev/muster/internal/data/backend/faulty"
	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/ref"
)

// faultyHeads are heads whose user dies by the same script as the backend's.
type faultyHeads struct {
	ref.Heads
	script *faulty.Script
}

func (h *faultyHeads) Swap(ctx context.Context, moves ...ref.Move) error {
	return h.script.Write("swap "+moves[0].Name.String(), func() error { return h.Heads.Swap(ctx, moves...) })
}

// TestCrash: whichever write fails while results are recorded and a stage is
// finished, what was committed before is whole, nothing is half there, and the next
// run ends as if nothing had been.
func TestCrash(t *testing.T) {
	before, after := map[string]string{"x": "1", "y": "2", "z": "3"}, map[string]string{"x": "1", "y": "changed", "new": "4"}
	want := map[string]string{"made/x": "aaa/x=1\n", "made/y": "aaa/y=changed\n", "made/new": "aaa/new=4\n"}
	tried := 0
	for _, fault := range faulty.Faults() {
		for at := 1; ; at++ {
			bytes := &backend.Memory{}
			w := openWorld(t, bytes)
			r := w.runner(t, input(v1alpha1.Input{InputSource: source("aaa", "/*")}))
			r.at = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			w.put(t, "aaa", before)
			_, first := r.run(t)
			w.put(t, "aaa", after)

			script := &faulty.Script{At: at, Fault: fault}
			err := r.unlucky(t, &faulty.Backend{Inner: bytes, Script: script}, script)
			if script.Writes() < at {
				if err != nil {
					t.Fatalf("without a fault: %v", err)
				}
				break
			}
			tried++
			w.sound(t)
			if head := w.head(t, r.stage.Dataset); head.ID != first.ID && cmp.Diff(want, w.contents(t, head)) != "" {
				t.Errorf("the output is neither what it was nor what it is to be: %v", w.contents(t, head))
			}
			p, out := r.run(t)
			if d := cmp.Diff(want, w.contents(t, out)); d != "" || p.Whole {
				t.Errorf("the next run: %s %s", p.Why, d)
			}
			if again := r.plan(t); !again.Nothing() || again.Total != 3 {
				t.Errorf("again: %d datums, %v", again.Total, names(again.Work))
			}
			w.sound(t)
			if t.Failed() {
				t.Fatalf("after write %d, %s (%v)", at, fault, err)
			}
		}
	}
	if tried < 4*15 {
		t.Errorf("only %d writes were tried", tried)
	}
}

// unlucky records results and finishes a run in a process that has a fault.
func (r *runner) unlucky(t *testing.T, bytes backend.Backend, script *faulty.Script) error {
	t.Helper()
	w := openWorld(t, bytes)
	for name, d := range r.datasets {
		w.datasets[name] = w.store.Dataset(&faultyHeads{Heads: r.heads[d], script: script})
	}
	p := r.plan(t)
	recorded := map[string]string{}
	cache := map[digest.ID]map[string]string{}
	for i := range p.Work {
		folder := ResultPath(p.Work[i].Key)
		recorded[folder+"/"+RecordFile] = "{}"
		for path, content := range listing(&p.Work[i].Datum, r.files(t, &p.Work[i].Datum, p.request.Inputs, cache)) {
			recorded[folder+"/"+OutFolder+"/"+path] = content
		}
	}
	_, err := w.dataset("results").Put(t.Context(), "main", data.Tar(archive(t, recorded)), data.PutOptions{CommitOptions: data.CommitOptions{Orphan: true}})
	if err != nil {
		return err
	}
	books := Books{Output: w.dataset(r.stage.Dataset), States: w.dataset("states"), Results: w.dataset("results"), ResultsBranch: "main", At: r.at}
	_, err = p.Finish(t.Context(), "p", books, nil, data.CommitOptions{})
	return err
}

// sound says that everything that heads lead to is whole, after a collection, too.
func (w *world) sound(t *testing.T) {
	t.Helper()
	var heads []ref.Heads
	for _, h := range w.heads {
		heads = append(heads, h)
	}
	if _, err := w.store.Collect(t.Context(), data.CollectOptions{Heads: heads}); err != nil {
		t.Errorf("collecting: %v", err)
	}
	report, err := w.store.Verify(t.Context(), data.VerifyOptions{Heads: heads, Bytes: true})
	if err != nil || len(report.Problems) > 0 {
		t.Errorf("verifying: %+v %v", report, err)
	}
}
