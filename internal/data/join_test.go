package data

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/muster-dev/muster/internal/data/backend"
	"github.com/muster-dev/muster/internal/data/bale"
	"github.com/muster-dev/muster/internal/data/commit"
	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/pack"
	"github.com/muster-dev/muster/internal/data/ref"
)

// objects counts what lies in a place below a prefix.
func (p *place) objects(t *testing.T, prefix string) (n int) {
	t.Helper()
	must(t, p.bytes.List(t.Context(), prefix, func(backend.Info) error { n++; return nil }))
	return n
}

// oneByOne puts files into branches of their own, each a commit and a pack.
func (p *place) oneByOne(t *testing.T, n int) map[string]map[string]string {
	t.Helper()
	want := map[string]map[string]string{}
	for i := range n {
		name, text := fmt.Sprint("b", i), noise(uint64(i), 3000)
		put(t, p.Dataset, name, Stream("f", strings.NewReader(text)), AddOptions{})
		want[name] = map[string]string{"f": text}
	}
	return want
}

func (p *place) holds(t *testing.T, what string, want map[string]map[string]string) {
	t.Helper()
	for _, d := range []*Dataset{p.Dataset, p.open(t, p.bytes, p.heads)} { // who was there, and who comes
		for name, content := range want {
			same(t, what+", "+name, content, held(t, d, name))
		}
		intact(t, d, p)
	}
}

// TestJoin: small packs come together, again where little of what lies together is needed,
// and go where none of it is. Another collection finds nothing to do.
func TestJoin(t *testing.T) {
	p := newPlace(t)
	p.store.joining = joining{small: 10_000, least: 20_000, full: 40_000, most: 9}
	want := p.oneByOne(t, 45) // of some 3.4 KB each
	long := noise(99, 50_000)
	put(t, p.Dataset, "long", Stream("f", strings.NewReader(long)), AddOptions{})
	want["long"] = map[string]string{"f": long}
	would := collect(t, p, CollectOptions{DryRun: true})
	did := collect(t, p, CollectOptions{})
	if did != would || did.Joined < 36 || did.Joined > 45 {
		t.Errorf("would %+v, did %+v", would, did)
	}
	loose, bales := p.objects(t, pack.Prefix), p.objects(t, bale.Prefix)
	if loose != 46 || bales < 3 || bales > 4 {
		t.Errorf("%d packs are loose, and there are %d bales, of %d", loose, bales, did.Joined)
	}
	p.holds(t, "joined", want)
	for range 2 { // those that are in bales for long enough are loose no more
		if again := collect(t, p, CollectOptions{}); again.Joined+again.Packs+again.Waiting > 0 || p.objects(t, bale.Prefix) != bales {
			t.Errorf("again: %+v", again)
		}
		if loose := p.objects(t, pack.Prefix); loose != 46-did.Joined {
			t.Errorf("%d packs are loose, of 46 of which %d were joined", loose, did.Joined)
		}
		p.holds(t, "joined for long", want)
	}

	// What is dead among others stays with them, as long as that is less than half of it.
	for i := range 4 {
		must(t, p.Remove(t.Context(), branch(fmt.Sprint("b", 10*i))))
		delete(want, fmt.Sprint("b", 10*i))
	}
	if r := collect(t, p, CollectOptions{}); r.Joined > 0 || p.objects(t, bale.Prefix) != bales {
		t.Errorf("a few are not needed any more: %+v", r)
	}
	p.holds(t, "some dead", want)
	for i := range 45 {
		if i%4 != 1 {
			if name := fmt.Sprint("b", i); want[name] != nil {
				must(t, p.Remove(t.Context(), branch(name)))
				delete(want, name)
			}
		}
	}
	if r := collect(t, p, CollectOptions{}); r.Joined == 0 {
		t.Errorf("most are not needed any more: %+v", r)
	}
	p.holds(t, "joined again", want)
	for range 3 {
		collect(t, p, CollectOptions{})
	}
	p.holds(t, "and collected", want)
	if n := p.objects(t, bale.Prefix); n != 1 {
		t.Errorf("%d bales for %d small packs", n, len(want)-1)
	}
	for name := range want {
		must(t, p.Remove(t.Context(), branch(name)))
	}
	for range 2 {
		collect(t, p, CollectOptions{})
	}
	if n := p.objects(t, pack.Prefix) + p.objects(t, bale.Prefix); n > 0 {
		t.Errorf("%d objects are left of nothing", n)
	}
}

