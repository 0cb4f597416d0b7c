package session_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/internal/people/session"
)

const origin = "http://localhost:8080"

var ada = session.Caller{User: "unix:1000", Groups: []string{"vision"}}

// clock is a clock that a test sets.
type clock struct{ at atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.at.Store(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).UnixNano())
	return c
}

func (c *clock) now() time.Time        { return time.Unix(0, c.at.Load()) }
func (c *clock) move(by time.Duration) { c.at.Add(int64(by)) }

// bench is a table in a file.
type bench struct {
	*session.Table
	t     *testing.T
	clock *clock
	path  string
	opt   session.Options
}

func newBench(t *testing.T, limits session.Limits) *bench {
	t.Helper()
	b := &bench{t: t, clock: newClock(), path: filepath.Join(t.TempDir(), "sessions.json")}
	b.opt = session.Options{Store: session.File{Path: b.path}, Limits: limits, Scopes: []string{"jobs", "programs"}, Now: b.clock.now}
	b.restart()
	return b
}

func (b *bench) restart() {
	b.t.Helper()
	table, err := session.Open(b.t.Context(), b.opt)
	must(b.t, err)
	b.Table = table
}

func (b *bench) signIn(caller session.Caller) session.Opened {
	b.t.Helper()
	link, err := b.Link(caller, origin)
	must(b.t, err)
	opened, err := b.Exchange(b.t.Context(), session.Exchange{Link: link.Reveal(), Origin: origin, User: caller.User, Browser: "Chromium"})
	must(b.t, err)
	return opened
}

func (b *bench) token(name string) session.Secret {
	b.t.Helper()
	secret, _, err := b.CreateToken(b.t.Context(), ada, session.TokenSpec{Name: name, Scopes: []string{"jobs"}, Lifetime: time.Hour})
	must(b.t, err)
	return secret
}

