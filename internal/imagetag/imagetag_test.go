package imagetag

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const (
	one = "sha256:1111111111111111111111111111111111111111111111111111111111111111"
	two = "sha256:2222222222222222222222222222222222222222222222222222222222222222"
)

// shop is a registry: tags of the repository team/box, and who is let in.
type shop struct {
	*httptest.Server
	mu     sync.Mutex
	tags   map[string]string
	status int    // of all answers, where it is set
	user   string // who is let in by a token or by name; empty: everybody
	basic  bool
	asked  int
}

func newShop(t *testing.T) *shop {
	t.Helper()
	s := &shop{tags: map[string]string{"1": one}}
	s.Server = httptest.NewTLSServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	return s
}

func (s *shop) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func (s *shop) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	user, _, named := r.BasicAuth()
	if r.URL.Path == "/token" {
		if !named || user != s.user {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]string{"token": "for-" + user})
		return
	}
	s.asked++
	known := s.user == "" || s.basic && user == s.user || r.Header.Get("Authorization") == "Bearer for-"+s.user
	tag, ours := strings.CutPrefix(r.URL.Path, "/v2/team/box/manifests/")
	switch digest := s.tags[tag]; {
	case s.status != 0:
		w.WriteHeader(s.status)
	case !known && s.basic:
		w.Header().Set("WWW-Authenticate", `Basic realm="shop"`)
		w.WriteHeader(http.StatusUnauthorized)
	case !known:
		w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="%s/token",service="shop"`, s.URL))
		w.WriteHeader(http.StatusUnauthorized)
	case !ours || digest == "":
		w.WriteHeader(http.StatusNotFound)
	default:
		w.Header().Set("Content-Type", "application/vnd.oci.image.index.v1+json")
		w.Header().Set("Content-Length", "7")
		w.Header().Set("Docker-Content-Digest", digest)
	}
}

// asking is somebody who asks, and a clock.
type asking struct {
	*Resolver
	t   *testing.T
	now time.Time
	// since is from when on what is found counts.
	since time.Time
}

func newAsking(t *testing.T, s *shop, config string) *asking {
	t.Helper()
	a := &asking{t: t, now: time.Unix(1e9, 0)}
	a.Resolver = New(Options{Transport: s.Client().Transport, Config: config, Now: func() time.Time { return a.now }})
	return a
}

// settled is what is known once the registry has answered whatever it is asked now.
func (a *asking) settled(name string) State {
	a.t.Helper()
	state := a.Ensure(name, a.since)
	select {
	case key := <-a.todo:
		if state.Digest != "" {
			a.t.Errorf("it is asked, and %+v is known already", state)
		}
		a.look(a.t.Context(), key)
		return a.Ensure(name, a.since)
	default:
		return state
	}
}

func (s *shop) image(tag string) string {
	return strings.TrimPrefix(s.URL, "https://") + "/team/box:" + tag
}

func TestATagThatMoves(t *testing.T) {
	s := newShop(t)
	a := newAsking(t, s, "")
	want := State{Digest: one, Exact: strings.TrimSuffix(s.image("1"), ":1") + "@" + one}
	if diff := cmp.Diff(want, a.settled(s.image("1"))); diff != "" {
		t.Fatal(diff)
	}
	s.set(func() { s.tags["1"] = two })
	a.now = a.now.Add(fresh - time.Second)
	if got := a.settled(s.image("1")); got.Digest != one || s.asked != 1 {
		t.Errorf("a moment later: %+v, asked %d times", got, s.asked)
	}
	a.now = a.now.Add(2 * time.Second)
	if first := a.Ensure(s.image("1"), a.since); first.Digest != "" || !strings.Contains(first.Message, "is asked what") {
		t.Errorf("what was found is too old, and is told: %+v", first)
	}
	a.look(t.Context(), <-a.todo)
	if got := a.Ensure(s.image("1"), a.since); got.Digest != two {
		t.Errorf("%+v", got)
	}
}

// What was asked for before a run began says nothing of it, however fresh it is.
func TestATagThatMovedBefore(t *testing.T) {
	s := newShop(t)
	a := newAsking(t, s, "")
	a.settled(s.image("1"))
	a.settled(s.image("9"))
	s.set(func() { s.tags["1"], s.tags["9"] = two, two })
	a.since = a.now.Add(skew + time.Second)
	if got := a.settled(s.image("1")); got.Digest != one || s.asked != 2 {
		t.Errorf("since a moment that is long to come: %+v, asked %d times", got, s.asked)
	}
	a.since = a.now.Add(skew)
	if got := a.settled(s.image("1")); got.Digest != "" || got.Failed || s.asked != 2 {
		t.Errorf("since a moment that is about to come: %+v, asked %d times", got, s.asked)
	}
	a.now = a.since
	for tag := range s.tags {
		if got := a.settled(s.image(tag)); got.Digest != two {
			t.Errorf("%s, since it has moved: %+v", tag, got)
		}
	}
	a.now = a.now.Add(time.Second)
	if got := a.settled(s.image("1")); got.Digest != two || s.asked != 4 {
		t.Errorf("asked since: %+v, asked %d times", got, s.asked)
	}
}

// What counts for one who waits counts on while it is asked for another one, who came later,
// and where that question is in vain; a question that was open before counts for nobody later.
func TestOneThatCameLater(t *testing.T) {
	s := newShop(t)
	a := newAsking(t, s, "")
	first := a.now
	a.settled(s.image("1"))
	later := first.Add(time.Second)
	a.now = later
	if got := a.Ensure(s.image("1"), later); got.Digest != "" {
		t.Errorf("the later one: %+v", got)
	}
	s.set(func() { s.tags["1"] = two })
	latest := later.Add(time.Second)
	a.now = latest
	for since, want := range map[time.Time]string{first: one, later: "", latest: ""} {
		if got := a.Ensure(s.image("1"), since); got.Digest != want || got.Failed {
			t.Errorf("while it is asked, since %v: %+v", since, got)
		}
	}
	a.look(t.Context(), <-a.todo)
	for since, want := range map[time.Time]string{first: two, later: two, latest: ""} {
		if got := a.Ensure(s.image("1"), since); got.Digest != want || got.Failed {
			t.Errorf("once that is answered, since %v: %+v", since, got)
		}
	}
	s.set(func() { s.status = http.StatusServiceUnavailable })
	a.look(t.Context(), <-a.todo)
	for since, want := range map[time.Time]string{later: two, latest: ""} {
		if got := a.Ensure(s.image("1"), since); got.Digest != want || got.Failed {
			t.Errorf("where the next is in vain, since %v: %+v", since, got)
		}
	}
}

func TestNobodyIsAskedForADigest(t *testing.T) {
	s := newShop(t)
	name := strings.TrimSuffix(s.image("1"), ":1") + "@" + two
	if diff := cmp.Diff(State{Digest: two, Exact: name}, newAsking(t, s, "").settled(name)); diff != "" || s.asked > 0 {
		t.Errorf("asked %d times: %s", s.asked, diff)
	}
}

func TestRefusals(t *testing.T) {
	tests := []struct {
		name    string
		set     func(*shop)
		tag     string
		failed  bool
		message string
	}{
		{"no such tag", func(*shop) {}, "9", true, "has no such image or tag"},
		{"a registry that is not let in by a token", func(s *shop) { s.user = "ada" }, "1", true, "pipelines.tags.secret"},
		{"a registry that wants a name", func(s *shop) { s.user, s.basic = "ada", true }, "1", true, "pipelines.tags.secret"},
		{"forbidden", func(s *shop) { s.status = http.StatusForbidden }, "1", true, "does not let Muster look (403)"},
		{"a registry with trouble", func(s *shop) { s.status = http.StatusServiceUnavailable }, "1", false, "503"},
		{"a registry that has enough", func(s *shop) { s.status = http.StatusTooManyRequests }, "1", false, "429"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := newShop(t)
			test.set(s)
			a := newAsking(t, s, "")
			got := a.settled(s.image(test.tag))
			if got.Digest != "" || got.Failed != test.failed || !strings.Contains(got.Message, test.message) {
				t.Fatalf("%+v", got)
			}
			// It stands for a while, and then is asked again.
			asked := s.asked
			if again := a.settled(s.image(test.tag)); again != got || s.asked != asked {
				t.Errorf("at once: %+v, asked %d times more", again, s.asked-asked)
			}
			s.set(func() { s.status, s.user, s.tags = 0, "", map[string]string{"1": one, "9": two} })
			a.now = a.now.Add(firstRetry)
			if again := a.settled(s.image(test.tag)); again.Digest == "" || again.Failed {
				t.Errorf("once it is mended: %+v", again)
			}
		})
	}
	if got := New(Options{}).Ensure("Not An Image", time.Time{}); !got.Failed || !strings.Contains(got.Message, `"Not An Image"`) {
		t.Errorf("%+v", got)
	}
}

func TestARegistryThatIsAway(t *testing.T) {
	s := newShop(t)
	s.Close()
	a := newAsking(t, s, "")
	for wait := firstRetry; wait < lastRetry; wait *= 2 {
		if got := a.settled(s.image("1")); got.Failed || !strings.Contains(got.Message, "cannot be found out") || strings.Contains(got.Message, "/v2/") {
			t.Fatalf("%+v", got)
		}
		a.now = a.now.Add(wait - 1)
		for _, tag := range []string{"1", "2"} { // it is left alone, whatever it is asked for
			if got := a.settled(s.image(tag)); !strings.Contains(got.Message, "cannot be found out") || len(a.todo) > 0 {
				t.Fatalf("%s is asked for too soon: %+v", tag, got)
			}
		}
		a.now = a.now.Add(1)
	}
	// Then by one question, not by all that wait.
	a.Ensure(s.image("1"), a.since)
	a.Ensure(s.image("2"), a.since)
	if len(a.todo) != 1 {
		t.Errorf("%d questions to one that did not answer", len(a.todo))
	}
}

// One registry is asked a few questions at a time, and the others meanwhile.
func TestOneRegistryOfMany(t *testing.T) {
	s, other := newShop(t), newShop(t)
	a := newAsking(t, s, "")
	for i := range 3 * ofOne {
		a.Ensure(s.image(fmt.Sprint(i)), a.since)
	}
	a.Ensure(other.image("1"), a.since)
	if len(a.todo) != ofOne+1 {
		t.Fatalf("%d questions, want %d to one and 1 to the other", len(a.todo), ofOne)
	}
	for range ofOne {
		a.look(t.Context(), <-a.todo)
	}
	if got := a.Ensure(s.image("1"), a.since); got.Digest != one {
		t.Errorf("%+v", got)
	}
}

func TestWhoIsLetIn(t *testing.T) {
	for _, basic := range []bool{true, false} {
		t.Run(fmt.Sprintf("basic %t", basic), func(t *testing.T) {
			s := newShop(t)
			s.user, s.basic = "ada", basic
			config := filepath.Join(t.TempDir(), "config.json")
			text := fmt.Sprintf(`{"auths": {%q: {"auth": %q}}}`, strings.TrimPrefix(s.URL, "https://"), base64.StdEncoding.EncodeToString([]byte("ada:secret")))
			if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if got := newAsking(t, s, config).settled(s.image("1")); got.Digest != one {
				t.Errorf("%+v", got)
			}
			if err := os.WriteFile(config, []byte("no JSON, but a secret"), 0o600); err != nil {
				t.Fatal(err)
			}
			for _, wrong := range []string{config, config + ".none"} {
				if got := newAsking(t, s, wrong).settled(s.image("1")); got.Digest != "" || strings.Contains(got.Message, "a secret") || !strings.Contains(got.Message, "reading who asks") {
					t.Errorf("%s: %+v", wrong, got)
				}
			}
		})
	}
}

func TestRun(t *testing.T) {
	s := newShop(t)
	r := New(Options{Transport: s.Client().Transport})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	deadline := time.After(30 * time.Second)
	for tick := time.Tick(time.Millisecond); r.Ensure(s.image("1"), time.Time{}).Digest != one; {
		select {
		case <-tick:
		case <-deadline:
			t.Fatalf("%+v", r.Ensure(s.image("1"), time.Time{}))
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestNamesAreForgotten(t *testing.T) {
	a := newAsking(t, newShop(t), "")
	for i := range 3 * most {
		a.Ensure(fmt.Sprintf("127.0.0.1:%d/box:%d", i%most, i), a.since)
		for len(a.todo) > 0 {
			a.known[<-a.todo].open = false
			a.registries[fmt.Sprintf("127.0.0.1:%d", i%most)].busy = 0
		}
		a.now = a.now.Add(time.Second)
	}
	if len(a.known) > most || len(a.registries) > most {
		t.Errorf("%d names of %d registries are remembered", len(a.known), len(a.registries))
	}
}