// TestJoinLeavesABit: what is not enough for a bale stays as it is.
func TestJoinLeavesABit(t *testing.T) {
	p := newPlace(t)
	p.store.joining = usualJoining
	want := p.oneByOne(t, 5)
	if r := collect(t, p, CollectOptions{}); r.Joined > 0 || p.objects(t, pack.Prefix) != 5 {
		t.Errorf("%+v", r)
	}
	p.holds(t, "left", want)
}

// TestJoinBesideReaders: packs that somebody knows to be in one bale stay there as long as
// they read, though they are in a later one by then; who looks anew finds the later one.
func TestJoinBesideReaders(t *testing.T) {
	p := newPlace(t)
	want := p.oneByOne(t, 8)
	collect(t, p, CollectOptions{})
	collect(t, p, CollectOptions{})
	if bales, loose := p.objects(t, bale.Prefix), p.objects(t, pack.Prefix); bales != 1 || loose > 0 {
		t.Fatalf("%d bales, and %d are loose", bales, loose)
	}
	for i := range 6 {
		must(t, p.Remove(t.Context(), branch(fmt.Sprint("b", i))))
		delete(want, fmt.Sprint("b", i))
	}
	reader := p.open(t, p.bytes, p.heads)
	v, err := reader.At(t.Context(), "b7")
	must(t, err)
	lease, err := reader.store.Pin(t.Context(), v.Commit().ID)
	must(t, err)
	for range 3 {
		collect(t, p, CollectOptions{})
	}
	before := p.objects(t, bale.Prefix)
	p.holds(t, "beside a reader", want)
	same(t, "the reader's", want["b7"], held(t, reader, "b7"))
	must(t, lease.Release(t.Context()))
	for range 2 {
		collect(t, p, CollectOptions{})
	}
	if n := p.objects(t, bale.Prefix); before != 2 || n != 1 {
		t.Errorf("%d bales beside a reader, %d after", before, n)
	}
	same(t, "the reader's, later", want["b7"], held(t, reader, "b7"))
	p.holds(t, "after the reader", want)
}

// TestTwoCollectorsJoin: both of the same packs, and one is killed before it says that they
// are loose no more. What is there twice comes to be there once.
func TestTwoCollectorsJoin(t *testing.T) {
	p := newPlace(t)
	want := p.oneByOne(t, 8)
	both := []*collection{}
	for range 2 {
		c := p.open(t, p.bytes, p.heads).store.newCollection(CollectOptions{Heads: []ref.Heads{p.heads}})
		must(t, c.list(t.Context()))
		cutoff, err := c.now(t.Context())
		must(t, err)
		_, err = c.garbage(t.Context(), nil, cutoff)
		must(t, err)
		c.grown = cutoff
		both = append(both, c)
	}
	now, err := both[0].now(t.Context())
	must(t, err)
	groups := both[0].groups()
	if _, _, err := bale.Make(t.Context(), both[0].packs, slices.Concat(groups...), both[0].whole); err != nil {
		t.Fatal(err)
	}
	must(t, both[1].join(t.Context(), now))
	p.holds(t, "joined twice", want)
	for range 2 {
		collect(t, p, CollectOptions{})
	}
	if loose, bales := p.objects(t, pack.Prefix), p.objects(t, bale.Prefix); loose > 0 || bales != 1 {
		t.Errorf("%d are loose, and there are %d bales", loose, bales)
	}
	p.holds(t, "collected", want)
}