func (b *bench) wants(o session.Opened, want error) {
	b.t.Helper()
	if _, err := b.Session(o.Cookie.Reveal(), origin); !errors.Is(err, want) {
		b.t.Errorf("session: %v, want %v", err, want)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestExchange(t *testing.T) {
	b := newBench(t, session.Limits{})
	link, err := b.Link(ada, origin)
	must(t, err)
	for range 2 { // a look uses nothing up
		caller, err := b.LinkCaller(link.Reveal(), origin)
		must(t, err)
		if diff := cmp.Diff(ada, caller); diff != "" {
			t.Fatal(diff)
		}
	}
	x := session.Exchange{Link: link.Reveal(), Origin: origin, User: ada.User, Browser: "Chromium\x1b[2J\n"}
	for name, wrong := range map[string]session.Exchange{
		"another origin": {Link: x.Link, Origin: "http://localhost:8081", User: x.User},
		"another user":   {Link: x.Link, Origin: x.Origin, User: "unix:1001"},
		"another link":   {Link: x.Link[:len(x.Link)-1] + "-", Origin: x.Origin, User: x.User},
		"no link":        {Origin: x.Origin, User: x.User},
	} {
		if _, err := b.Exchange(t.Context(), wrong); !errors.Is(err, session.ErrUnknown) {
			t.Errorf("%s: %v", name, err)
		}
	}
	opened, err := b.Exchange(t.Context(), x)
	must(t, err)
	if _, err := b.Exchange(t.Context(), x); !errors.Is(err, session.ErrUnknown) {
		t.Errorf("a link was exchanged twice: %v", err)
	}
	if opened.Name != "Chromium[2J" {
		t.Errorf("the browser's name is %q", opened.Name)
	}
	grant, err := b.Session(opened.Cookie.Reveal(), origin)
	must(t, err)
	if !grant.HasKey(opened.Key.Reveal()) || grant.HasKey("") || grant.HasKey(opened.Cookie.Reveal()) {
		t.Error("the session takes another key than its own")
	}
	if diff := cmp.Diff(ada, grant.Caller); diff != "" {
		t.Error(diff)
	}
}

func TestExchangeOnce(t *testing.T) {
	b := newBench(t, session.Limits{})
	link, err := b.Link(ada, origin)
	must(t, err)
	var won atomic.Int32
	var all sync.WaitGroup
	for range 32 {
		all.Go(func() {
			_, err := b.Exchange(context.WithoutCancel(t.Context()), session.Exchange{Link: link.Reveal(), Origin: origin, User: ada.User})
			if err == nil {
				won.Add(1)
			}
		})
	}
	all.Wait()
	if won.Load() != 1 || len(b.List("")) != 1 {
		t.Errorf("%d of 32 exchanges of one link succeeded, with %d sessions; want 1", won.Load(), len(b.List("")))
	}
}

// TestSecretsOpenOneThing: no secret counts as another kind, at another origin, or in another spelling.
func TestSecretsOpenOneThing(t *testing.T) {
	b := newBench(t, session.Limits{})
	opened, token := b.signIn(ada), b.token("nightly")
	cookie := opened.Cookie.Reveal()
	parts := strings.Split(cookie, ".")
	for name, try := range map[string]func() (session.Grant, error){
		"cookie as a token":     func() (session.Grant, error) { return b.Token(cookie) },
		"token as a cookie":     func() (session.Grant, error) { return b.Session(token.Reveal(), origin) },
		"token at no origin":    func() (session.Grant, error) { return b.Session(token.Reveal(), "") },
		"cookie elsewhere":      func() (session.Grant, error) { return b.Session(cookie, "http://localhost:8081") },
		"cookie with a newline": func() (session.Grant, error) { return b.Session(cookie+"\n", origin) },
		"ID in capitals": func() (session.Grant, error) {
			return b.Session(parts[0]+"."+strings.ToUpper(parts[1])+"0."+parts[2], origin)
		},
		"relabelled": func() (session.Grant, error) {
			return b.Token(strings.Replace(cookie, "session", "token", 1))
		},
		"another entry's ID": func() (session.Grant, error) {
			return b.Session(parts[0]+"."+strings.Split(token.Reveal(), ".")[1]+"."+parts[2], origin)
		},
		"empty": func() (session.Grant, error) { return b.Session("", "") },
	} {
		if _, err := try(); !errors.Is(err, session.ErrUnknown) {
			t.Errorf("%s: %v, want %v", name, err, session.ErrUnknown)
		}
	}
	grant, err := b.Token(token.Reveal())
	must(t, err)
	if grant.HasKey("") || grant.HasKey(opened.Key.Reveal()) {
		t.Error("a token has a key")
	}
}

func TestTimes(t *testing.T) {
	const day, hour = 24 * time.Hour, time.Hour
	for name, c := range map[string]struct {
		moves []time.Duration // each is followed by a request
		want  error
	}{
		"used":              {[]time.Duration{hour, 7 * hour, 7 * hour}, nil},
		"idle":              {[]time.Duration{8 * hour}, session.ErrExpired},
		"absolute":          {[]time.Duration{7 * hour, 7 * hour, 7 * hour, 3 * hour}, session.ErrExpired},
		"set back a little": {[]time.Duration{-4 * time.Minute}, nil},
		"set back":          {[]time.Duration{-hour}, session.ErrClock},
		"set back to 1970":  {[]time.Duration{-56 * 365 * day}, session.ErrClock},
		"set back after use": {
			[]time.Duration{7 * hour, -hour}, session.ErrClock,
		},
		"set back and corrected": {[]time.Duration{-hour, hour + time.Minute}, nil},
		"set ahead":              {[]time.Duration{365 * day}, session.ErrExpired},
	} {
		for _, restarted := range []bool{false, true} {
			b := newBench(t, session.Limits{})
			opened := b.signIn(ada)
			var err error
			for _, m := range c.moves {
				must(t, b.Flush(t.Context()))
				b.clock.move(m)
				if restarted {
					b.restart()
				}
				_, err = b.Session(opened.Cookie.Reveal(), origin)
			}
			if !errors.Is(err, c.want) {
				t.Errorf("%s (restarted: %t): %v, want %v", name, restarted, err, c.want)
			}
		}
	}
}

func TestLinkTimes(t *testing.T) {
	for name, c := range map[string]struct {
		move time.Duration
		want error
	}{
		"in time":  {59 * time.Second, nil},
		"late":     {time.Minute, session.ErrExpired},
		"set back": {-time.Second, session.ErrExpired},
	} {
		b := newBench(t, session.Limits{})
		link, err := b.Link(ada, origin)
		must(t, err)
		b.clock.move(c.move)
		_, err = b.Exchange(t.Context(), session.Exchange{Link: link.Reveal(), Origin: origin, User: ada.User})
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	b := newBench(t, session.Limits{})
	link, err := b.Link(ada, origin)
	must(t, err)
	b.restart()
	if _, err := b.LinkCaller(link.Reveal(), origin); !errors.Is(err, session.ErrUnknown) {
		t.Errorf("a link survived a restart: %v", err)
	}
}

func TestRestart(t *testing.T) {
	b := newBench(t, session.Limits{})
	opened, token := b.signIn(ada), b.token("nightly")
	before := b.List("")
	b.restart()
	if diff := cmp.Diff(before, b.List("")); diff != "" {
		t.Fatal(diff)
	}
	b.wants(opened, nil)
	_, err := b.Token(token.Reveal())
	must(t, err)
	info, err := os.Stat(b.path)
	must(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("the table's file has the mode %#o, want 0600", info.Mode().Perm())
	}
	text, err := os.ReadFile(b.path)
	must(t, err)
	for _, s := range []session.Secret{opened.Cookie, opened.Key, token} {
		random := s.Reveal()[strings.LastIndexByte(s.Reveal(), '.')+1:]
		if strings.Contains(string(text), random) {
			t.Error("the table's file holds a secret")
		}
	}
}

func TestRevoke(t *testing.T) {
	b := newBench(t, session.Limits{})
	mine, other, token := b.signIn(ada), b.signIn(session.Caller{User: "unix:1001"}), b.token("nightly")
	grant, err := b.Session(mine.Cookie.Reveal(), origin)
	must(t, err)
	ended := make(chan struct{})
	grant.AfterEnd(func() { close(ended) })
	if err := b.Revoke(t.Context(), "unix:1001", mine.ID); !errors.Is(err, session.ErrUnknown) {
		t.Errorf("a user revoked another's session: %v", err)
	}
	must(t, b.Revoke(t.Context(), ada.User, mine.ID))
	<-ended
	b.wants(mine, session.ErrUnknown)
	b.restart()
	b.wants(mine, session.ErrUnknown)
	b.wants(other, nil)

	link, err := b.Link(ada, origin)
	must(t, err)
	must(t, b.RevokeUser(t.Context(), ada.User))
	if _, err := b.Token(token.Reveal()); !errors.Is(err, session.ErrUnknown) {
		t.Errorf("a token outlived its user: %v", err)
	}
	if _, err := b.LinkCaller(link.Reveal(), origin); !errors.Is(err, session.ErrUnknown) {
		t.Errorf("a link outlived its user: %v", err)
	}
	b.wants(other, nil)
}

func TestBounds(t *testing.T) {
	b := newBench(t, session.Limits{Sessions: 2, Tokens: 2, Total: 6})
	var mine []session.Opened
	for range 3 {
		mine = append(mine, b.signIn(ada))
		b.clock.move(time.Second)
		b.wants(mine[0], nil) // the first is used most recently
		b.clock.move(time.Second)
	}
	b.wants(mine[0], nil)
	b.wants(mine[1], session.ErrUnknown)
	b.wants(mine[2], nil)

	b.token("one")
	b.token("two")
	for name, want := range map[string]string{"three": "at most 2", "two": "you have a token with this name"} {
		_, _, err := b.CreateToken(t.Context(), ada, session.TokenSpec{Name: name, Scopes: []string{"jobs"}, Lifetime: time.Hour})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("token %s: %v, want %q", name, err, want)
		}
	}
	for n := range 2 {
		b.signIn(session.Caller{User: fmt.Sprint("unix:", 2000+n)})
	}
	link, err := b.Link(ada, origin)
	must(t, err)
	if _, err := b.Exchange(t.Context(), session.Exchange{Link: link.Reveal(), Origin: origin, User: ada.User}); !errors.Is(err, session.ErrFull) {
		t.Errorf("a seventh entry: %v, want %v", err, session.ErrFull)
	}
	first, err := b.Link(ada, origin)
	must(t, err)
	for range 16 {
		b.clock.move(time.Millisecond)
		_, err := b.Link(ada, origin)
		must(t, err)
	}
	if _, err := b.LinkCaller(first.Reveal(), origin); !errors.Is(err, session.ErrUnknown) {
		t.Errorf("the oldest of 17 links: %v, want %v", err, session.ErrUnknown)
	}
}

func TestTokens(t *testing.T) {
	b := newBench(t, session.Limits{})
	for _, c := range []struct {
		spec session.TokenSpec
		want string
	}{
		{session.TokenSpec{Name: "Upper", Scopes: []string{"jobs"}, Lifetime: time.Hour}, `token name "Upper"`},
		{session.TokenSpec{Scopes: []string{"jobs"}, Lifetime: time.Hour}, `token name ""`},
		{session.TokenSpec{Name: "a", Lifetime: time.Hour}, "give some of jobs, programs"},
		{session.TokenSpec{Name: "a", Scopes: []string{"all"}, Lifetime: time.Hour}, "the scopes are jobs, programs"},
		{session.TokenSpec{Name: "a", Scopes: []string{"jobs"}}, "token lifetime 0s"},
		{session.TokenSpec{Name: "a", Scopes: []string{"jobs"}, Lifetime: 367 * 24 * time.Hour}, "at most"},
	} {
		if _, _, err := b.CreateToken(t.Context(), ada, c.spec); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.spec, err, c.want)
		}
	}
	for _, c := range []session.Caller{{}, {User: "a\x00b"}, {User: strings.Repeat("a", 254)}, {User: strings.Repeat("a", 100) + "\n"},
		{User: "a", Groups: make([]string, 257)}, {User: "a", Groups: []string{strings.Repeat("g", 254)}}} {
		if _, err := b.Link(c, origin); err == nil {
			t.Errorf("caller %.20q was accepted", c.User)
		}
	}
	token := b.token("nightly")
	b.clock.move(time.Hour)
	if _, err := b.Token(token.Reveal()); !errors.Is(err, session.ErrExpired) {
		t.Errorf("an expired token: %v", err)
	}
	must(t, b.Flush(t.Context()))
	if n := len(b.List(ada.User)); n != 1 {
		t.Errorf("%d tokens are listed on the day of their expiry, want 1", n)
	}
	b.clock.move(8 * 24 * time.Hour)
	must(t, b.Flush(t.Context()))
	if n := len(b.List("")); n != 0 {
		t.Errorf("%d tokens are listed a week after their expiry, want 0", n)
	}
}

