package source

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/internal/environment/retention"
)

const day = 24 * time.Hour

// age makes a snapshot look as if it had been reserved, and perhaps used, so
// long ago.
func age(t testing.TB, s *Store, digest string, reserved, used time.Duration) {
	t.Helper()
	name := strings.TrimPrefix(digest, digestPrefix)
	now := time.Now()
	must(t, os.Chtimes(s.path(treesDir, name), now.Add(-reserved), now.Add(-reserved)))
	if used > 0 {
		s.noteUse(name, now.Add(-used))
	}
}

// rule is one at this moment, with these snapshots live.
func rule(kept time.Duration, live ...string) retention.Rule {
	r := retention.Rule{Now: time.Now(), Retention: kept}
	for _, digest := range live {
		r.Live.Mention(digest)
	}
	return r
}

func take(t testing.TB, s *Store, dir string) string {
	t.Helper()
	result, err := s.Snapshot(t.Context(), dir, Options{})
	must(t, err)
	return result.Digest
}

// whole fails the test unless the snapshot can be laid out as the folder is.
func whole(t testing.TB, s *Store, digest, dir string) {
	t.Helper()
	dst := filepath.Join(t.TempDir(), "out")
	must(t, s.Checkout(t.Context(), digest, dst))
	if diff := cmp.Diff(listing(t, dir), listing(t, dst)); diff != "" {
		t.Fatalf("%s is not what was stored:\n%s", digest, diff)
	}
}

func TestPruneKeepsWhatIsReferredToAndWhatIsShared(t *testing.T) {
	s := newStore(t)
	live := files(t, map[string]string{"a.py": "live", "shared": "both have this"})
	dead := files(t, map[string]string{"a.py": "dead", "sub/shared": "both have this"})
	fresh := files(t, map[string]string{"a.py": "fresh"})
	used := files(t, map[string]string{"a.py": "used"})
	digests := map[string]string{}
	for name, dir := range map[string]string{"live": live, "dead": dead, "fresh": fresh, "used": used} {
		digests[name] = take(t, s, dir)
		age(t, s, digests[name], 30*day, 0)
	}
	age(t, s, digests["used"], 30*day, 2*day)
	take(t, s, fresh) // stored again, which costs nothing, reserves it

	dry := rule(14*day, digests["live"])
	dry.DryRun = true
	would, err := s.Prune(t.Context(), dry)
	must(t, err)
	whole(t, s, digests["dead"], dead)
	age(t, s, digests["dead"], 30*day, 30*day) // laying it out was a use
	out, err := s.Prune(t.Context(), rule(14*day, digests["live"]))
	must(t, err)
	if would.Bytes != out.Bytes || len(would.Removed) != 1 || would.Kept != out.Kept {
		t.Errorf("a dry run says %+v, the real one %+v", would, out)
	}
	if len(out.Removed) != 1 || out.Removed[0].Name != digests["dead"] || out.Removed[0].Bytes != int64(len("dead")+len("both have this")) || out.Kept != 3 {
		t.Errorf("%+v", out)
	}
	if out.Bytes <= int64(len("dead")) || out.Bytes > 1000 {
		t.Errorf("%d bytes were freed", out.Bytes)
	}
	for name, dir := range map[string]string{"live": live, "fresh": fresh, "used": used} {
		whole(t, s, digests[name], dir)
	}
	if s.Has(digests["dead"]) {
		t.Error("the dead one is still there")
	}
	if again := take(t, s, dead); again != digests["dead"] {
		t.Errorf("stored again as %s", again)
	}
	whole(t, s, digests["dead"], dead)
}

func TestPruneAges(t *testing.T) {
	for _, c := range []struct {
		name           string
		reserved, used time.Duration
		retention      time.Duration
		reserve        func(s *Store, digest, dir string)
		gone           bool
	}{
		{"old", 15 * day, 0, 14 * day, nil, true},
		{"not old", 13 * day, 0, 14 * day, nil, false},
		{"old, used lately", 15 * day, day, 14 * day, nil, false},
		{"stored half an hour ago, everything is to go", 30 * time.Minute, 0, 0, nil, false},
		{"stored two hours ago, everything is to go", 2 * time.Hour, time.Second, 0, nil, true},
		{"found for a job just now", 15 * day, 0, 0, func(s *Store, digest, _ string) { s.Has(digest) }, false},
		{"stored again just now", 15 * day, 0, 0, func(s *Store, _, dir string) { take(t, s, dir) }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStore(t)
			dir := files(t, map[string]string{"a.py": c.name})
			digest := take(t, s, dir)
			age(t, s, digest, c.reserved, c.used)
			if c.reserve != nil {
				c.reserve(s, digest, dir)
			}
			out, err := s.Prune(t.Context(), rule(c.retention))
			must(t, err)
			if gone := len(out.Removed) == 1; gone != c.gone || s.Has(digest) == gone {
				t.Errorf("%+v", out)
			}
		})
	}
}