// TestWhatIsJoinedIsFound: who puts what lies in a bale does not store it again.
func TestWhatIsJoinedIsFound(t *testing.T) {
	p := newPlace(t)
	text := noise(1, 1500<<10)
	put(t, p.Dataset, "one", Stream("f", strings.NewReader(text)), AddOptions{})
	collect(t, p, CollectOptions{})
	collect(t, p, CollectOptions{})
	if p.objects(t, pack.Prefix) > 0 {
		t.Fatal("it is loose")
	}
	s, err := p.open(t, p.bytes, p.heads).Begin(t.Context(), "two", SessionOptions{})
	must(t, err)
	for i, content := range []string{noise(2, 2<<20), text} { // it is asked once there is some that is new
		must(t, s.Add(t.Context(), Stream(fmt.Sprint(i), strings.NewReader(content)), AddOptions{}))
	}
	r, err := s.Commit(t.Context(), CommitOptions{})
	must(t, err)
	must(t, s.Close(t.Context()))
	if r.Stored > 3<<20 {
		t.Errorf("%d bytes were stored for 2 MiB", r.Stored)
	}
	p.holds(t, "both", map[string]map[string]string{"one": {"f": text}})
}

// TestJoinBesideWhoReads: somebody who reads for weeks keeps nothing from being joined, and
// what was joined since stays loose, too: a reader that knows nothing of bales finds it.
func TestJoinBesideWhoReads(t *testing.T) {
	p := newPlace(t)
	want := p.oneByOne(t, 3)
	v, err := p.At(t.Context(), "b0")
	must(t, err)
	lease, err := p.store.Pin(t.Context(), v.Commit().ID)
	must(t, err)
	for i := 3; i < 8; i++ {
		name, text := fmt.Sprint("b", i), noise(uint64(i), 3000)
		put(t, p.Dataset, name, Stream("f", strings.NewReader(text)), AddOptions{})
		want[name] = map[string]string{"f": text}
	}
	if r := collect(t, p, CollectOptions{}); r.Joined != 8 {
		t.Errorf("%+v", r)
	}
	collect(t, p, CollectOptions{})
	if n := p.objects(t, pack.Prefix); n != 8 {
		t.Errorf("%d of 8 are loose beside a reader that may know nothing of bales", n)
	}
	must(t, lease.Release(t.Context()))
	collect(t, p, CollectOptions{})
	if n := p.objects(t, pack.Prefix); n != 0 {
		t.Errorf("%d are loose after that", n)
	}
	p.holds(t, "joined", want)
}

// TestRestoredBesideABale: a pack that is damaged in a bale and was put back from a copy is
// read from there, no collection takes the copy for one too many, and it is joined anew.
func TestRestoredBesideABale(t *testing.T) {
	p := newPlace(t)
	want := p.oneByOne(t, 8)
	kept := map[string][]byte{}
	must(t, p.bytes.List(t.Context(), pack.Prefix, func(i backend.Info) (err error) {
		kept[i.Key], err = backend.Read(t.Context(), p.bytes, i.Key)
		return err
	}))
	collect(t, p, CollectOptions{})
	collect(t, p, CollectOptions{})
	all, err := bale.Of(p.store.backend).All(t.Context())
	must(t, err)
	one := all[0]
	content, err := backend.Read(t.Context(), p.bytes, one.Key)
	must(t, err)
	content[one.Packs[0].Size+20] ^= 1 // of the second pack
	must(t, p.bytes.Put(t.Context(), one.Key, content))
	report, err := p.open(t, p.bytes, p.heads).store.Verify(t.Context(), VerifyOptions{Heads: []ref.Heads{p.heads}, Bytes: true})
	must(t, err)
	hit := one.Packs[1].Key
	if len(report.Problems) != 1 || report.Problems[0].Object != hit || !strings.Contains(report.Problems[0].Reason, one.Key) {
		t.Fatalf("%+v, want %s", report.Problems, hit)
	}
	must(t, p.bytes.Put(t.Context(), hit, kept[hit]))
	for range 3 {
		p.holds(t, "restored", want)
		for name := range want {
			dir := t.TempDir()
			_, err := view(t, p.open(t, p.bytes, p.heads), name).Checkout(t.Context(), dir, CheckoutOptions{})
			must(t, err)
			same(t, "checked out", want[name], folder(t, dir))
		}
		collect(t, p, CollectOptions{})
	}
	collect(t, p, CollectOptions{})
	if loose, bales := p.objects(t, pack.Prefix), p.objects(t, bale.Prefix); loose != 0 || bales != 2 {
		t.Errorf("%d packs are loose and there are %d bales, want the one that was put back in one of its own", loose, bales)
	}
	p.holds(t, "joined again", want)
}

