package foreman_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/muster-dev/muster/internal/foreman"
	"github.com/muster-dev/muster/internal/foreman/shift"
)

// TestWhyAWorkerEnded: a datum that its worker had begun has the reason why that ended, whether
// another one has its place or none was heard of for long. The foreman asks for the reason until it
// is known or cannot be.
func TestWhyAWorkerEnded(t *testing.T) {
	for name, c := range map[string]struct {
		reasons []string // by question; empty: not known yet
		vain    bool
		expires bool
		want    string
	}{
		"at once":    {reasons: []string{"OOM killed"}, want: "OOM killed"},
		"later":      {reasons: []string{"", "", "OOM killed"}, want: "OOM killed"},
		"in vain":    {reasons: []string{""}, vain: true, want: "its worker ended"},
		"unheard of": {reasons: []string{"OOM killed"}, expires: true, want: "OOM killed"},
		"gone":       {reasons: []string{""}, expires: true, want: "its worker was not heard of for 20s"},
	} {
		t.Run(name, func(t *testing.T) {
			var ahead atomic.Int64
			s := open(t, func(o *foreman.Options) {
				o.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
			})
			var asked atomic.Int64
			ended := func(_ context.Context, member string, since time.Time) (string, bool) {
				if member != "worker/0" || since.After(time.Now()) {
					t.Errorf("it is asked for %s since %s", member, since)
				}
				return c.reasons[min(int(asked.Add(1)), len(c.reasons))-1], c.vain
			}
			spec := foreman.Spec{Name: "run.stage", Owner: "team", Program: shell("true"), Tries: 1, Fetch: s.fetch, Record: s.record, Ended: ended, Datums: []foreman.Datum{{ID: "0", Name: "a"}}}
			w, err := s.Open(t.Context(), spec)
			if err != nil {
				t.Fatal(err)
			}
			says := func(request shift.Request) (a shift.Answer) {
				text, err := json.Marshal(request)
				if err != nil {
					t.Fatal(err)
				}
				in := httptest.NewRequestWithContext(t.Context(), http.MethodPost, shift.Path+"run.stage", strings.NewReader(string(text)))
				out := httptest.NewRecorder()
				s.HandlerFor("team").ServeHTTP(out, in)
				if err := json.Unmarshal(out.Body.Bytes(), &a); err != nil {
					t.Fatalf("%d: %s", out.Code, out.Body)
				}
				return a
			}
			if a := says(shift.Request{Worker: "a", Member: "worker/0", Want: 1}); len(a.Datums) != 1 {
				t.Fatalf("%+v", a)
			}
			says(shift.Request{Worker: "a", Member: "worker/0", Has: []string{"0"}, Begun: []string{"0"}})
			if c.expires {
				ahead.Store(int64(time.Hour))
				w.Expire()
			} else {
				says(shift.Request{Worker: "b", Member: "worker/0"})
			}
			if stands := s.over(w); stands.First == nil || stands.First.Error != c.want {
				t.Errorf("%+v, want %q", stands.First, c.want)
			}
			// The foreman itself may look for silent workers at the same time.
			if n := int(asked.Load()); n != len(c.reasons) && !c.expires {
				t.Errorf("it was asked %d times, want %d", n, len(c.reasons))
			}
		})
	}
}