// TestPruneNotesTheUseOfWhatIsLive: what was referred to until yesterday was
// used until yesterday.
func TestPruneNotesTheUseOfWhatIsLive(t *testing.T) {
	s := newStore(t)
	digest := take(t, s, files(t, map[string]string{"a.py": "1"}))
	age(t, s, digest, 300*day, 290*day)
	_, err := s.Prune(t.Context(), rule(14*day, digest))
	must(t, err)
	later := rule(14 * day)
	later.Now = later.Now.Add(13 * day)
	out, err := s.Prune(t.Context(), later)
	must(t, err)
	if out.Kept != 1 {
		t.Fatalf("%+v", out)
	}
	later.Now = later.Now.Add(2 * day)
	if out, err = s.Prune(t.Context(), later); err != nil || len(out.Removed) != 1 {
		t.Fatalf("%+v, %v", out, err)
	}
	for _, part := range []string{blobsDir, treesDir, usesDir, indexDir, tempDir} {
		if left := regular(t, filepath.Join(s.dir, part)); len(left) != 0 {
			t.Errorf("left in %s: %v", part, left)
		}
	}
}

// regular lists the files below a folder.
func regular(t testing.TB, dir string) (paths []string) {
	t.Helper()
	for path, what := range listing(t, dir) {
		if strings.HasPrefix(what, "-") {
			paths = append(paths, path)
		}
	}
	return paths
}

// TestPruneTouchesNothingThatItCannotRead: a list of files that is of a later
// version names contents that this program knows nothing of.
func TestPruneTouchesNothingThatItCannotRead(t *testing.T) {
	s := newStore(t)
	dead := take(t, s, files(t, map[string]string{"a.py": "dead"}))
	age(t, s, dead, 30*day, 0)
	later := &tree{Version: treeVersion + 1}
	data, name, err := later.encode()
	must(t, err)
	must(t, s.putTree(name, data))
	if _, err := s.Prune(t.Context(), rule(0)); err == nil || !strings.Contains(err.Error(), "this program reads version 1") {
		t.Errorf("got %v", err)
	}
	if !s.Has(dead) {
		t.Error("something was removed all the same")
	}
}

// world is a store with folders that share contents, some of them live.
type world struct {
	home string
	dirs map[string]string // by digest
	live []string
	old  map[string]bool
}

// newWorld makes a random one. Old snapshots were last used 30 days ago.
func newWorld(t *testing.T, random *rand.Rand) *world {
	w := &world{home: filepath.Join(t.TempDir(), "code"), dirs: map[string]string{}, old: map[string]bool{}}
	s, err := Open(w.home)
	must(t, err)
	for range 2 + random.IntN(4) {
		table := map[string]string{}
		for range 1 + random.IntN(4) {
			table[fmt.Sprintf("d%d/f%d", random.IntN(2), random.IntN(3))] = fmt.Sprint("content ", random.IntN(6))
		}
		dir := files(t, table)
		digest := take(t, s, dir)
		w.dirs[digest] = dir
		if w.old[digest] = random.IntN(3) > 0; w.old[digest] {
			age(t, s, digest, 30*day, 30*day)
		}
		if random.IntN(2) == 0 {
			w.live = append(w.live, digest)
		}
	}
	// What an interrupted writer left.
	orphan := s.path(blobsDir, strings.Repeat("0f", 32))
	must(t, os.MkdirAll(filepath.Dir(orphan), 0o700))
	must(t, os.WriteFile(orphan, []byte("nobody's"), 0o600))
	must(t, os.WriteFile(filepath.Join(w.home, tempDir, "left"), nil, 0o600))
	return w
}

