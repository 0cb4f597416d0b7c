package data

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/muster-dev/muster/internal/data/holder"
)

// TestALeaseEndsWithItsProcess: the next collection removes the data that a killed process kept,
// and reports the data that a living one keeps, with its holder.
func TestALeaseEndsWithItsProcess(t *testing.T) {
	for name, c := range map[string]struct {
		kill, keepEnded bool
		held            bool
	}{
		"it lives":                      {held: true},
		"it was killed":                 {kill: true},
		"a new Muster takes over first": {kill: true, keepEnded: true, held: true},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			p.store.lastRequest = 0
			id := abandoned(t, p, noise(2, 70_000))
			other := exec.CommandContext(t.Context(), "sleep", "1000")
			must(t, other.Start())
			end := func() { _ = other.Process.Kill(); _ = other.Wait() }
			defer end()
			n := note{TTL: time.Hour, Holder: holder.Of(other.Process.Pid)}
			n.Commits = append(n.Commits, id)
			text, err := json.Marshal(n)
			must(t, err)
			must(t, p.store.putLease(t.Context(), leasePrefix+"other", text))
			if c.kill {
				end()
			}
			r := collect(t, p, CollectOptions{KeepEnded: c.keepEnded})
			if got := r.Held != nil; got != c.held || got == (r.Packs > 0) {
				t.Fatalf("held %+v, and removed %d packs", r.Held, r.Packs)
			}
			if !c.held {
				return
			}
			if len(r.Held.By) != 1 || r.Held.By[0].Holder.PID != other.Process.Pid || time.Until(r.Held.Until) < 50*time.Minute || r.Held.Bytes < 70_000 {
				t.Errorf("%+v", r.Held)
			}
		})
	}
}

// TestYoungDataIsHeld: a collection right after a commit reports that it keeps the data, and the
// end of that time.
func TestYoungDataIsHeld(t *testing.T) {
	p := newPlace(t)
	abandoned(t, p, noise(2, 70_000))
	r := collect(t, p, CollectOptions{Grace: time.Hour})
	if r.Held == nil || len(r.Held.By) != 0 || r.Held.Bytes < 70_000 || time.Until(r.Held.Until) < 50*time.Minute {
		t.Errorf("%+v", r.Held)
	}
}

// TestNothingIsAddedWithoutRoom: content is refused, removals and collections go on.
func TestNothingIsAddedWithoutRoom(t *testing.T) {
	p := newPlace(t)
	put(t, p.Dataset, "main", Stream("f", strings.NewReader(noise(1, 70_000))), AddOptions{})
	full := fmt.Errorf("the disk is almost full: %w", syscall.ENOSPC)
	p.store.room = func(int64) error { return full }
	_, err := p.Put(t.Context(), "main", Stream("g", strings.NewReader(noise(2, 70_000))), PutOptions{})
	if err == nil || !strings.Contains(err.Error(), full.Error()) {
		t.Errorf("a put: %v", err)
	}
	s, err := p.Begin(t.Context(), "main", SessionOptions{})
	must(t, err)
	if n, err := s.Remove(t.Context(), "f"); err != nil || n != 1 {
		t.Errorf("a removal: %d, %v", n, err)
	}
	_, err = s.Commit(t.Context(), CommitOptions{})
	must(t, err)
	must(t, s.Close(t.Context()))
	must(t, p.Remove(t.Context(), branch("main")))
	if r := collect(t, p, CollectOptions{}); r.Bytes < 70_000 {
		t.Errorf("a collection: %+v", r)
	}
}
