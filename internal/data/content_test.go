package data

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/internal/data/backend"
	"github.com/muster-dev/muster/internal/data/pack"
	"github.com/muster-dev/muster/internal/data/ref"
)

// holding is all that a branch has, by path.
func holding(t *testing.T, d *Dataset, branch string) map[string]string {
	t.Helper()
	v, err := d.At(t.Context(), branch)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	if err := v.From(t.Context(), "", func(e *Entry) error {
		f, err := v.Open(t.Context(), e.Path)
		if err != nil {
			return err
		}
		b := make([]byte, e.Size)
		_, err = f.ReadAt(b, 0)
		got[e.Path] = string(b)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return got
}

// TestContents puts, copies and removes single paths, many commits on one lease.
func TestContents(t *testing.T) {
	p, ctx := newPlace(t), t.Context()
	lease, err := p.store.Pin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	commit := func(branch string, change func(*Session) error) error {
		t.Helper()
		s, err := p.Begin(ctx, branch, SessionOptions{Lease: lease})
		if err != nil {
			t.Fatal(err)
		}
		if err := change(s); err != nil {
			return errors.Join(err, s.Close(ctx))
		}
		_, err = s.Commit(ctx, CommitOptions{})
		return err
	}
	if err := commit("main", func(s *Session) error {
		return s.Add(ctx, Contents([]Content{{Path: "b/c", Bytes: []byte("2")}, {Path: "a", Bytes: []byte("1"), Name: ContentName([]byte("1"))}, {Path: "empty"}}), AddOptions{})
	}); err != nil {
		t.Fatal(err)
	}
	main, err := p.At(ctx, "main")
	if err != nil {
		t.Fatal(err)
	}
	if err := commit("next", func(s *Session) error { return s.Copy(ctx, main, "b/c", "copied/c") }); err != nil {
		t.Fatal(err)
	}
	if err := commit("main", func(s *Session) error {
		return errors.Join(s.Unset(ctx, "a"), s.Unset(ctx, "b"), s.Unset(ctx, "none"), s.Copy(ctx, main, "a", "d"))
	}); err != nil {
		t.Fatal(err)
	}
	for branch, want := range map[string]map[string]string{"main": {"b/c": "2", "d": "1", "empty": ""}, "next": {"copied/c": "2"}} {
		if diff := cmp.Diff(want, holding(t, p.Dataset, branch)); diff != "" {
			t.Errorf("%s: %s", branch, diff)
		}
	}
	if e, err := main.Stat(ctx, "a"); err != nil || e.Content != ContentName([]byte("1")) {
		t.Errorf("the content's name: %v, %v", e.Content, err)
	}
	for name, change := range map[string]func(*Session) error{
		"at most": func(s *Session) error {
			return s.Add(ctx, Contents([]Content{{Path: "long", Bytes: make([]byte, MaxContent+1)}}), AddOptions{})
		},
		`the part ".."`: func(s *Session) error { return s.Add(ctx, Contents([]Content{{Path: "../a"}}), AddOptions{}) },
		"b is a folder": func(s *Session) error { return s.Copy(ctx, main, "b", "x") },
		"not in commit": func(s *Session) error { return s.Copy(ctx, main, "none", "x") },
	} {
		err := commit("main", change)
		if err == nil || !strings.Contains(strings.ReplaceAll(err.Error(), `"b"`, "b"), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := lease.Release(ctx); err != nil {
		t.Error(err)
	}
	if left, err := p.store.leases(ctx, p.store.clock(), true); err != nil || len(left) != 0 {
		t.Errorf("leases stay: %v, %v", left, err)
	}
}

// TestCheck is asked again where the branch moved meanwhile.
func TestCheck(t *testing.T) {
	p, ctx := newPlace(t), t.Context()
	put := func(check func(context.Context, *View) error) error {
		s, err := p.Begin(ctx, "main", SessionOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Add(ctx, Contents([]Content{{Path: "once", Bytes: []byte("mine")}}), AddOptions{}); err != nil {
			t.Fatal(err)
		}
		_, err = s.Commit(ctx, CommitOptions{Check: check})
		return errors.Join(err, s.Close(ctx))
	}
	taken := errors.New("it is there already")
	asked := 0
	err := put(func(ctx context.Context, on *View) error {
		if asked++; asked == 1 {
			if on != nil {
				t.Error("there is something before the first commit")
			}
			// Somebody else comes first, between the question and the commit.
			_, err := p.Put(ctx, "main", Contents([]Content{{Path: "once", Bytes: []byte("theirs")}}), PutOptions{})
			return err
		}
		if _, err := on.Stat(ctx, "once"); !errors.Is(err, fs.ErrNotExist) {
			return taken
		}
		return nil
	})
	if !errors.Is(err, taken) || asked != 2 {
		t.Errorf("asked %d times: %v", asked, err)
	}
	if diff := cmp.Diff(map[string]string{"once": "theirs"}, holding(t, p.Dataset, "main")); diff != "" {
		t.Error(diff)
	}
}

// TestContentsMadeBefore: what is named and compressed before a session begins is
// stored as what the session does that for.
func TestContentsMadeBefore(t *testing.T) {
	texts := map[string]string{
		"empty": "", "short": "1", "text": strings.Repeat("so much of the same ", 5000), "noise": noise(1, 70_000),
		"most": noise(2, MaxContent),
	}
	stored := map[string]int64{}
	for name, make := range map[string]func(p *place, path, text string) Content{
		"before": func(p *place, path, text string) Content { return p.store.Content(path, []byte(text)) },
		"within": func(_ *place, path, text string) Content { return Content{Path: path, Bytes: []byte(text)} },
	} {
		p := newPlace(t)
		var all []Content
		for path, text := range texts {
			c := make(p, path, text)
			if name == "before" && (c.Name != ContentName([]byte(text)) || (c.stored == nil) != (text == "")) {
				t.Errorf("%s: named %v, %d bytes to be stored", path, c.Name, len(c.stored))
			}
			all = append(all, c)
		}
		slices.SortFunc(all, func(a, b Content) int { return strings.Compare(a.Path, b.Path) })
		done, err := p.Put(t.Context(), "main", Contents(all), PutOptions{})
		if err != nil {
			t.Fatal(err)
		}
		stored[name] = done.Stored
		same(t, name, texts, holding(t, p.Dataset, "main"))
		again, err := p.Put(t.Context(), "main", Contents(all), PutOptions{})
		if err != nil || !again.Unchanged || again.Stored > 0 {
			t.Errorf("%s, the same again: %+v, %v", name, again, err)
		}
		long := []Content{make(p, "long", noise(3, MaxContent+1))}
		if _, err := p.Put(t.Context(), "main", Contents(long), PutOptions{}); err == nil {
			t.Errorf("%s: more than fits was taken", name)
		}
	}
	if stored["before"] != stored["within"] || stored["before"] < 70_000+MaxContent || stored["before"] > 90_000+MaxContent {
		t.Errorf("bytes stored: %v", stored)
	}
}

// TestSend sends contents ahead: they are stored once, in a pack of their own, also
// where they come to nothing.
func TestSend(t *testing.T) {
	p, ctx := newPlace(t), t.Context()
	var contents []Content
	want := map[string]string{}
	for _, name := range []string{"a", "b", "c"} {
		text := strings.Repeat(name, 1000) + "\x00\xff"
		want[name] = text
		contents = append(contents, p.store.Content(name, []byte(text)))
	}
	contents = append(contents, p.store.Content("empty", nil))
	want["empty"] = ""
	packs := func() (n int) {
		t.Helper()
		if err := p.store.backend.List(ctx, "packs/", func(backend.Info) error { n++; return nil }); err != nil {
			t.Fatal(err)
		}
		return n
	}
	begin := func() *Session {
		t.Helper()
		s, err := p.Begin(ctx, "main", SessionOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := begin()
	if err := s.Send(ctx, contents); err != nil {
		t.Fatal(err)
	}
	if err := s.Add(ctx, Contents(contents), AddOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Commit(ctx, CommitOptions{}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, holding(t, p.Dataset, "main")); diff != "" {
		t.Error(diff)
	}
	if n := packs(); n != 2 {
		t.Errorf("%d packs: one of contents and one of the tree are expected", n)
	}
	v, err := p.At(ctx, "main")
	if err != nil {
		t.Fatal(err)
	}
	var at [3]pack.Name
	for i, name := range []string{"a", "b", "c"} {
		e, err := v.Stat(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		at[i] = e.Place.Pack
	}
	if at[0] != at[1] || at[1] != at[2] {
		t.Errorf("what was sent together is in packs %v", at)
	}

	// Nothing of a session that comes to nothing is in the branch, and all of it goes.
	lost := begin()
	if err := lost.Send(ctx, []Content{p.store.Content("d", []byte("never added"))}); err != nil {
		t.Fatal(err)
	}
	if err := lost.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if err := lost.Send(ctx, contents); err == nil {
		t.Error("a session that is over sends")
	}
	if diff := cmp.Diff(want, holding(t, p.Dataset, "main")); diff != "" {
		t.Error(diff)
	}
	if _, err := p.store.Collect(ctx, CollectOptions{Heads: []ref.Heads{p.heads}}); err != nil {
		t.Fatal(err)
	}
	if n := packs(); n != 2 {
		t.Errorf("%d packs are left after collecting, want 2", n)
	}
}

// TestSendIntoNowhere: a commit never has what did not come to the store.
func TestSendIntoNowhere(t *testing.T) {
	p, ctx := newPlace(t), t.Context()
	full := &refusing{Backend: p.bytes, err: errors.New("no room")}
	d := p.open(t, full, p.heads)
	s, err := d.Begin(ctx, "main", SessionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	contents := []Content{d.store.Content("a", []byte("1"))}
	full.on = true
	err = s.Send(ctx, contents)
	if err == nil {
		err = s.Add(ctx, Contents(contents), AddOptions{})
	}
	if err == nil {
		_, err = s.Commit(ctx, CommitOptions{})
	}
	if !errors.Is(err, full.err) {
		t.Errorf("it says %v", err)
	}
	if err := s.Close(ctx); err != nil {
		t.Error(err)
	}
	if _, err := d.At(ctx, "main"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("main is there: %v", err)
	}
}

// TestSendToAFolder has a folder take contents before their tree is there: all of it is one pack,
// and nothing is left of a change that comes to nothing.
func TestSendToAFolder(t *testing.T) {
	dir, ctx := t.TempDir(), t.Context()
	folder, err := backend.OpenFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	p := newPlace(t)
	d := p.open(t, folder, p.heads)
	var contents []Content
	want := map[string]string{}
	for _, name := range []string{"a", "b", "c", "d"} {
		text := strings.Repeat(name, 100_000) + "\x00\xff"
		want[name] = text
		contents = append(contents, Content{Path: name, Bytes: []byte(text), Name: ContentName([]byte(text)), stored: []byte(text)})
	}
	begin := func() *Session {
		t.Helper()
		s, err := d.Begin(ctx, "main", SessionOptions{})
		if err == nil {
			err = errors.Join(s.Send(ctx, contents[:1]), s.Send(ctx, contents[1:3]))
		}
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	count := func(below string) (n int) {
		t.Helper()
		err := filepath.WalkDir(filepath.Join(dir, below), func(_ string, e fs.DirEntry, err error) error {
			if err == nil && !e.IsDir() {
				n++
			}
			return err
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		return n
	}
	if err := begin().Close(ctx); err != nil {
		t.Fatal(err)
	}
	if packs, left := count("packs"), count(".incoming"); packs+left > 0 {
		t.Errorf("after one that came to nothing: %d packs, and %d files half written", packs, left)
	}
	s := begin()
	if e, err := s.Stat(ctx, "a"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what was only sent: %v, %v", e, err)
	}
	if err := s.Send(ctx, contents); err != nil {
		t.Fatal(err)
	}
	if err := s.Add(ctx, Contents(contents), AddOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Commit(ctx, CommitOptions{}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, holding(t, d, "main")); diff != "" {
		t.Error(diff)
	}
	if packs, left := count("packs"), count(".incoming"); packs != 1 || left != 0 {
		t.Errorf("%d packs, and %d files half written: one pack of contents and tree is expected", packs, left)
	}
	if found, err := d.store.Verify(ctx, VerifyOptions{Heads: []ref.Heads{p.heads}, Bytes: true}); err != nil || len(found.Problems) > 0 {
		t.Errorf("%+v, %v", found, err)
	}
}

// refusing refuses packs when it is on.
type refusing struct {
	backend.Backend
	on  bool
	err error
}

func (r *refusing) Put(ctx context.Context, key string, content []byte) error {
	if r.on && strings.HasPrefix(key, "packs/") {
		return r.err
	}
	return r.Backend.Put(ctx, key, content)
}