// TestWhatIsDeadIsFreed: what is needed of many bales is less than one is made of, and what
// is not needed is more.
func TestWhatIsDeadIsFreed(t *testing.T) {
	p := newPlace(t)
	p.store.joining = joining{small: 10_000, least: 20_000, full: 20_000, most: 99}
	want := p.oneByOne(t, 48)
	collect(t, p, CollectOptions{})
	collect(t, p, CollectOptions{})
	before := p.objects(t, bale.Prefix)
	if loose := p.objects(t, pack.Prefix); before < 6 || loose > 6 {
		t.Fatalf("%d bales, and %d are loose", before, loose)
	}
	for i := range 48 {
		if i != 1 && i != 20 { // of two bales
			must(t, p.Remove(t.Context(), branch(fmt.Sprint("b", i))))
			delete(want, fmt.Sprint("b", i))
		}
	}
	for range 4 {
		collect(t, p, CollectOptions{})
	}
	if n := p.objects(t, bale.Prefix); n != 1 {
		t.Errorf("%d bales for two small packs", n)
	}
	p.holds(t, "what is left", want)
}

// TestCondemnedAndJoined: what one collector has condemned another one has put into a bale
// that the first does not know. The sentence stays as long as the pack may be found there.
func TestCondemnedAndJoined(t *testing.T) {
	p := newPlace(t)
	want := p.oneByOne(t, 2)
	abandoned(t, p, noise(77, 3000))
	var packs []backend.Info
	must(t, p.bytes.List(t.Context(), pack.Prefix, func(i backend.Info) error { packs = append(packs, i); return nil }))
	c := p.open(t, p.bytes, p.heads).store.newCollection(CollectOptions{Heads: []ref.Heads{p.heads}})
	must(t, c.list(t.Context()))
	cutoff, err := c.now(t.Context())
	must(t, err)
	garbage, err := c.garbage(t.Context(), nil, cutoff)
	must(t, err)
	if len(garbage) != 2 {
		t.Fatalf("%v", garbage)
	}
	if _, _, err := bale.Make(t.Context(), bale.Of(p.store.backend), packs, c.whole); err != nil {
		t.Fatal(err)
	}
	verdicts, err := c.condemn(t.Context(), nil, garbage)
	must(t, err)
	must(t, c.execute(t.Context(), cutoff, verdicts, nil))
	if n := p.objects(t, condemnedPrefix); n != 1 {
		t.Errorf("%d sentences while what is condemned can be found", n)
	}
	p.holds(t, "beside", want)
	for name := range want {
		must(t, p.Remove(t.Context(), branch(name)))
	}
	for range 3 {
		collect(t, p, CollectOptions{})
	}
	if n := p.objects(t, condemnedPrefix) + p.objects(t, bale.Prefix) + p.objects(t, pack.Prefix); n != 0 {
		t.Errorf("%d objects are left", n)
	}
}

