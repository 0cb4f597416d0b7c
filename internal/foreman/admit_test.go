package foreman_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/muster-dev/muster/internal/foreman"
	"github.com/muster-dev/muster/internal/foreman/shift"
	"github.com/muster-dev/muster/internal/foreman/worker"
)

// porter counts who asks to be let in, and lets in who comes after the first refused.
type porter struct {
	mu     sync.Mutex
	asked  int
	refuse []error
}

func (p *porter) admit(context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked++
	if p.asked <= len(p.refuse) {
		return p.refuse[p.asked-1]
	}
	return nil
}

// Each worker is asked about once, before it gets anything; while nobody can say, it asks
// again.
func TestAdmit(t *testing.T) {
	s := open(t)
	p := &porter{refuse: []error{errors.New("the API server is away"), errors.New("still")}}
	spec := foreman.Spec{Name: "run.stage", Program: shell(`cp $MUSTER_INPUT_IN/name $MUSTER_OUTPUT/made`), Tries: 1, Fetch: s.fetch, Record: s.record, Admit: p.admit}
	for _, name := range []string{"a", "b", "c"} {
		spec.Datums = append(spec.Datums, foreman.Datum{ID: name, Name: name})
	}
	w, err := s.Open(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.worker(t.Context(), "worker/0"); err != nil {
		t.Fatal(err)
	}
	if stands := s.over(w); stands.Computed != 3 || p.asked != 3 {
		t.Errorf("%+v; it was asked %d times, want 3", stands, p.asked)
	}
}

// A worker that began too late gets nothing, and waits until somebody ends it.
func TestAdmitTooLate(t *testing.T) {
	s := open(t)
	ctx, cancel := context.WithCancel(t.Context())
	refusing := func(context.Context) error {
		cancel() // whoever opened the work ends the worker
		return foreman.ErrOutdated
	}
	spec := foreman.Spec{Name: "run.stage", Program: shell("true"), Tries: 1, Fetch: s.fetch, Record: s.record, Admit: refusing, Datums: []foreman.Datum{{ID: "0", Name: "a"}}}
	w, err := s.Open(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.worker(ctx, "worker/0"); !errors.Is(err, worker.ErrStopped) {
		t.Errorf("it ended by itself: %v", err)
	}
	if stands := w.Status(); stands.Computed+stands.Failed > 0 {
		t.Errorf("%+v", stands)
	}
}

// Of what is lent each pod is asked about once, also by a foreman that has taken over.
func TestAdmitMembers(t *testing.T) {
	s := open(t)
	p := &porter{refuse: []error{errors.New("the API server is away")}}
	s.lent(func(spec *foreman.Spec) { spec.Admit = p.admit })
	first := pod{member: "worker/0", name: "p", born: 1}
	for range 2 {
		if code, said := s.runs(first, "cp $IN/in/name $OUT/made"); code != 0 {
			t.Fatalf("%d: %s", code, said)
		}
	}
	if p.asked != 2 {
		t.Errorf("it was asked %d times, want 2", p.asked)
	}
	if code, said := s.runs(pod{member: "worker/0", name: "q", born: 2}, "cp $IN/in/name $OUT/made"); code != 0 || p.asked != 3 {
		t.Errorf("another pod: %d: %s; it was asked %d times, want 3", code, said, p.asked)
	}
}

// Where a work is one job's, workers of another are not heard.
func TestWorkersOfAnotherJob(t *testing.T) {
	s := open(t)
	spec := foreman.Spec{Name: "run.stage", Owner: "team", Job: "now", Program: shell("true"), Tries: 1, Fetch: s.fetch, Record: s.record, Datums: []foreman.Datum{{ID: "0", Name: "a"}}}
	if _, err := s.Open(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	for job, want := range map[string]int{"now": http.StatusOK, "before": shift.StatusGone, "": shift.StatusGone} {
		in := httptest.NewRequestWithContext(t.Context(), http.MethodPost, shift.Path+"run.stage", strings.NewReader(`{"worker": "w"}`))
		in.Header.Set(shift.JobHeader, job)
		out := httptest.NewRecorder()
		s.HandlerFor("team").ServeHTTP(out, in)
		if out.Code != want {
			t.Errorf("job %q: %d, want %d: %s", job, out.Code, want, out.Body)
		}
	}
}