// broken is a store that fails on demand.
type broken struct {
	session.Store
	fail atomic.Bool
}

var errDisk = errors.New("no space left on device")

func (b *broken) Save(ctx context.Context, table []byte) error {
	if b.fail.Load() {
		return errDisk
	}
	return b.Store.Save(ctx, table)
}

func TestStoreFails(t *testing.T) {
	b := newBench(t, session.Limits{})
	disk := &broken{Store: b.opt.Store}
	b.opt.Store = disk
	b.restart()
	mine := b.signIn(ada)
	disk.fail.Store(true)
	link, err := b.Link(ada, origin)
	must(t, err)
	x := session.Exchange{Link: link.Reveal(), Origin: origin, User: ada.User}
	if _, err := b.Exchange(t.Context(), x); !errors.Is(err, errDisk) {
		t.Errorf("an exchange with a full disk: %v", err)
	}
	if _, err := b.Exchange(t.Context(), x); !errors.Is(err, session.ErrUnknown) {
		t.Errorf("the link was not used up: %v", err)
	}
	if n := len(b.List("")); n != 1 {
		t.Errorf("%d entries, want 1", n)
	}
	if err := b.Revoke(t.Context(), ada.User, mine.ID); !errors.Is(err, errDisk) {
		t.Errorf("revoking with a full disk: %v", err)
	}
	b.wants(mine, session.ErrUnknown)
	disk.fail.Store(false)
	must(t, b.Flush(t.Context())) // what failed is written later
	b.restart()
	b.wants(mine, session.ErrUnknown)
}