// TestNodesOfWhatIsGone: nodes and lists that nobody needs lie in packs with such that are
// needed, and name packs that are gone. Who puts the same content again stores them anew.
func TestNodesOfWhatIsGone(t *testing.T) {
	p := newPlace(t)
	p.store.joining = joining{small: 20 << 20, least: 1, full: 64 << 20, most: 9}
	src := t.TempDir()
	content := map[string]string{"long": noise(3, 40<<20)} // in a pack of its own, and one with the nodes
	for i := range 300 {
		content[fmt.Sprint("d/", i)] = noise(uint64(100+i), 8000)
	}
	files(t, src, content)
	kept := noise(4, 15<<20)
	put(t, p.Dataset, "kept", Stream("f", strings.NewReader(kept)), AddOptions{})
	want := map[string]map[string]string{"kept": {"f": kept}}
	put(t, p.Dataset, "again", Folder(src), AddOptions{})
	for range 2 {
		collect(t, p, CollectOptions{})
	}
	must(t, p.Remove(t.Context(), branch("again")))
	for range 4 {
		collect(t, p, CollectOptions{})
	}
	if n := p.objects(t, bale.Prefix); n != 1 || p.objects(t, pack.Prefix) > 0 {
		t.Fatalf("%d bales, want the one with what is needed and what is not", n)
	}
	put(t, p.open(t, p.bytes, p.heads), "again", Folder(src), AddOptions{})
	want["again"] = content
	p.holds(t, "put again", want)
	for range 3 {
		collect(t, p, CollectOptions{})
		p.holds(t, "collected", want)
	}
}

// TestSomebodyCameBack: of a sentence that was carried out what can be found in a bale stays
// condemned, and nothing else of it.
func TestSomebodyCameBack(t *testing.T) {
	p := newPlace(t)
	p.oneByOne(t, 3)
	var packs []backend.Info
	must(t, p.bytes.List(t.Context(), pack.Prefix, func(i backend.Info) error { packs = append(packs, i); return nil }))
	c := p.open(t, p.bytes, p.heads).store.newCollection(CollectOptions{Heads: []ref.Heads{p.heads}})
	if _, _, err := bale.Make(t.Context(), bale.Of(p.store.backend), packs, c.whole); err != nil {
		t.Fatal(err)
	}
	v0, err := p.At(t.Context(), "b0")
	must(t, err)
	for i := range 3 {
		must(t, p.Remove(t.Context(), branch(fmt.Sprint("b", i))))
	}
	must(t, c.list(t.Context()))
	cutoff, err := c.now(t.Context())
	must(t, err)
	garbage, err := c.garbage(t.Context(), nil, cutoff)
	must(t, err)
	verdicts, err := c.condemn(t.Context(), nil, garbage)
	must(t, err)
	must(t, c.mark(t.Context(), map[digest.ID]bool{v0.Commit().ID: true})) // as if somebody had gone on from there
	must(t, c.execute(t.Context(), cutoff, verdicts, nil))
	condemned, err := p.store.condemned(t.Context())
	must(t, err)
	if len(condemned) != 2 || condemned[commit.Key(v0.Commit().ID)] {
		t.Errorf("condemned are %v, want the other two packs", condemned)
	}
	if c.report.Packs != 0 || c.report.Commits != 2 {
		t.Errorf("%+v: the packs are there still", c.report)
	}
}

// TestBalesWhileListsAreLate: a bale stays for as long as the list of a reader may not show the later one
// that holds its packs, too.
func TestBalesWhileListsAreLate(t *testing.T) {
	p := newPlace(t)
	want := p.oneByOne(t, 3)
	c := p.store.newCollection(CollectOptions{})
	must(t, c.list(t.Context()))
	var packs []backend.Info
	for key, i := range c.objects {
		if _, err := pack.ParseKey(key); err == nil {
			packs = append(packs, i)
		}
	}
	for range 2 {
		if _, _, err := bale.Make(t.Context(), c.packs, packs, c.whole); err != nil {
			t.Fatal(err)
		}
	}
	for _, i := range packs {
		must(t, p.bytes.Delete(t.Context(), i.Key))
	}
	for _, s := range []struct {
		settle time.Duration
		bales  int
	}{{time.Hour, 2}, {0, 1}} {
		collect(t, p, CollectOptions{Settle: s.settle})
		if n := p.objects(t, bale.Prefix); n != s.bales {
			t.Errorf("where lists are late by %s, %d bales are left of 2, want %d", s.settle, n, s.bales)
		}
		p.holds(t, "afterwards", want)
	}
}