// check fails unless everything that must stay is whole, everything else that
// the store says it has is whole as well and, once it was pruned to the end,
// nothing else is there.
func (w *world) check(t *testing.T, ended bool) {
	t.Helper()
	s, err := Open(w.home)
	must(t, err)
	live := rule(0, w.live...).Live
	needed := map[string]bool{}
	for digest, dir := range w.dirs {
		must := !w.old[digest] || live.Has(digest)
		there := s.stored(digest)
		switch {
		case must && !there:
			t.Fatalf("%s is gone (old %v, live %v)", digest, w.old[digest], live.Has(digest))
		case ended && !must && there:
			t.Fatalf("%s is still there", digest)
		case there:
			whole(t, s, digest, dir)
			list, err := s.readTree(digest)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range list.Entries {
				needed[e.Hash] = true
			}
		}
	}
	if !ended {
		return
	}
	for _, path := range regular(t, filepath.Join(w.home, blobsDir)) {
		if !needed[filepath.Base(path)] {
			t.Fatalf("blob %s is still there", path)
		}
	}
	if left := regular(t, filepath.Join(w.home, tempDir)); len(left) > 0 {
		t.Fatalf("left over: %v", left)
	}
}

// stored is Has without reserving anything.
func (s *Store) stored(digest string) bool {
	_, err := os.Lstat(s.path(treesDir, strings.TrimPrefix(digest, digestPrefix)))
	return err == nil
}

// TestPruneWhereverItIsKilled prunes random stores, losing power at each step
// in turn: nothing that must stay is lost, whatever is still named is whole,
// and the next pass finishes what was begun.
func TestPruneWhereverItIsKilled(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			for n := 0; ; n++ {
				random := rand.New(rand.NewPCG(seed, 1)) // the same world each time
				w := newWorld(t, random)
				disk := newBrittleDisk(-1)
				s, err := open(w.home, disk)
				must(t, err)
				must(t, os.WriteFile(filepath.Join(w.home, tempDir, "left"), nil, 0o600))
				disk.left, disk.count = n, 0
				_, err = s.Prune(t.Context(), rule(14*day, w.live...))
				if err != nil && !errors.Is(err, errPower) {
					t.Fatal(err)
				}
				killed := disk.dead
				disk.lose(t, func() bool { return random.IntN(2) == 0 })
				w.check(t, false)
				// Everything was laid out just now by the check, if at all.
				s, err = Open(w.home)
				must(t, err)
				for digest := range w.dirs {
					if w.old[digest] && s.stored(digest) {
						age(t, s, digest, 30*day, 30*day)
					}
				}
				_, err = s.Prune(t.Context(), rule(14*day, w.live...))
				must(t, err)
				w.check(t, true)
				if !killed {
					return
				}
			}
		})
	}
}

// TestPruneBesideThoseWhoStore has several people store folders that share
// contents with what is being removed, and lay them out, all the time.
func TestPruneBesideThoseWhoStore(t *testing.T) {
	home := filepath.Join(t.TempDir(), "code")
	shared := make([]map[string]string, 6)
	for i := range shared {
		shared[i] = map[string]string{"same": "everybody's", fmt.Sprint("mine", i): fmt.Sprint("content ", i), "half": fmt.Sprint(i / 2)}
	}
	pruner, err := Open(home)
	must(t, err)
	var people sync.WaitGroup
	for i := range shared {
		dir := files(t, shared[i])
		people.Go(func() {
			s, err := Open(home)
			if err != nil {
				t.Error(err)
				return
			}
			for range 15 {
				result, err := s.Snapshot(t.Context(), dir, Options{})
				if err != nil {
					t.Error(err)
					return
				}
				dst := filepath.Join(t.TempDir(), "out")
				if err := s.Checkout(t.Context(), result.Digest, dst); err != nil {
					t.Errorf("what was stored is gone: %v", err)
					return
				}
				// Forgotten, so that it is removed while others store the like.
				long := time.Now().Add(-2 * time.Hour)
				_ = os.Chtimes(s.path(treesDir, strings.TrimPrefix(result.Digest, digestPrefix)), long, long)
			}
		})
	}
	done := make(chan struct{})
	go func() { defer close(done); people.Wait() }()
	removed := 0
	for {
		out, err := pruner.Prune(t.Context(), rule(0))
		must(t, err)
		removed += len(out.Removed)
		select {
		case <-done:
			if removed == 0 {
				t.Error("nothing was ever removed")
			}
			return
		default:
		}
	}
}
