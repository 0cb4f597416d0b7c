package data

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/muster-dev/muster/internal/data/backend"
	"github.com/muster-dev/muster/internal/data/backend/faulty"
	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/ref"
)

func collect(t *testing.T, p *place, o CollectOptions) CollectReport {
	t.Helper()
	o.Heads = []ref.Heads{p.heads}
	r, err := p.store.Collect(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func branch(name string) ref.Name { return ref.Name{Kind: ref.Branch, Name: name} }

// abandoned makes a commit that nothing leads to, and says which.
func abandoned(t *testing.T, p *place, content string) digest.ID {
	t.Helper()
	r := put(t, p.Dataset, "gone", Stream("f", strings.NewReader(content)), AddOptions{})
	must(t, p.Remove(t.Context(), branch("gone")))
	return r.Commit.ID
}

func TestDryRunSaysWhatWouldGo(t *testing.T) {
	p := newPlace(t)
	put(t, p.Dataset, "main", Stream("kept", strings.NewReader(noise(1, 100))), AddOptions{})
	abandoned(t, p, noise(2, 70_000))
	would := collect(t, p, CollectOptions{DryRun: true})
	if again := collect(t, p, CollectOptions{DryRun: true}); again != would {
		t.Errorf("%+v, then %+v", would, again)
	}
	did := collect(t, p, CollectOptions{})
	if did != would || did.Packs != 1 || did.Commits != 1 || did.Bytes < 70_000 || did.Bytes > 72_000 || did.Kept != 1 {
		t.Errorf("would %+v, did %+v", would, did)
	}
	if r := collect(t, p, CollectOptions{}); r.Packs+r.Commits > 0 {
		t.Errorf("again: %+v", r)
	}
}

func TestGraceKeepsWhatIsYoung(t *testing.T) {
	p := newPlace(t)
	id := abandoned(t, p, "x")
	if r := collect(t, p, CollectOptions{Grace: time.Hour}); r.Packs+r.Commits+r.Waiting > 0 {
		t.Errorf("%+v", r)
	}
	must(t, p.Create(t.Context(), branch("back"), id.String()))
	same(t, "brought back", map[string]string{"f": "x"}, held(t, p.Dataset, "back"))
}

// TestPinnedCommitsStay as long as the lease, although nothing else leads there.
func TestPinnedCommitsStay(t *testing.T) {
	p := newPlace(t)
	id := abandoned(t, p, "x")
	lease, err := p.store.Pin(t.Context(), id)
	must(t, err)
	if r := collect(t, p, CollectOptions{}); r.Packs+r.Commits > 0 {
		t.Errorf("%+v", r)
	}
	same(t, "pinned", map[string]string{"f": "x"}, held(t, p.Dataset, id.String()))
	must(t, lease.Release(t.Context()))
	if r := collect(t, p, CollectOptions{}); r.Packs != 1 || r.Commits != 1 {
		t.Errorf("%+v", r)
	}
	if _, err := p.At(t.Context(), id.String()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after it was collected: %v", err)
	}
}

// TestWritersKeepWhatTheyFound: a session finds content in a pack that nothing leads
// to, and commits after a collection wanted to remove it.
func TestWritersKeepWhatTheyFound(t *testing.T) {
	p := newPlace(t)
	old := noise(3, 3<<20)
	abandoned(t, p, old)
	s, err := p.Begin(t.Context(), "main", SessionOptions{})
	must(t, err)
	must(t, s.Add(t.Context(), Stream("fresh", strings.NewReader(noise(4, 2<<20))), AddOptions{}))
	must(t, s.Add(t.Context(), Stream("found", strings.NewReader(old)), AddOptions{}))
	must(t, s.lease.renew(t.Context())) // by now it says when it began
	before := collect(t, p, CollectOptions{})
	if before.Packs+before.Commits > 0 {
		t.Errorf("removed while somebody writes: %+v", before)
	}
	r, err := s.Commit(t.Context(), CommitOptions{})
	must(t, err)
	if r.Stored > 3<<20 {
		t.Errorf("%d bytes were stored for 2 MiB: the others were not found", r.Stored)
	}
	collect(t, p, CollectOptions{})
	same(t, "after", map[string]string{"fresh": noise(4, 2<<20), "found": old}, held(t, p.Dataset, "main"))
}

// TestNobodyRefersToTheCondemned: what is condemned when a session begins is stored
// again.
func TestNobodyRefersToTheCondemned(t *testing.T) {
	p := newPlace(t)
	old := noise(5, 3<<20)
	id := abandoned(t, p, old)
	lease, err := p.store.Pin(t.Context()) // somebody else writes: nothing goes yet
	must(t, err)
	c := p.store.newCollection(CollectOptions{Heads: []ref.Heads{p.heads}})
	must(t, c.list(t.Context()))
	garbage, err := c.garbage(t.Context(), nil, time.Now().Add(time.Hour))
	must(t, err)
	if _, err := c.condemn(t.Context(), nil, garbage); err != nil {
		t.Fatal(err)
	}
	if err := p.Create(t.Context(), branch("back"), id.String()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a commit that is being collected was brought back: %v", err)
	}
	put(t, p.Dataset, "main", Stream("fresh", strings.NewReader(noise(6, 2<<20))), AddOptions{})
	r := put(t, p.Dataset, "main", Stream("again", strings.NewReader(old)), AddOptions{})
	if r.Stored < 3<<20 {
		t.Errorf("only %d bytes were stored: it refers to what is condemned", r.Stored)
	}
	if r := collect(t, p, CollectOptions{}); r.Packs > 0 || r.Waiting == 0 {
		t.Errorf("%+v", r)
	}
	must(t, lease.Release(t.Context()))
	if r := collect(t, p, CollectOptions{}); r.Packs != 1 || r.Commits != 1 {
		t.Errorf("%+v", r)
	}
	same(t, "after", map[string]string{"fresh": noise(6, 2<<20), "again": old}, held(t, p.Dataset, "main"))
}

// TestSessionsOfOneLease know of each other's packs without reading anything again,
// and of nothing that was condemned since.
func TestSessionsOfOneLease(t *testing.T) {
	p := newPlace(t)
	counted := &faulty.Backend{Inner: p.bytes, Script: &faulty.Script{}}
	d := p.open(t, counted, p.heads)
	old, fresh := noise(7, 3<<20), noise(8, 2<<20)
	abandoned(t, p, old)
	for i := range 20 {
		abandoned(t, p, noise(uint64(100+i), 2000))
	}
	lease, err := d.store.Pin(t.Context())
	must(t, err)
	commit := func(name string, content ...string) (stored int64, reads int) {
		t.Helper()
		before := counted.Reads()
		s, err := d.Begin(t.Context(), "main", SessionOptions{Lease: lease})
		must(t, err)
		for i, c := range content {
			must(t, s.Add(t.Context(), Stream(fmt.Sprint(name, i), strings.NewReader(c)), AddOptions{}))
		}
		r, err := s.Commit(t.Context(), CommitOptions{})
		must(t, err)
		return r.Stored, counted.Reads() - before
	}
	if stored, reads := commit("first", fresh); stored < 2<<20 || reads < 20 {
		t.Errorf("the first stored %d bytes and read %d times: it is to ask what there is", stored, reads)
	}
	if stored, reads := commit("second", noise(9, 2<<20), fresh, old); stored > 3<<20 || reads > 10 {
		t.Errorf("the second stored %d bytes instead of 2 MiB, and read %d times", stored, reads)
	}
	// Others of the process list packs anew, and read those alone that are new.
	before := counted.Reads()
	if r := put(t, d, "other", Stream("all", strings.NewReader(noise(11, 2<<20)+old)), AddOptions{}); r.Stored > 4<<20 {
		t.Errorf("%d bytes were stored for 2 MiB", r.Stored)
	}
	if reads := counted.Reads() - before; reads > 15 {
		t.Errorf("another session read %d times", reads)
	}
	must(t, p.Remove(t.Context(), branch("other")))
	must(t, p.Remove(t.Context(), branch("main")))
	c := p.store.newCollection(CollectOptions{Heads: []ref.Heads{p.heads}})
	must(t, c.list(t.Context()))
	garbage, err := c.garbage(t.Context(), nil, time.Now().Add(time.Hour))
	must(t, err)
	if _, err := c.condemn(t.Context(), nil, garbage); err != nil {
		t.Fatal(err)
	}
	if stored, _ := commit("third", noise(10, 2<<20), fresh, old); stored < 7<<20 {
		t.Errorf("only %d bytes were stored: it refers to what is condemned", stored)
	}
	must(t, lease.Release(t.Context()))
	if r := collect(t, p, CollectOptions{}); r.Packs < 23 {
		t.Errorf("%+v", r)
	}
	same(t, "after", map[string]string{"third0": noise(10, 2<<20), "third1": fresh, "third2": old}, held(t, p.Dataset, "main"))
}

// TestListsThatAreLate: somebody who began to write after the condemnation may not
// have been shown it, as long as lists may be late.
func TestListsThatAreLate(t *testing.T) {
	p := newPlace(t)
	abandoned(t, p, "x")
	const late = time.Hour
	c := p.store.newCollection(CollectOptions{Heads: []ref.Heads{p.heads}, Settle: late})
	must(t, c.list(t.Context()))
	garbage, err := c.garbage(t.Context(), nil, time.Now().Add(time.Hour))
	must(t, err)
	verdicts, err := c.condemn(t.Context(), nil, garbage)
	must(t, err)
	for _, w := range []struct {
		began time.Duration
		gone  bool
	}{{-late, false}, {late / 2, false}, {late, true}} {
		live := []note{{Started: verdicts[0].since.Add(w.began)}}
		must(t, c.execute(t.Context(), time.Now(), verdicts, live))
		if gone := c.report.Packs == 1 && c.report.Commits == 1; gone != w.gone {
			t.Errorf("somebody began to write %v after the condemnation: %+v", w.began, c.report)
		}
	}
}

// sharing puts with one lease for several sessions.
type sharing struct {
	lease *Lease
	puts  int
}

func (s *sharing) put(ctx context.Context, d *Dataset, branch string, source Source) (err error) {
	if s.puts++; s.puts%6 == 0 {
		if err := s.end(ctx); err != nil {
			return err
		}
	}
	if s.lease == nil {
		if s.lease, err = d.store.Pin(ctx); err != nil {
			return err
		}
	}
	session, err := d.Begin(ctx, branch, SessionOptions{Lease: s.lease})
	if err != nil {
		return err
	}
	if err = session.Add(ctx, source, AddOptions{}); err == nil {
		_, err = session.Commit(ctx, CommitOptions{})
	}
	return errors.Join(err, session.Close(ctx))
}

func (s *sharing) end(ctx context.Context) error {
	if s.lease == nil {
		return nil
	}
	lease := s.lease
	s.lease = nil
	return lease.Release(ctx)
}

// TestWritersAndCollectorsAtOnce: many write, branch, reset and remove while
// collections run; at the end everything that heads lead to is whole.
func TestWritersAndCollectorsAtOnce(t *testing.T) {
	p := newPlace(t)
	writeAndCollect(t, p, p.bytes, 0)
}

// TestWritersAndCollectorsWithStaleLists: the same where lists show for a while what is
// gone, and not yet what has come.
func TestWritersAndCollectorsWithStaleLists(t *testing.T) {
	p := newPlace(t)
	const late = 40 * time.Millisecond
	bytes := &stale{Backend: p.bytes, late: late, put: map[string]time.Time{}, gone: map[string]removed{}}
	writeAndCollect(t, p, bytes, late)
	if bytes.hid == 0 || bytes.kept == 0 {
		t.Errorf("lists were never stale: %d objects were not shown yet, %d still", bytes.hid, bytes.kept)
	}
}

// stale is a backend whose lists are late by any time up to the one given.
type stale struct {
	backend.Backend
	late time.Duration

	mu        sync.Mutex
	put       map[string]time.Time
	gone      map[string]removed
	hid, kept int
}

type removed struct {
	backend.Info
	at time.Time
}

func (s *stale) Put(ctx context.Context, key string, content []byte) error {
	begun := time.Now()
	if _, err := s.Stat(ctx, key); errors.Is(err, fs.ErrNotExist) {
		s.mu.Lock()
		s.put[key] = begun
		s.mu.Unlock()
	}
	err := s.Backend.Put(ctx, key, content)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.gone, key)
	return err
}

func (s *stale) Delete(ctx context.Context, key string) error {
	info, found := s.Stat(ctx, key)
	err := s.Backend.Delete(ctx, key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if found == nil {
		s.gone[key] = removed{info, time.Now()}
	}
	return err
}

func (s *stale) List(ctx context.Context, prefix string, see func(backend.Info) error) error {
	then := time.Now().Add(-rand.N(s.late))
	var all []backend.Info
	err := s.Backend.List(ctx, prefix, func(i backend.Info) error {
		all = append(all, i)
		return nil
	})
	if err != nil {
		return err
	}
	s.mu.Lock()
	was := func(i backend.Info) bool {
		late := s.put[i.Key].After(then)
		if late {
			s.hid++
		}
		return late
	}
	all = slices.DeleteFunc(all, was)
	for key, r := range s.gone {
		if strings.HasPrefix(key, prefix) && r.at.After(then) {
			all = append(all, r.Info)
			s.kept++
		}
	}
	s.mu.Unlock()
	slices.SortFunc(all, func(a, b backend.Info) int { return strings.Compare(a.Key, b.Key) })
	for _, i := range all {
		if err := see(i); err != nil {
			return err
		}
	}
	return nil
}

// writeAndCollect has four write and two collect, by a backend whose lists are late.
func writeAndCollect(t *testing.T, p *place, bytes backend.Backend, late time.Duration) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var writers, collectors sync.WaitGroup
	for w := range 4 {
		d := p.open(t, bytes, p.heads)
		writers.Go(func() {
			name := fmt.Sprint("b", w%2) // two at each
			shared := &sharing{}
			defer func() {
				if err := shared.end(t.Context()); err != nil {
					t.Errorf("writer %d: %v", w, err)
				}
			}()
			for i := range 15 {
				// The same content comes and goes, so that much is found that is garbage.
				text := noise(uint64(i%3), 1100<<10)
				source := Stream(fmt.Sprint("f", w, i%4), strings.NewReader(text))
				var err error
				if w == 0 || w == 3 {
					_, err = d.Put(t.Context(), name, source, PutOptions{})
				} else {
					err = shared.put(t.Context(), d, name, source)
				}
				if err != nil {
					t.Errorf("writer %d: %v", w, err)
					return
				}
				if i%5 == 4 && w >= 2 {
					var moved *ref.MovedError
					if err := d.Remove(t.Context(), branch(name)); err != nil && !errors.As(err, &moved) && !errors.Is(err, fs.ErrNotExist) {
						t.Errorf("writer %d: %v", w, err)
					}
				}
			}
		})
	}
	for range 2 {
		d := p.open(t, bytes, p.heads)
		collectors.Go(func() {
			for ctx.Err() == nil {
				if _, err := d.store.Collect(t.Context(), CollectOptions{Heads: []ref.Heads{p.heads}, Settle: late}); err != nil {
					t.Errorf("collecting: %v", err)
					return
				}
			}
		})
	}
	writers.Wait()
	stop()
	collectors.Wait()
	sound(t, p)
}
