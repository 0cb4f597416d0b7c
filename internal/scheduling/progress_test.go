package scheduling

import (
	"fmt"
	"testing"

	"github.com/muster-dev/muster/internal/scheduling/estimate"
	"github.com/muster-dev/muster/internal/scheduling/queue"
)

// pair is a node with two gangs that fill it and could go, told to a core by
// snapshots: when each was saved last, and what each reports.
func pair(t *testing.T, now Instant, saved [2]Instant, reports [2]estimate.Reports) Snapshot {
	t.Helper()
	s := Snapshot{Now: now, Nodes: []Node{testNode("a", "A100", 8)}}
	for i, name := range []string{"one", "two"} {
		r := gang(name).role("worker", 1, 4).with(func(r *Request) {
			r.Resumes, r.Created = true, 1
			r.Evidence = estimate.Evidence{Declared: 100 * estimate.Hour, Reports: reports[i]}
		}).obj()
		s.Requests = append(s.Requests, r)
		p := journal(Snapshot{Now: 1, Requests: s.Requests}, Plan{Key: r.Key, UID: r.UID, Attempt: 1, Members: []Assignment{
			{Role: "worker", Node: "a", GPUs: []string{fmt.Sprintf("a-%d", 4*i), fmt.Sprintf("a-%d", 4*i+1), fmt.Sprintf("a-%d", 4*i+2), fmt.Sprintf("a-%d", 4*i+3)}, Port: int32(20000 + i)},
		}})
		p.Saved = saved[i]
		s.Placements = append(s.Placements, p)
	}
	return s
}

// arrival adds a short gang that needs half of the node.
func arrival(s Snapshot, edit func(*Request)) Snapshot {
	s.Requests = append(s.Requests, gang("short").role("worker", 1, 4).with(func(r *Request) {
		r.Created, r.Evidence = s.Now, estimate.Evidence{Declared: 5 * estimate.Minute}
		edit(r)
	}).obj())
	return s
}

// Whoever saved last goes, for whatever cause, and what is lost is told; one
// that was started a minute ago has not lost more than that minute, whenever
// an earlier attempt saved.
func TestWhoSavedLastGoes(t *testing.T) {
	const now = Instant(10 * estimate.Hour)
	ago := func(d estimate.Span) Instant { return now - Instant(d) }
	causes := map[string]func(*Request){
		"shorter":  func(*Request) {},
		"priority": func(r *Request) { r.Priority = 1 },
	}
	tests := []struct {
		name  string
		saved [2]Instant
		want  string
		lost  estimate.Span
	}{
		{"the first", [2]Instant{ago(estimate.Minute), ago(estimate.Hour)}, "one", 2 * estimate.Minute},
		{"the second", [2]Instant{ago(estimate.Hour), ago(estimate.Minute)}, "two", 2 * estimate.Minute},
		{"the other never did", [2]Instant{0, ago(5 * estimate.Minute)}, "two", 6 * estimate.Minute},
		{"eight minutes and five", [2]Instant{ago(8 * estimate.Minute), ago(5 * estimate.Minute)}, "two", 6 * estimate.Minute},
	}
	for cause, edit := range causes {
		for _, tt := range tests {
			t.Run(cause+", "+tt.name, func(t *testing.T) {
				c := NewCore(Options{})
				c.Sync(arrival(pair(t, now, tt.saved, [2]estimate.Reports{}), edit))
				got := c.Decide(now).Evictions
				if len(got) != 1 || got[0].Name != tt.want || got[0].Lost != tt.lost {
					t.Errorf("got %+v, want %s, which loses %d min", got, tt.want, tt.lost/estimate.Minute)
				}
			})
		}
	}
	t.Run("a save of an earlier attempt is no save of this one", func(t *testing.T) {
		c := NewCore(Options{})
		s := pair(t, now, [2]Instant{ago(9 * estimate.Hour), ago(estimate.Hour)}, [2]estimate.Reports{})
		s.Placements[0].Created = ago(30 * estimate.Minute)
		c.Sync(arrival(s, causes["priority"]))
		got := c.Decide(now).Evictions
		if len(got) != 1 || got[0].Name != "one" || got[0].Lost != 31*estimate.Minute {
			t.Errorf("got %+v", got)
		}
	})
}

