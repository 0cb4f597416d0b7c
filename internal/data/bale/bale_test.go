package bale

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/internal/data/backend"
	"github.com/muster-dev/muster/internal/data/backend/contract"
	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/pack"
)

// TestContract: over a backend everything is as it is without.
func TestContract(t *testing.T) {
	t.Run("memory", func(t *testing.T) {
		contract.Run(t, Over(&backend.Memory{}))
		streams, ok := Over(&backend.Memory{}).(backend.Streamer)
		if !ok {
			t.Fatal("it moves no objects piece by piece any more")
		}
		contract.RunStreams(t, streams)
	})
	t.Run("folder", func(t *testing.T) {
		open := func() backend.Backend {
			f, err := backend.OpenFolder(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			return Over(f)
		}
		contract.Run(t, open())
		q, ok := open().(quick)
		if !ok {
			t.Fatal("it does not do what a folder does any more")
		}
		contract.RunStreams(t, q)
		contract.RunStarts(t, q)
	})
	once := Over(&backend.Memory{})
	if Over(once) != once {
		t.Error("twice over the same")
	}
	if Of(&backend.Memory{}) != nil || Of(once) == nil {
		t.Error("which backend knows bales is not known")
	}
}

// made stores a pack of some texts, and is what is known of it.
func made(t *testing.T, b backend.Backend, texts ...string) backend.Info {
	t.Helper()
	p, err := pack.NewBuilder(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range texts {
		p.Add(digest.Of([]byte(text)), pack.Data, len(text), []byte(text))
	}
	key := p.Name().Key()
	if err := b.Put(t.Context(), key, p.Seal()); err != nil {
		t.Fatal(err)
	}
	info, err := b.Stat(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// check finds texts that are not what they were.
func check(r pack.Record, stored []byte) error {
	if digest.Of(stored) != r.ID {
		return pack.ErrDamaged
	}
	return nil
}

// contents reads all packs that are listed.
func contents(t *testing.T, b backend.Backend) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := b.List(t.Context(), pack.Prefix, func(i backend.Info) error {
		if _, twice := out[i.Key]; twice {
			t.Errorf("%s is listed twice", i.Key)
		}
		content, err := backend.Read(t.Context(), b, i.Key)
		out[i.Key] = fmt.Sprint(i.Stored.UnixNano(), string(content))
		if int64(len(content)) != i.Size {
			t.Errorf("%s has %d bytes, and is listed with %d", i.Key, len(content), i.Size)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestMake: packs are the same in a bale, for who knew them loose, for who comes later, and
// for who knew another bale; whole, in parts, and as objects that are listed.
func TestMake(t *testing.T) {
	inner := &backend.Memory{}
	var packs []backend.Info
	for i := range 300 {
		packs = append(packs, made(t, inner, strings.Repeat(fmt.Sprint(i, " "), 3*i)))
	}
	b, before := Over(inner), contents(t, inner)
	readers := []backend.Backend{Over(inner), Over(inner)}
	for _, r := range readers {
		if diff := cmp.Diff(before, contents(t, r)); diff != "" {
			t.Fatal(diff)
		}
	}
	join := func(of []backend.Info) *Bale {
		t.Helper()
		one, _, err := Make(t.Context(), Of(b), of, check)
		if err != nil || len(one.Packs) != len(of) {
			t.Fatalf("%v: %d of %d packs", err, len(one.Packs), len(of))
		}
		return one
	}
	first := join(packs[:200])
	for _, p := range packs[:200] {
		if err := b.Delete(t.Context(), p.Key); err != nil {
			t.Fatal(err)
		}
	}
	check := func(what string) {
		t.Helper()
		for n, r := range append(readers, Over(inner), b) {
			if diff := cmp.Diff(before, contents(t, r)); diff != "" {
				t.Errorf("%s, reader %d: %s", what, n, diff)
			}
		}
	}
	check("joined")
	join(packs[100:]) // of loose ones and of such as are in a bale
	join(packs[:100])
	if err := b.Delete(t.Context(), first.Key); err != nil {
		t.Fatal(err)
	}
	check("joined anew")
	p := packs[150]
	r := readers[0]
	for _, c := range []struct {
		offset int64
		length int
		short  bool
	}{{0, 8, false}, {p.Size - 1, 1, false}, {p.Size, 1, true}, {0, int(p.Size) + 1, true}, {-1, 1, true}} {
		into := make([]byte, c.length)
		if err := r.ReadAt(t.Context(), p.Key, c.offset, into); errors.Is(err, backend.ErrShort) != c.short {
			t.Errorf("%d bytes at %d: %v", c.length, c.offset, err)
		}
	}
	in, err := r.(backend.Streamer).Open(t.Context(), p.Key, 3, 5)
	if err != nil {
		t.Fatal(err)
	}
	part, err := io.ReadAll(in)
	if want := before[p.Key][len(fmt.Sprint(p.Stored.UnixNano())):][3:8]; err != nil || string(part) != want {
		t.Errorf("%q %v, want %q", part, err, want)
	}
	if _, err := r.Stat(t.Context(), pack.Name{1}.Key()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a pack that is nowhere: %v", err)
	}
}

// TestMakeOfNothing: what went, what is no pack, and what has a blob that is damaged is in
// no bale.
func TestMakeOfNothing(t *testing.T) {
	inner := &backend.Memory{}
	b := Of(Over(inner))
	good, gone := made(t, inner, "x"), backend.Info{Key: pack.Name{2}.Key()}
	broken := backend.Info{Key: pack.Name{3}.Key(), Size: 73}
	if err := inner.Put(t.Context(), broken.Key, []byte("no pack at all, but as long as one might be, so that its end is looked at")); err != nil {
		t.Fatal(err)
	}
	rotten := made(t, inner, "once whole")
	content, err := backend.Read(t.Context(), inner, rotten.Key)
	if err != nil {
		t.Fatal(err)
	}
	content[9] ^= 1 // of its blob
	if err := inner.Put(t.Context(), rotten.Key, content); err != nil {
		t.Fatal(err)
	}
	if one, unread, err := Make(t.Context(), b, []backend.Info{gone, broken, rotten}, check); one != nil || err != nil || len(unread) != 2 {
		t.Errorf("%+v %v %v", one, unread, err)
	}
	one, unread, err := Make(t.Context(), b, []backend.Info{gone, good, broken, rotten}, check)
	if err != nil || len(one.Packs) != 1 || one.Packs[0].Key != good.Key || len(unread) != 2 {
		t.Errorf("%+v %v %v", one, unread, err)
	}
}

// TestDamagedBales: a list that is damaged or cut off is never believed, and is named where
// a pack is missing; what is loose, and in other bales, is read all the same.
func TestDamagedBales(t *testing.T) {
	inner := &backend.Memory{}
	packs := []backend.Info{made(t, inner, "a"), made(t, inner, "b"), made(t, inner, "c")}
	b := Of(Over(inner))
	one, _, err := Make(t.Context(), b, packs[:1], check)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := Make(t.Context(), b, packs[1:2], check); err != nil {
		t.Fatal(err)
	}
	for _, p := range packs[:2] {
		if err := inner.Delete(t.Context(), p.Key); err != nil {
			t.Fatal(err)
		}
	}
	whole, err := backend.Read(t.Context(), inner, one.Key)
	if err != nil {
		t.Fatal(err)
	}
	try := func(what string, content []byte, damaged bool) {
		t.Helper()
		if err := inner.Put(t.Context(), one.Key, content); err != nil {
			t.Fatal(err)
		}
		fresh := Over(inner)
		_, err := fresh.Stat(t.Context(), packs[0].Key)
		if damaged && (!errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), one.Key)) || !damaged && err != nil {
			t.Errorf("%s: %v", what, err)
		}
		for _, p := range packs[1:] {
			if _, err := fresh.Stat(t.Context(), p.Key); err != nil {
				t.Errorf("%s: another pack: %v", what, err)
			}
		}
	}
	try("whole", whole, false)
	for i := range whole {
		try(fmt.Sprint("cut off at ", i), whole[:i], true)
		if int64(i) < packs[0].Size {
			continue // its blobs are checked against their names
		}
		flipped := bytes.Clone(whole)
		flipped[i] ^= 8
		try(fmt.Sprint("flipped at ", i), flipped, true)
	}
}

// TestSuperseded: of bales with the same pack the latest stays, by their times and then by
// their names, and counts as there once that time has come.
func TestSuperseded(t *testing.T) {
	now := time.Unix(1e9, 0)
	key := func(n byte) string { return pack.Name{n}.Key() }
	bale := func(name string, at time.Time, packs ...byte) *Bale {
		b := &Bale{Info: backend.Info{Key: Prefix + name, Stored: at}}
		for _, p := range packs {
			b.Packs = append(b.Packs, backend.Info{Key: key(p)})
		}
		return b
	}
	old, a, b, young := bale("z", now, 1, 2, 3), bale("a", now.Add(1), 2), bale("b", now.Add(1), 2, 3), bale("y", now.Add(9), 1)
	all := []*Bale{young, b, a, old}
	for _, c := range []struct {
		of   *Bale
		want []string
	}{{old, []string{key(2), key(3)}}, {a, []string{key(2)}}, {b, nil}, {young, nil}} {
		if got := slices.Sorted(maps.Keys(Superseded(all, now.Add(9))[c.of])); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.of.Key, got, c.want)
		}
	}
}

// mover moves packs while somebody reads: from one bale into another one, each time it is
// asked for the list of bales.
type mover struct {
	*backend.Memory
	turns int
	move  func()
}

func (m *mover) List(ctx context.Context, prefix string, see func(backend.Info) error) error {
	err := m.Memory.List(ctx, prefix, see)
	if prefix == Prefix && m.turns > 0 {
		m.turns--
		m.move()
	}
	return err
}

// TestMovedWhileReading: who finds a bale gone looks again, and not for ever.
func TestMovedWhileReading(t *testing.T) {
	for turns, found := range map[int]bool{1: true, 2: true, 20: true, 1000: false} {
		inner := &mover{Memory: &backend.Memory{}, turns: turns}
		p := made(t, inner.Memory, "x")
		b := Of(Over(inner.Memory))
		last, _, err := Make(t.Context(), b, []backend.Info{p}, check)
		if err != nil {
			t.Fatal(err)
		}
		if err := inner.Delete(t.Context(), p.Key); err != nil {
			t.Fatal(err)
		}
		inner.move = func() {
			before := last.Key
			if last, _, err = Make(context.Background(), b, []backend.Info{p}, check); err != nil {
				t.Error(err)
			}
			if err := inner.Delete(context.Background(), before); err != nil {
				t.Error(err)
			}
		}
		if _, err := backend.Read(t.Context(), Over(inner), p.Key); (err == nil) != found {
			t.Errorf("moved %d times: %v", turns, err)
		}
	}
}

// late is a backend with late lists: the n-th list of bales still contains the removed bales in
// shown[n].
type late struct {
	*backend.Memory
	removed []backend.Info
	shown   [][]int
	lists   int
}

func (l *late) List(ctx context.Context, prefix string, see func(backend.Info) error) error {
	if prefix == Prefix && l.lists < len(l.shown) {
		for _, n := range l.shown[l.lists] {
			if err := see(l.removed[n]); err != nil {
				return err
			}
		}
	}
	if prefix == Prefix {
		l.lists++
	}
	return l.Memory.List(ctx, prefix, see)
}

// TestLateLists: each list has another delay, so each contains other removed bales. A lookup
// ends with the first list that contains no new removed bale.
func TestLateLists(t *testing.T) {
	for name, c := range map[string]struct {
		shown [][]int
		lists int
	}{
		"none":               {nil, 1},
		"the same twice":     {[][]int{{0, 1}, {0, 1}, {0}}, 2},
		"fewer":              {[][]int{{0, 1, 2}, {0, 1}, {0}, {1}, {2}}, 2},
		"more and fewer":     {[][]int{{0}, {0, 1}, {1}, {0}}, 3},
		"one more each time": {[][]int{{0}, {0, 1}, {0, 1, 2}, {0, 1, 2, 3}, {0, 1, 2, 3, 4}, {4}}, 6},
		"another each time":  {[][]int{{0}, {1}, {2}, {3}, {4}, {0, 4}}, 6},
	} {
		t.Run(name, func(t *testing.T) {
			inner := &late{Memory: &backend.Memory{}, shown: c.shown}
			with := Of(Over(inner.Memory))
			p := made(t, inner.Memory, "x")
			for range 5 {
				one, _, err := Make(t.Context(), with, []backend.Info{p}, check)
				if err != nil {
					t.Fatal(err)
				}
				inner.removed = append(inner.removed, one.Info)
			}
			if _, _, err := Make(t.Context(), with, []backend.Info{p}, check); err != nil {
				t.Fatal(err)
			}
			for _, i := range append([]backend.Info{p}, inner.removed...) {
				if err := inner.Delete(t.Context(), i.Key); err != nil {
					t.Fatal(err)
				}
			}
			all, err := Of(Over(inner)).All(t.Context())
			if err != nil || len(all) != 1 || inner.lists != c.lists {
				t.Errorf("%d bales after %d lists instead of one after %d, %v", len(all), inner.lists, c.lists, err)
			}
		})
	}
}

// broken cannot read some objects, and counts what it reads.
type broken struct {
	*backend.Memory
	mu    sync.Mutex
	fails map[string]error
	reads map[string]int
	after func() // once something was read
}

func (b *broken) ReadAt(ctx context.Context, key string, offset int64, into []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	err := b.fails[key]
	if err == nil {
		err = b.Memory.ReadAt(ctx, key, offset, into)
	}
	if err == nil {
		b.reads[key]++
	}
	if b.after != nil {
		b.after()
	}
	return err
}

// inBales puts packs into a bale each, and says which.
func inBales(t *testing.T, inner *broken, texts ...string) (packs []backend.Info, bales []*Bale) {
	t.Helper()
	b := Of(Over(inner.Memory))
	for _, text := range texts {
		p := made(t, inner, text)
		one, _, err := Make(t.Context(), b, []backend.Info{p}, check)
		if err != nil {
			t.Fatal(err)
		}
		if err := inner.Delete(t.Context(), p.Key); err != nil {
			t.Fatal(err)
		}
		packs, bales = append(packs, p), append(bales, one)
	}
	return packs, bales
}

// TestABaleThatCannotBeRead takes none but its own packs away, of which nobody is told that
// they are gone; what is not a bale's is nobody's business.
func TestABaleThatCannotBeRead(t *testing.T) {
	inner := &broken{Memory: &backend.Memory{}, fails: map[string]error{}, reads: map[string]int{}}
	packs, bales := inBales(t, inner, "a", "b", "c")
	if err := inner.Put(t.Context(), Prefix+"nfs0001", []byte("of a file server")); err != nil {
		t.Fatal(err)
	}
	eio := errors.New("input/output error")
	inner.fails[bales[1].Key] = eio
	b := Of(Over(inner))
	for _, p := range []backend.Info{packs[0], packs[2]} {
		if _, err := backend.Read(t.Context(), b, p.Key); err != nil {
			t.Error(err)
		}
	}
	if _, err := b.Stat(t.Context(), packs[1].Key); !errors.Is(err, eio) || errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), bales[1].Key) {
		t.Errorf("what is in it: %v", err)
	}
	if got := contents(t, b); len(got) != 2 {
		t.Errorf("%d packs are listed", len(got))
	}
	if _, err := b.All(t.Context()); !errors.Is(err, eio) {
		t.Errorf("all of them: %v", err)
	}
	if one, unread, err := Make(t.Context(), b, packs, check); err != nil || len(one.Packs) != 2 || len(unread) != 1 || !errors.Is(unread[0], eio) {
		t.Errorf("joined: %+v, %v, %v", one, unread, err)
	}
	inner.fails = nil
	if _, err := backend.Read(t.Context(), b, packs[1].Key); err != nil {
		t.Errorf("once it can be read again: %v", err)
	}
}

// TestALookThatIsBrokenOff leaves what it has read to the next one.
func TestALookThatIsBrokenOff(t *testing.T) {
	inner := &broken{Memory: &backend.Memory{}, reads: map[string]int{}}
	var texts []string
	for i := range 3 * reads {
		texts = append(texts, fmt.Sprint(i))
	}
	packs, _ := inBales(t, inner, texts...)
	ctx, cancel := context.WithCancel(t.Context())
	const before = reads + 3
	inner.after = func() {
		if len(inner.reads) == before {
			cancel()
		}
	}
	b := Over(inner)
	if _, err := b.Stat(ctx, packs[0].Key); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	inner.after = nil
	if got := contents(t, b); len(got) != len(packs) {
		t.Errorf("%d packs are listed", len(got))
	}
	again := 0
	for key, n := range inner.reads {
		if strings.HasPrefix(key, Prefix) && n > 2 { // its list, and the pack itself
			again++
		}
	}
	if again > 0 {
		t.Errorf("%d of %d bales that were read before it was broken off were read again", again, before)
	}
}

// TestMovedWhileAReadIsSlow: looks that were over before a pack moved do not count for who
// had asked before these.
func TestMovedWhileAReadIsSlow(t *testing.T) {
	inner := &broken{Memory: &backend.Memory{}, reads: map[string]int{}}
	p := made(t, inner, "x")
	b := Of(Over(inner))
	inner.after = func() {
		inner.after = nil
		delete(inner.fails, p.Key)
		inner.mu.Unlock()
		defer inner.mu.Lock()
		for range 3 { // others look
			if _, err := b.All(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if _, _, err := Make(t.Context(), Of(Over(inner.Memory)), []backend.Info{p}, check); err != nil {
			t.Error(err)
		}
	}
	inner.fails = map[string]error{p.Key: fmt.Errorf("it went while it was asked for: %w", fs.ErrNotExist)}
	if err := b.ReadAt(t.Context(), p.Key, 0, make([]byte, 1)); err != nil {
		t.Errorf("moved while a read was slow: %v", err)
	}
}

// TestDeleteLoose: a pack is loose no more where its bale has the same bytes, or better
// ones, and stays where it is better than what is in the bale.
func TestDeleteLoose(t *testing.T) {
	inner := &backend.Memory{}
	b := Of(Over(inner))
	same, worse, better, bad, gone := made(t, inner, "v"), made(t, inner, "w"), made(t, inner, "x"), made(t, inner, "y"), made(t, inner, "z")
	one, _, err := Make(t.Context(), b, []backend.Info{same, worse, better, bad, gone}, check)
	if err != nil {
		t.Fatal(err)
	}
	flip := func(key string, at int64, bit byte) {
		t.Helper()
		content, err := backend.Read(t.Context(), inner, key)
		if err != nil {
			t.Fatal(err)
		}
		content[at] ^= bit
		if err := inner.Put(t.Context(), key, content); err != nil {
			t.Fatal(err)
		}
	}
	const blob = 8 // behind the magic
	flip(worse.Key, blob, 1)
	flip(bad.Key, blob, 1)
	flip(one.Key, same.Size+worse.Size+blob, 2)
	flip(one.Key, same.Size+worse.Size+better.Size+blob, 2)
	if err := inner.Delete(t.Context(), gone.Key); err != nil {
		t.Fatal(err)
	}
	for _, p := range []backend.Info{same, worse, better, bad, gone} {
		restored, err := b.DeleteLoose(t.Context(), p.Key, one, check)
		if (restored != nil) != (p == better) || (err != nil) != (p == bad) {
			t.Errorf("%s: %v, %v", p.Key, restored, err)
		}
	}
	left := map[string]bool{}
	if err := b.Loose(t.Context(), func(i backend.Info) { left[i.Key] = true }); err != nil || !maps.Equal(left, map[string]bool{better.Key: true, bad.Key: true}) {
		t.Errorf("%v are loose: %v", left, err)
	}
	if content, err := backend.Read(t.Context(), b, better.Key); err != nil || content[blob] != 'x' {
		t.Errorf("what is better: %q, %v", content, err)
	}
	if _, err := b.DeleteLoose(t.Context(), bad.Key, &Bale{}, check); err == nil {
		t.Error("a pack that the bale does not have")
	}
}

// TestSame: bales are the same where all packs that others hold are.
func TestSame(t *testing.T) {
	inner := &backend.Memory{}
	b := Of(Over(inner))
	x, y := made(t, inner, "x"), made(t, inner, "y")
	var bales []*Bale
	for _, of := range [][]backend.Info{{x, y}, {x}, {y}} {
		one, _, err := Make(t.Context(), b, of, check)
		if err != nil {
			t.Fatal(err)
		}
		bales = append(bales, one)
	}
	holder := func(p backend.Info) *Bale {
		if p.Key == x.Key {
			return bales[1]
		}
		return bales[2]
	}
	if same, err := b.Same(t.Context(), bales[0], holder); err != nil || !same {
		t.Errorf("the same: %v, %v", same, err)
	}
	content, err := backend.Read(t.Context(), inner, bales[2].Key)
	if err != nil {
		t.Fatal(err)
	}
	content[9] ^= 1
	if err := inner.Put(t.Context(), bales[2].Key, content); err != nil {
		t.Fatal(err)
	}
	if same, err := b.Same(t.Context(), bales[0], holder); err != nil || same {
		t.Errorf("others: %v, %v", same, err)
	}
	if same, err := b.Same(t.Context(), bales[0], func(backend.Info) *Bale { return nil }); err != nil || !same {
		t.Errorf("nobody holds any: %v, %v", same, err)
	}
	if err := inner.Delete(t.Context(), bales[1].Key); err != nil {
		t.Fatal(err)
	}
	if same, err := b.Same(t.Context(), bales[0], holder); err != nil || same {
		t.Errorf("one that went: %v, %v", same, err)
	}
}

// liar keeps one bit of each bale otherwise than it was given it.
type liar struct{ *backend.Memory }

func (l *liar) Put(ctx context.Context, key string, content []byte) error {
	if strings.HasPrefix(key, Prefix) {
		content = bytes.Clone(content)
		content[1] ^= 1
	}
	return l.Memory.Put(ctx, key, content)
}

// TestABaleThatIsNotWhatWasWritten is not there afterwards; one that could not be read again
// is, for others may rely on it already.
func TestABaleThatIsNotWhatWasWritten(t *testing.T) {
	inner := &liar{&backend.Memory{}}
	b := Of(Over(inner))
	if one, _, err := Make(t.Context(), b, []backend.Info{made(t, inner, "x")}, check); one != nil || !errors.Is(err, pack.ErrDamaged) {
		t.Errorf("%+v, %v", one, err)
	}
	if all, err := b.All(t.Context()); err != nil || len(all) > 0 {
		t.Errorf("%d bales, %v", len(all), err)
	}
	slow := &broken{Memory: &backend.Memory{}, reads: map[string]int{}}
	p := made(t, slow, "x")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	slow.after = cancel // once the pack was read, and again once a piece of the bale was
	if one, _, err := Make(ctx, Of(Over(slow)), []backend.Info{p}, check); one != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("%+v, %v", one, err)
	}
	eio := errors.New("input/output error")
	failing := &failingReads{Memory: &backend.Memory{}, err: eio}
	p = made(t, failing, "x")
	b = Of(Over(failing))
	if one, _, err := Make(t.Context(), b, []backend.Info{p}, check); one != nil || !errors.Is(err, eio) {
		t.Errorf("%+v, %v", one, err)
	}
	failing.err = nil
	if all, err := b.All(t.Context()); err != nil || len(all) != 1 {
		t.Errorf("%d bales, %v", len(all), err)
	}
}

// failingReads cannot read bales.
type failingReads struct {
	*backend.Memory
	err error
}

func (f *failingReads) ReadAt(ctx context.Context, key string, offset int64, into []byte) error {
	if f.err != nil && strings.HasPrefix(key, Prefix) {
		return f.err
	}
	return f.Memory.ReadAt(ctx, key, offset, into)
}
