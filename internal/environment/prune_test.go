//go:build linux

package environment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/internal/environment/retention"
)

const day = 24 * time.Hour

// keyOf makes a key of a number.
func keyOf(n int) string { return fmt.Sprintf("%064x", n+1) }

// built makes an environment as a builder leaves it, last reserved and used so
// long ago. Without a marker it is one that was never finished.
func built(t testing.TB, dir, key string, complete bool, reserved, used time.Duration) string {
	t.Helper()
	home := filepath.Join(dir, key)
	venv := filepath.Join(home, venvDir)
	must(t, os.MkdirAll(filepath.Join(venv, "bin"), 0o755))
	must(t, os.MkdirAll(filepath.Join(venv, "lib"), 0o755))
	must(t, os.WriteFile(filepath.Join(venv, "bin", "python"), []byte("#!/bin/sh\n"), 0o755))
	must(t, os.WriteFile(filepath.Join(venv, "lib", "module.py"), []byte("print(1)\n"), 0o644))
	must(t, os.WriteFile(filepath.Join(home, buildLock), nil, 0o600))
	must(t, os.WriteFile(filepath.Join(home, logFile), []byte("log"), 0o600))
	now := time.Now()
	if complete {
		data, err := json.Marshal(marker{Path: venv, Python: "3"})
		must(t, err)
		must(t, os.WriteFile(filepath.Join(home, markerFile), data, 0o644))
		note(home, markerFile, now.Add(-reserved))
		if used > 0 {
			note(home, useFile, now.Add(-used))
		}
	}
	note(home, logFile, now.Add(-reserved))
	must(t, os.Chtimes(home, now.Add(-reserved), now.Add(-reserved)))
	return home
}

// intact reports whether everything that built made is there.
func intact(home string) bool {
	_, ready := readyAt(home)
	_, err := os.Stat(filepath.Join(home, venvDir, "lib", "module.py"))
	return ready && err == nil
}

func rule(kept time.Duration, live ...string) retention.Rule {
	r := retention.Rule{Now: time.Now(), Retention: kept}
	for _, key := range live {
		r.Live.Mention(key)
	}
	return r
}

func TestPruneAges(t *testing.T) {
	for _, c := range []struct {
		name           string
		unfinished     bool
		live           bool
		reserved, used time.Duration
		retention      time.Duration
		before         func(t *testing.T, home string) // something that happens meanwhile
		gone           bool
	}{
		{name: "old", reserved: 15 * day, retention: 14 * day, gone: true},
		{name: "not old", reserved: 13 * day, retention: 14 * day},
		{name: "old, used lately", reserved: 15 * day, used: day, retention: 14 * day},
		{name: "old, and somebody refers to it", live: true, reserved: 900 * day, retention: 0},
		{name: "built half an hour ago, everything is to go", reserved: 30 * time.Minute},
		{name: "built two hours ago, everything is to go", reserved: 2 * time.Hour, used: time.Second, gone: true},
		{name: "reserved just now, everything is to go", reserved: 15 * day, before: func(t *testing.T, home string) {
			if _, ok := reserve(home, time.Now()); !ok {
				t.Fatal("not ready")
			}
		}},
		{name: "being reserved", reserved: 15 * day, before: func(t *testing.T, home string) { hold(t, home, unix.LOCK_SH) }},
		{name: "being built", unfinished: true, reserved: 2 * time.Hour, before: func(t *testing.T, home string) { hold(t, home, unix.LOCK_EX) }},
		{name: "a build that ended half an hour ago", unfinished: true, reserved: 30 * time.Minute},
		{name: "a build that ended two hours ago, whatever is retained", unfinished: true, reserved: 2 * time.Hour, retention: 14 * day, gone: true},
		{name: "a build that a job waits for", unfinished: true, live: true, reserved: 2 * time.Hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			home := built(t, dir, keyOf(1), !c.unfinished, c.reserved, c.used)
			must(t, os.WriteFile(filepath.Join(dir, "note"), []byte("somebody's own file"), 0o600))
			if c.before != nil {
				c.before(t, home)
			}
			r := rule(c.retention)
			if c.live {
				r.Live.Mention(keyOf(1))
			}
			dry := r
			dry.DryRun = true
			would, err := Prune(t.Context(), dir, dry)
			must(t, err)
			if _, err := os.Stat(home); err != nil {
				t.Fatalf("a dry run removed it: %v", err)
			}
			out, err := Prune(t.Context(), dir, r)
			must(t, err)
			_, err = os.Stat(home)
			if gone := os.IsNotExist(err); gone != c.gone || (out.Bytes > 0) != c.gone || (out.Kept == 0) != c.gone {
				t.Errorf("gone: %v, %+v", gone, out)
			}
			if would.Bytes != out.Bytes || len(would.Removed) != len(out.Removed) {
				t.Errorf("a dry run says %+v, the real one %+v", would, out)
			}
			if left, _ := os.ReadDir(filepath.Join(dir, removedDir)); len(left) > 0 {
				t.Errorf("left over: %v", left)
			}
			if _, err := os.Stat(filepath.Join(dir, "note")); err != nil {
				t.Error("something that is no environment is gone")
			}
		})
	}
}