// What is nearly done by what it reports is not stopped for shorter work; what
// has said so for hours is.
func TestProgressDecidesWhoIsStopped(t *testing.T) {
	const now = Instant(10 * estimate.Hour)
	saved := [2]Instant{now - Instant(estimate.Minute), now - Instant(estimate.Minute)}
	far := func(done ...float64) estimate.Reports { // one an hour, the last a moment ago
		var out estimate.Reports
		for i, d := range done {
			out = append(out, estimate.Point{Ran: estimate.Span(now) - estimate.Span(len(done)-1-i)*estimate.Hour - estimate.Minute, Done: d})
		}
		return out
	}
	tests := []struct {
		name    string
		reports [2]estimate.Reports
		want    string
	}{
		{"one is nearly done", [2]estimate.Reports{far(0.79, 0.89, 0.99), nil}, "two"},
		{"two is nearly done", [2]estimate.Reports{nil, far(0.79, 0.89, 0.99)}, "one"},
		{"one has said so for hours", [2]estimate.Reports{far(0.99, 0.99, 0.99, 0.99), far(0.69, 0.79, 0.89)}, "one"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := NewCore(Options{})
			c.Sync(arrival(pair(t, now, saved, tt.reports), func(*Request) {}))
			got := c.Decide(now).Evictions
			if len(got) != 1 || got[0].Name != tt.want {
				t.Errorf("got %+v, want %s", got, tt.want)
			}
		})
	}
}

// When a placed gang ends is told, and what that rests on; a new report changes
// it without a new attempt.
func TestExpectedEnd(t *testing.T) {
	const now = Instant(10 * estimate.Hour)
	c := NewCore(Options{})
	look := func(r estimate.Reports) *Expected {
		c.Sync(pair(t, now, [2]Instant{}, [2]estimate.Reports{r}))
		x, ok := c.Explain("uid-one", now)
		if !ok || x.Ends == nil || x.Ends.From > x.Ends.To || x.Ends.From <= now {
			t.Fatalf("got %+v", x)
		}
		return x.Ends
	}
	if got := look(nil); got.Basis != estimate.BasisDeclared {
		t.Errorf("it rests on %s", got.Basis)
	}
	at := func(h estimate.Span, done float64) estimate.Point {
		return estimate.Point{Ran: h * estimate.Hour, Done: done}
	}
	got := look(estimate.Reports{at(2, 0.16), at(4, 0.33), at(6, 0.5), at(10, 0.83)})
	if got.Basis != estimate.BasisProgress || got.From > now.add(2*estimate.Hour) || got.To < now.add(2*estimate.Hour) {
		t.Errorf("got %+v: two hours remain", got)
	}
	clock := func(Instant) string { return "then" }
	got.To = got.From.add(24 * estimate.Hour)
	if words := got.Render(clock); words != "between then and then (from the progress that is reported)" {
		t.Errorf("got %q", words)
	}
	got.To = got.To.add(estimate.Hour)
	if words := got.Render(clock); words != "not before then, and most likely by then (from the progress that is reported)" {
		t.Errorf("a range of more than a day is %q", words)
	}
}

// A waiting gang that was evicted is taken in turn by what it reported: more
// than a class is not gained by one report.
func TestOneReportMovesAWaitingGangByAClassAtMost(t *testing.T) {
	c := NewCore(Options{})
	c.SetQueues([]queue.Spec{})
	class := func(r estimate.Reports) int {
		c.SetRequest(gang("w").role("worker", 1, 1).with(func(q *Request) {
			q.Ran, q.Evidence = 10*estimate.Minute, estimate.Evidence{Declared: 30 * estimate.Hour, Reports: r}
		}).obj())
		return c.entries["uid-w"].length
	}
	without := class(nil)
	if got := class(estimate.Reports{{Ran: 10 * estimate.Minute, Done: 0.99}}); got < without-1 {
		t.Errorf("class %d instead of %d", got, without)
	}
}