func TestRunStoresTheLastUse(t *testing.T) {
	b := newBench(t, session.Limits{})
	mine := b.signIn(ada)
	b.clock.move(7 * time.Hour)
	b.wants(mine, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b.Run(ctx, func(err error) { t.Error(err) })
	b.restart()
	b.clock.move(7 * time.Hour)
	b.wants(mine, nil)
}

func TestFile(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(path string) error
		want    string
	}{
		"readable": {func(p string) error { return os.WriteFile(p, nil, 0o644) }, "mode 0644"},
		"link":     {func(p string) error { return os.Symlink("/etc/passwd", p) }, "sessions.json"},
		"folder":   {func(p string) error { return os.Mkdir(p, 0o700) }, "sessions.json"},
		"broken":   {func(p string) error { return os.WriteFile(p, []byte(`{"version":1,`), 0o600) }, "all users sign in again"},
		"newer":    {func(p string) error { return os.WriteFile(p, []byte(`{"version":2}`), 0o600) }, "version 2"},
		"large":    {func(p string) error { return os.WriteFile(p, make([]byte, 2<<20), 0o600) }, "1048576"},
	} {
		path := filepath.Join(t.TempDir(), "sessions.json")
		must(t, c.prepare(path))
		_, err := session.Open(t.Context(), session.Options{Store: session.File{Path: path}})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestSecretsAreNotPrinted(t *testing.T) {
	b := newBench(t, session.Limits{})
	opened := b.signIn(ada)
	var out strings.Builder
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		fmt.Fprintf(&out, verb+verb, opened.Cookie, opened)
	}
	text, err := json.Marshal(opened)
	must(t, err)
	slog.New(slog.NewJSONHandler(&out, nil)).Info("session", "opened", opened, "cookie", opened.Cookie)
	out.Write(text)
	for _, s := range []session.Secret{opened.Cookie, opened.Key} {
		random := s.Reveal()[strings.LastIndexByte(s.Reveal(), '.')+1:]
		if strings.Contains(out.String(), random) || strings.Contains(out.String(), fmt.Sprintf("%x", random)) {
			t.Errorf("a secret was printed: %s", out.String())
		}
	}
	if !session.Reveals("x="+opened.Cookie.Reveal()) || session.Reveals("muster-session") {
		t.Error("Reveals misses a secret, or finds one where none is")
	}
}

// memory is a store with given content.
type memory struct{ text []byte }

func (m *memory) Load(context.Context) ([]byte, error)      { return m.text, nil }
func (m *memory) Save(_ context.Context, text []byte) error { m.text = text; return nil }

// FuzzLoad: a stored table is read or refused. What is read is written as a table that reads the same.
func FuzzLoad(f *testing.F) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	seed := &memory{}
	table, err := session.Open(f.Context(), session.Options{Store: seed, Scopes: []string{"jobs"}, Now: func() time.Time { return at }})
	if err != nil {
		f.Fatal(err)
	}
	if _, _, err := table.CreateToken(f.Context(), ada, session.TokenSpec{Name: "a", Scopes: []string{"jobs"}, Lifetime: time.Hour}); err != nil {
		f.Fatal(err)
	}
	link, err := table.Link(ada, origin)
	if err != nil {
		f.Fatal(err)
	}
	if _, err := table.Exchange(f.Context(), session.Exchange{Link: link.Reveal(), Origin: origin, User: ada.User}); err != nil {
		f.Fatal(err)
	}
	f.Add(seed.text)
	f.Add([]byte(`{"version":1,"records":[null]}`))
	f.Add([]byte(`{"version":1,"records":[{"id":"0000000000000000","kind":"session"}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		m := &memory{text: text}
		o := session.Options{Store: m, Now: func() time.Time { return at }}
		first, err := session.Open(t.Context(), o)
		if err != nil {
			return
		}
		before := first.List("")
		for _, e := range before {
			if e.Caller.User == "" || e.ID == "" || (e.Kind == session.KindSession) != (e.Origin != "") {
				t.Fatalf("an incomplete entry was read: %+v", e)
			}
		}
		if err := first.RevokeUser(t.Context(), "nobody at all"); err != nil {
			t.Fatal(err)
		}
		second, err := session.Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(first.List(""), second.List("")); diff != "" {
			t.Fatal(diff)
		}
	})
}

// TestRevokeOrigin: the sessions and links of a program end with its site; others go on.
func TestRevokeOrigin(t *testing.T) {
	table, err := session.Open(t.Context(), session.Options{Store: session.File{Path: filepath.Join(t.TempDir(), "sessions.json")}})
	if err != nil {
		t.Fatal(err)
	}
	ada := session.Caller{User: "unix:1000"}
	open := func(origin string) (cookie string, unused string) {
		t.Helper()
		link, err := table.Link(ada, origin)
		if err != nil {
			t.Fatal(err)
		}
		opened, err := table.Exchange(t.Context(), session.Exchange{Link: link.Reveal(), Origin: origin, User: ada.User})
		if err != nil {
			t.Fatal(err)
		}
		second, err := table.Link(ada, origin)
		if err != nil {
			t.Fatal(err)
		}
		return opened.Cookie.Reveal(), second.Reveal()
	}
	const board, console = "http://board-1000.localhost:8080", "http://localhost:8080"
	gone, goneLink := open(board)
	kept, keptLink := open(console)
	if err := table.RevokeOrigin(t.Context(), board); err != nil {
		t.Fatal(err)
	}
	_, atSite := table.Session(gone, board)
	_, link := table.LinkCaller(goneLink, board)
	if !errors.Is(atSite, session.ErrUnknown) || !errors.Is(link, session.ErrUnknown) {
		t.Errorf("after the end of the site: session %v, link %v", atSite, link)
	}
	_, atSite = table.Session(kept, console)
	_, link = table.LinkCaller(keptLink, console)
	if atSite != nil || link != nil {
		t.Errorf("at the other site: session %v, link %v", atSite, link)
	}
}

// TestOrigins: an origin is in use by a session of anybody, and by a link of another user.
func TestOrigins(t *testing.T) {
	b := newBench(t, session.Limits{})
	b.signIn(ada)
	_, err := b.Link(ada, "http://localhost:1")
	must(t, err)
	for user, want := range map[string][]string{ada.User: {origin}, "unix:1001": {origin, "http://localhost:1"}, "": {origin, "http://localhost:1"}} {
		got := slices.Sorted(maps.Keys(b.Origins(user)))
		slices.Sort(want)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("without %q: %s", user, diff)
		}
	}
}

// TestBytes: a table that is too large is refused before it is stored, and one with a higher bound is
// read again.
func TestBytes(t *testing.T) {
	store := session.File{Path: filepath.Join(t.TempDir(), "s.json")}
	user := 0
	fill := func(limits session.Limits, most int) (count int) {
		table, err := session.Open(t.Context(), session.Options{Store: store, Limits: limits, Scopes: []string{"read"}})
		must(t, err)
		for count < most {
			user++
			if _, _, err := table.CreateToken(t.Context(), session.Caller{User: fmt.Sprint("unix:", user)}, session.TokenSpec{Name: "a", Scopes: []string{"read"}, Lifetime: time.Hour}); err != nil {
				if !errors.Is(err, session.ErrFull) {
					t.Fatal(err)
				}
				return count
			}
			count++
		}
		return count
	}
	if got := fill(session.Limits{Bytes: 4000}, 100); got == 0 || got > 20 {
		t.Errorf("4,000 bytes have %d tokens", got)
	}
	if got := fill(session.Limits{Bytes: 16 << 20}, 30); got != 30 {
		t.Errorf("a larger table took %d tokens of other users", got)
	}
	if _, err := session.Open(t.Context(), session.Options{Store: store, Limits: session.Limits{Bytes: 4000}}); err == nil {
		t.Error("a table beyond the bound was read")
	}
}
