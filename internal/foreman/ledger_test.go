package foreman

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/internal/foreman/shift"
)

// start is when the tests' time begins.
var start = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// prepare makes a ledger of so many datums that are all in stock.
func prepare(n, tries int, failFast bool) *ledger {
	datums := make([]Datum, n)
	for i := range datums {
		datums[i].ID = fmt.Sprint(i)
	}
	l := newLedger(datums, tries, failFast)
	for i, ok := l.next(); ok; i, ok = l.next() {
		l.prepared(i, "")
	}
	return l
}

func (l *ledger) hello(worker, member string, at time.Time) []int {
	return l.see(&shift.Request{Worker: worker, Member: member, GPUs: 1}, at)
}

func TestEveryoneHasSome(t *testing.T) {
	l := prepare(8, 1, false)
	l.hello("a", "0", start)
	l.hello("b", "1", start)
	if got := l.take("a", 100); len(got) != 2 {
		t.Errorf("of 8 for two workers one took %v", got)
	}
	if got := l.take("b", 1); !cmp.Equal(got, []int{2}) {
		t.Errorf("the other took %v", got)
	}
}

func TestWhoIsGoneHasNothing(t *testing.T) {
	for name, c := range map[string]struct {
		lose func(*ledger) []int
		want []int
	}{
		"not heard of":       {func(l *ledger) []int { return l.expire(start.Add(time.Second)) }, []int{0}},
		"heard of":           {func(l *ledger) []int { return l.expire(start) }, nil},
		"another in a place": {func(l *ledger) []int { return l.hello("a2", "0", start) }, []int{0}},
		"one of another":     {func(l *ledger) []int { return l.hello("b", "1", start) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			l := prepare(3, 2, false)
			l.hello("a", "0", start)
			l.take("a", 1)
			if diff := cmp.Diff(c.want, c.lose(l)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTries(t *testing.T) {
	bad := func(l *ledger, worker string) { l.done(shift.Outcome{ID: "0", Error: "bad", Worker: worker}) }
	l := prepare(2, 2, true)
	l.hello("a", "0", start)
	l.take("a", 1)
	bad(l, "a")
	if i, ok := l.next(); !ok || i != 0 || l.empty() {
		t.Fatal("a datum that failed once is not tried again")
	}
	l.prepared(0, "")
	l.take("a", 1) // the second datum, which was there before
	l.take("a", 1)
	bad(l, "a")
	if !l.stopped || !l.empty() || !cmp.Equal(l.pending, []int{0}) {
		t.Errorf("after all tries: stopped %v, pending %v", l.stopped, l.pending)
	}
	l.keep(l.drain())
	if !l.over() || l.counts.Failed != 1 {
		t.Errorf("the failure is recorded, and it goes on: %+v", l.counts)
	}
}

func TestDoneTwice(t *testing.T) {
	l := prepare(1, 1, false)
	l.hello("a", "0", start)
	l.take("a", 1)
	l.again(0, false, "") // its worker was taken for dead
	if !l.done(shift.Outcome{ID: "0", Worker: "a"}) {
		t.Error("who was taken for dead is not heard")
	}
	if l.done(shift.Outcome{ID: "0", Worker: "b", Error: "late"}) || l.done(shift.Outcome{ID: "of another work"}) {
		t.Error("what is done can be done again")
	}
	if _, ok := l.next(); ok {
		t.Error("what is done is prepared again")
	}
	l.keep(l.drain())
	if !l.over() || l.counts.Computed != 1 {
		t.Errorf("%+v", l.counts)
	}
}

func TestBegunIsTried(t *testing.T) {
	l := prepare(1, 1, false)
	l.hello("a", "0", start)
	l.take("a", 1)
	l.again(0, true, "its worker ended")
	if e := &l.entries[0]; !e.failed || e.outcome.Error != "its worker ended" {
		t.Errorf("a datum that takes its worker along is tried for ever: %+v", e)
	}
}

func TestUnfetched(t *testing.T) {
	l := newLedger([]Datum{{ID: "0"}}, 3, false)
	i, _ := l.next()
	l.prepared(i, "the object is damaged")
	l.keep(l.drain())
	if !l.over() || l.counts.Failed != 1 {
		t.Errorf("%+v", l.counts)
	}
}

func TestIdleGPUs(t *testing.T) {
	l := prepare(2, 1, false)
	l.hello("a", "0", start)
	l.take("a", 1)
	l.done(shift.Outcome{ID: "0", Worker: "a", Took: 6 * time.Second})
	held, idle := l.gpus(start.Add(10 * time.Second))
	if held != 10 || idle != 4 {
		t.Errorf("held for %v s, idle for %v s", held, idle)
	}
	l.see(&shift.Request{Worker: "a", Leaving: true}, start.Add(10*time.Second))
	if held, _ := l.gpus(start.Add(time.Hour)); held != 10 {
		t.Errorf("who left holds GPUs for %v s", held)
	}
}

// TestMore: a work that is over goes on with what comes to it, and has each once.
func TestMore(t *testing.T) {
	l := newLedger([]Datum{{ID: "a"}}, 1, false)
	compute := func(id string) {
		t.Helper()
		i, ok := l.next()
		if !ok || l.entries[i].ID != id {
			t.Fatalf("the next is not %s", id)
		}
		l.prepared(i, "")
		if !l.done(shift.Outcome{ID: id}) {
			t.Errorf("%s is no news", id)
		}
		l.keep(l.drain())
	}
	compute("a")
	if !l.over() {
		t.Error("it is not over")
	}
	l.add([]Datum{{ID: "a"}, {ID: "b"}})
	if l.over() || l.empty() || l.counts.Total != 2 {
		t.Errorf("there is more: %+v", l.counts)
	}
	compute("b")
	if !l.over() || l.counts.Computed != 2 {
		t.Errorf("%+v", l.counts)
	}
}

// TestArriving: what is being put into its place is nobody's to take, to bring again
// or to compute, until that is over; and who has said how a datum ended is not left
// with it by what it said before.
func TestArriving(t *testing.T) {
	l := newLedger([]Datum{{ID: "a"}}, 2, false)
	now := time.Unix(0, 0)
	l.see(&shift.Request{Worker: "x", Member: "0"}, now)
	i, _ := l.next()
	l.prepared(i, "")
	l.take("x", 1)
	if !l.claim(i, "x") {
		t.Fatal("who has it cannot bring it")
	}
	l.entries[i].arriving = true
	if l.claim(i, "y") || l.adoptable(i, "y") {
		t.Error("another takes what is arriving")
	}
	if l.again(i, true, "gone"); l.entries[i].state != held {
		t.Errorf("what is arriving is given up: %v", l.entries[i].state)
	}
	l.entries[i].arriving = false
	l.done(shift.Outcome{ID: "a", Worker: "x", Error: "exit code 1"})
	if l.entries[i].state != waiting || l.adoptable(i, "x") || !l.adoptable(i, "y") {
		t.Errorf("after it failed it is %v; x: %v, y: %v", l.entries[i].state, l.adoptable(i, "x"), l.adoptable(i, "y"))
	}
}

// There is an end to how many workers are known; those that are gone make place, and
// what they held still counts.
func TestWorkersAreBounded(t *testing.T) {
	l := newLedger(nil, 1, false)
	start := time.Unix(0, 0)
	for i := range mostHands {
		r := &shift.Request{Worker: fmt.Sprint(i), GPUs: 1}
		if !l.admits(r.Worker) {
			t.Fatalf("worker %d is not heard", i)
		}
		l.see(r, start)
	}
	if l.admits("another") || !l.admits("7") {
		t.Error("there is a place for another, or none for one that is known")
	}
	l.see(&shift.Request{Worker: "7", Leaving: true}, start.Add(10*time.Second))
	if !l.admits("another") {
		t.Error("who left makes no place")
	}
	if held, _ := l.gpus(start); held != 10 {
		t.Errorf("%v GPU seconds are known, want those of who left: 10", held)
	}
}

// TestOutcomeOfAnother: what stands in the mark of a datum whose worker is gone counts
// if it is that datum's; else the datum waits for another worker.
func TestOutcomeOfAnother(t *testing.T) {
	for of, again := range map[string]bool{"0": false, "7": true} {
		l := prepare(3, 2, false)
		l.hello("a", "0", start)
		l.take("a", 1)
		w := &Work{dir: t.TempDir(), ledger: l, news: make(chan struct{}), wake: make(chan struct{}, 1)}
		folder := w.datumFolder("0")
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, shift.OutcomeFile), fmt.Appendf(nil, `{"id":%q,"exit":0}`, of), 0o600); err != nil {
			t.Fatal(err)
		}
		w.lose([]int{0}, "its worker ended")
		if got := l.entries[0].state == waiting; got != again {
			t.Errorf("with an outcome of %s it waits: %v, want %v", of, got, again)
		}
	}
}

// TestOutcomesThatAreNone: what a program put in the place of an outcome is neither waited
// for nor followed, as one that a Muster looks at which has just begun.
func TestOutcomesThatAreNone(t *testing.T) {
	elsewhere := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(elsewhere, []byte(`{"id":"0"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		put func(at string) error
		is  bool
	}{
		"an outcome": {func(at string) error { return os.WriteFile(at, []byte(`{"id":"0"}`), 0o600) }, true},
		"a pipe":     {func(at string) error { return syscall.Mkfifo(at, 0o600) }, false},
		"a link":     {func(at string) error { return os.Symlink(elsewhere, at) }, false},
		"a device":   {func(at string) error { return os.Symlink("/dev/zero", at) }, false},
		"a folder":   {func(at string) error { return os.Mkdir(at, 0o700) }, false},
		"too long": {func(at string) error {
			return os.WriteFile(at, append(bytes.Repeat([]byte(" "), mostOutcome), `{"id":"0"}`...), 0o600)
		}, false},
		"nothing": {func(string) error { return nil }, false},
	} {
		folder := t.TempDir()
		if err := c.put(filepath.Join(folder, shift.OutcomeFile)); err != nil {
			t.Fatal(err)
		}
		if o, ok := readOutcome(folder); ok != c.is || ok && o.ID != "0" {
			t.Errorf("%s: %+v, %v", name, o, ok)
		}
	}
}