// hold holds an environment's lock until the test ends.
func hold(t *testing.T, home string, how int) {
	t.Helper()
	f, err := lockHome(home, how)
	must(t, err)
	t.Cleanup(func() { _ = f.Close() })
}

func TestPruneOnceAtATime(t *testing.T) {
	dir := t.TempDir()
	built(t, dir, keyOf(1), true, 15*day, 0)
	must(t, os.MkdirAll(filepath.Join(dir, removedDir), 0o755))
	unlock, err := holdDir(filepath.Join(dir, removedDir))
	must(t, err)
	if _, err := Prune(t.Context(), dir, rule(0)); err == nil || !strings.Contains(err.Error(), "being pruned already") {
		t.Errorf("got %v", err)
	}
	unlock()
	if out, err := Prune(t.Context(), dir, rule(0)); err != nil || len(out.Removed) != 1 {
		t.Errorf("%+v, %v", out, err)
	}
	if out, err := Prune(t.Context(), filepath.Join(dir, "none"), rule(0)); err != nil || out.Kept != 0 {
		t.Errorf("a folder that is not there: %+v, %v", out, err)
	}
}

// TestPruneNotesTheUseOfWhatIsLive: what was referred to until yesterday was
// used until yesterday.
func TestPruneNotesTheUseOfWhatIsLive(t *testing.T) {
	dir := t.TempDir()
	home := built(t, dir, keyOf(1), true, 300*day, 290*day)
	_, err := Prune(t.Context(), dir, rule(14*day, keyOf(1)))
	must(t, err)
	later := rule(14 * day)
	later.Now = later.Now.Add(13 * day)
	_, err = Prune(t.Context(), dir, later)
	must(t, err)
	if !intact(home) {
		t.Fatal("gone before its time")
	}
	later.Now = later.Now.Add(2 * day)
	if out, err := Prune(t.Context(), dir, later); err != nil || len(out.Removed) != 1 {
		t.Fatalf("%+v, %v", out, err)
	}
}

var errKilled = errors.New("killed")

// brittleDisk is killed at its nth step. A folder whose removal is under way
// then loses only part of its content.
type brittleDisk struct {
	osDisk
	left int
	dead bool
}

func (d *brittleDisk) step() error {
	if d.left == 0 {
		d.dead = true
	}
	if d.dead {
		return errKilled
	}
	d.left--
	return nil
}

func (d *brittleDisk) mkdir(path string) error {
	return errors.Join(d.step(), d.unlessDead(func() error { return d.osDisk.mkdir(path) }))
}

func (d *brittleDisk) rename(from, to string) error {
	return errors.Join(d.step(), d.unlessDead(func() error { return d.osDisk.rename(from, to) }))
}

func (d *brittleDisk) syncDir(string) error { return d.step() }

func (d *brittleDisk) removeAll(path string) error {
	if err := d.step(); err != nil {
		_ = os.RemoveAll(filepath.Join(path, venvDir, "lib"))
		return err
	}
	return d.osDisk.removeAll(path)
}

func (d *brittleDisk) unlessDead(f func() error) error {
	if d.dead {
		return nil
	}
	return f()
}

