package gateway

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/backend"
	"github.com/muster-dev/muster/internal/data/ref"
)

// TestGather has changes come to a lane one after the other.
func TestGather(t *testing.T) {
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		// answered and waiting are what the lane has just done, and who is there.
		answered, waiting int
		// every is how long after one another more come, and how many.
		every time.Duration
		more  int
		// each is how many bytes each of them has.
		each int
		// want is how many are taken, after how long, and started how many of them were
		// started before.
		want    int
		after   time.Duration
		started int
	}{
		"one alone never waits":            {waiting: 1, want: 1},
		"as many as were answered":         {answered: 3, every: 3 * ms, more: 9, want: 3, after: 9*ms + ms/2},
		"and who came meanwhile":           {answered: 3, waiting: 2, every: 3 * ms, more: 9, want: 5, after: 9*ms + ms/2},
		"who stays away is not missed":     {answered: 3, every: 3 * ms, more: 2, want: 2, after: 10*ms + ms/2},
		"nobody comes":                     {answered: 3, after: 4 * ms},
		"too slow after one another":       {answered: 3, every: 5 * ms, more: 9, after: 4 * ms},
		"not for ever":                     {answered: 99, every: 3 * ms, more: 99, want: 7, after: 24 * ms},
		"no more than a commit can have":   {answered: 9, waiting: 2 * batchChanges, want: batchChanges},
		"nor more bytes":                   {answered: 99, waiting: 3, every: 3 * ms, more: 99, each: batchBytes / 4, want: 4, after: 3*ms + ms/2, started: 3},
		"a few bytes more are not started": {answered: 8, waiting: 5, every: ms, more: 9, each: early/3 + 1, want: 13, after: 8*ms + ms/2, started: 11},
		"bytes for two commits":            {answered: 99, waiting: 9, each: batchBytes / 4, want: 4},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				one := func() *change { return &change{content: data.Content{Bytes: make([]byte, c.each)}} }
				l := &lane{gateway: &Gateway{o: Options{Gather: 24 * ms}}, arrived: make(chan struct{}, 1)}
				for range c.waiting {
					l.come(one())
				}
				if c.answered > 0 {
					l.expect(c.answered)
				}
				var coming sync.WaitGroup
				defer coming.Wait()
				coming.Go(func() {
					time.Sleep(ms / 2) // of the bubble's clock, so that no two things happen at once
					for range c.more {
						time.Sleep(c.every)
						l.come(one())
					}
				})
				begun := time.Now()
				started := 0
				l.gather(func(changes []*change) bool { started += len(changes); return true })
				took := time.Since(begun)
				if started != c.started {
					t.Errorf("%d were started before, want %d", started, c.started)
				}
				if got := len(l.take()); got != c.want || took != c.after {
					t.Errorf("%d after %s, want %d after %s", got, took, c.want, c.after)
				}
				if c.want == 0 && l.expected != 0 {
					t.Errorf("a lane that stops expects %d", l.expected)
				}
			})
		})
	}
}

// TestCommitsAhead has a store in a folder take contents while more are waited for: puts
// of one round are in one pack, with their tree, and of those that are refused, or are of
// another commit, nothing is in it.
func TestCommitsAhead(t *testing.T) {
	dir := t.TempDir()
	b, err := backend.OpenFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	r := serve(t, &world{
		datasets: map[placeName]*ref.Memory{{"team", "digits"}: {}},
		grants: map[string]Grant{
			"ALICE": {Secret: "wonderland", Namespace: "team", User: "alice"},
			"BOB":   {Secret: "builder", Namespace: "team", User: "bob"},
		},
	}, b)
	bob := r.as(t, "BOB", "builder")
	const clients, rounds = 8, 4
	var content [rounds][clients][early]byte // of which nothing can be compressed
	for round := range content {
		for i := range content[round] {
			_, _ = rand.Read(content[round][i][:])
		}
	}
	for round := range rounds {
		var all sync.WaitGroup
		for i := range clients {
			all.Go(func() {
				o := minio.PutObjectOptions{DisableMultipart: true}
				if i == 0 && round > 0 {
					o.SetMatchETagExcept("*") // it is there already
				}
				who := r.client.Client
				if i == 1 {
					who = bob.Client
				}
				_, err := who.PutObject(t.Context(), "digits", fmt.Sprintf("main/%d", i), bytes.NewReader(content[round][i][:]), early, o)
				if refused := i == 0 && round > 0; refused != (minio.ToErrorResponse(err).Code == minio.PreconditionFailed) {
					t.Errorf("%d of round %d: %v", i, round, err)
				}
			})
		}
		all.Wait()
	}
	for i := range clients {
		want := content[rounds-1][i][:]
		if i == 0 {
			want = content[0][i][:]
		}
		if got := r.get(t, fmt.Sprintf("main/%d", i)); got != string(want) {
			t.Errorf("%d is %d bytes, and not what was put last", i, len(got))
		}
	}
	r.stop()
	packs, bytes := files(t, filepath.Join(dir, "packs"))
	commits, _ := files(t, filepath.Join(dir, "commits"))
	if packs != commits {
		t.Errorf("%d packs for %d commits", packs, commits)
	}
	const accepted = (clients*rounds - (rounds - 1)) * early
	if bytes < accepted || bytes > accepted+early/2 {
		t.Errorf("%d bytes are stored of %d that were accepted", bytes, accepted)
	}
	if left, _ := files(t, filepath.Join(dir, ".incoming")); left > 0 {
		t.Errorf("%d files that were being written are still there", left)
	}
}

// files are how many there are below a folder, and how long together.
func files(t *testing.T, dir string) (n int, bytes int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			n, bytes = n+1, bytes+info.Size()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n, bytes
}

// TestWhatIsStartedIsOfOneCommit gives a store contents ahead, of changes that can be in
// one commit and of others.
func TestWhatIsStartedIsOfOneCommit(t *testing.T) {
	var o order
	for _, c := range []struct {
		path, author string
		long, waits  bool
	}{
		{path: "long", author: "alice", long: true, waits: true},
		{path: "a", author: "alice"},
		{path: "b", author: "bob", waits: true},
		{path: "b", author: "alice", waits: true},
		{path: "a", author: "alice", waits: true},
		{path: "a/x", author: "alice", waits: true},
		{path: "c/d/e", author: "alice"},
		{path: "c/d", author: "alice", waits: true},
		{path: "c/e", author: "alice"},
		{path: "long", author: "alice", waits: true},
	} {
		change := &change{path: c.path, author: c.author}
		if c.long {
			change.session = &data.Session{}
		}
		got := o.waits(change)
		if got != c.waits {
			t.Errorf("%s of %s waits: %v", c.path, c.author, got)
		}
		if !got {
			o.take(change)
		}
	}
}