// TestPruneWhereverItIsKilled prunes random folders of environments, killed at
// each step in turn: whatever must stay is intact, what is in its place is
// whole, and the next pass finishes what was begun.
func TestPruneWhereverItIsKilled(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			for n := 0; ; n++ {
				random := rand.New(rand.NewPCG(seed, 2)) // the same folder each time
				dir := t.TempDir()
				var live []string
				stays, goes := map[string]bool{}, map[string]bool{}
				for i := range 1 + random.IntN(5) {
					key, age := keyOf(i), time.Duration(random.IntN(30))*day
					complete := random.IntN(4) > 0
					home := built(t, dir, key, complete, age, 0)
					isLive := random.IntN(3) == 0
					if isLive {
						live = append(live, key)
					}
					switch {
					case complete && (isLive || age < 14*day):
						stays[home] = true
					case !isLive && age >= 14*day:
						goes[home] = true
					}
				}
				disk := &brittleDisk{left: n}
				p := &pruning{dir: dir, rule: rule(14*day, live...), disk: disk}
				if err := p.run(t.Context()); err != nil && !errors.Is(err, errKilled) {
					t.Fatal(err)
				}
				check := func(ended bool) {
					t.Helper()
					for home := range stays {
						if !intact(home) {
							t.Fatalf("%s is not intact", home)
						}
					}
					for home := range goes {
						_, err := os.Stat(home)
						if _, ready := readyAt(home); ready && !intact(home) || ended && err == nil {
							t.Fatalf("%s is neither whole nor gone", home)
						}
					}
				}
				check(false)
				_, err := Prune(t.Context(), dir, rule(14*day, live...))
				must(t, err)
				check(true)
				if left, _ := os.ReadDir(filepath.Join(dir, removedDir)); len(left) > 0 {
					t.Fatalf("left over: %v", left)
				}
				if !disk.dead {
					return
				}
			}
		})
	}
}

// TestPruneBesideThoseWhoReserve has people find environments ready, as Ensure
// does, all the time: what they were told is ready is there afterwards.
func TestPruneBesideThoseWhoReserve(t *testing.T) {
	dir := t.TempDir()
	const environments = 30
	var people sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	homes := make([]string, environments)
	for i := range homes {
		homes[i] = built(t, dir, keyOf(i), true, 15*day, 0)
	}
	reserved := make([]bool, environments)
	people.Go(func() {
		for i, home := range homes {
			if i%2 == 0 {
				_, reserved[i] = reserve(home, time.Now())
			}
		}
	})
	out, err := Prune(ctx, dir, rule(0))
	must(t, err)
	people.Wait()
	for i, home := range homes {
		if reserved[i] && !intact(home) {
			t.Errorf("environment %d was said to be ready, and is gone", i)
		}
	}
	if len(out.Removed)+out.Kept != environments {
		t.Errorf("%d went and %d stay, of %d", len(out.Removed), out.Kept, environments)
	}
}

// TestBuildOverWhatIsBeingPruned waits for a prune that has the lock, and
// builds in a folder of its own, not in the one that went.
func TestBuildOverWhatIsBeingPruned(t *testing.T) {
	dir := t.TempDir()
	home := built(t, dir, keyOf(1), true, 15*day, 0)
	held, err := lockHome(home, unix.LOCK_EX)
	must(t, err)
	waiting := make(chan State, 1)
	b := &build{home: home, key: keyOf(1), now: time.Now, tell: func(s State) {
		select {
		case waiting <- s:
		default:
		}
	}}
	locked := make(chan error, 1)
	go func() { locked <- b.lock(t.Context()) }()
	<-waiting
	p := &pruning{dir: dir, rule: rule(0), disk: osDisk{}}
	must(t, os.MkdirAll(filepath.Join(dir, removedDir), 0o755))
	must(t, p.takeOut(keyOf(1)))
	must(t, held.Close())
	must(t, <-locked)
	defer func() { _ = b.held.Close() }()
	if !samePlace(b.held, filepath.Join(home, buildLock)) {
		t.Error("the lock is that of the folder that went")
	}
	if _, ready := readyAt(home); ready {
		t.Error("what went is said to be ready")
	}
}

// TestEnsureAfterAPrune: an environment that went is looked at anew when it is
// asked for again, by a builder that took it for ready.
func TestEnsureAfterAPrune(t *testing.T) {
	r := start(t, Options{})
	request := Request{Python: "3"}
	got, _ := r.settled(t, request)
	if got.Phase != Ready {
		t.Fatalf("%+v", got)
	}
	later := rule(0)
	later.Now = later.Now.Add(2 * time.Hour)
	if out, err := Prune(t.Context(), r.opts.Dir, later); err != nil || len(out.Removed) != 1 || out.Removed[0].Name != got.Key {
		t.Fatalf("%+v, %v", out, err)
	}
	if _, err := r.Path(got.Key); err == nil {
		t.Error("it is still said to be there")
	}
	if again := r.Ensure(request); again.Phase != Building {
		t.Errorf("%+v", again)
	}
}
