package browser

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/muster-dev/muster/internal/people/signin/idp"
)

// Browser has the cookies and the key of one session.
type Browser struct {
	t    testing.TB
	idp  *idp.Provider
	base *url.URL
	// At is the address at which the console listens.
	At string
	// Cookies are those that it keeps.
	Cookies map[string]string
	// Key is the session's, once the browser has signed in.
	Key string
}

// Answer is an answer of the console, without its text.
type Answer struct {
	StatusCode int
	Status     string
	Header     http.Header
}

// New returns a browser of a console whose address for browsers is base, and which listens at an address.
func New(t testing.TB, p *idp.Provider, base, at string) *Browser {
	t.Helper()
	u, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	return &Browser{t: t, idp: p, base: u, At: at, Cookies: map[string]string{}}
}

// Copy returns another browser with the same cookies, and without the key.
func (b *Browser) Copy() *Browser {
	other := *b
	other.Cookies, other.Key = maps.Clone(b.Cookies), ""
	return &other
}

// Do sends a request to a path below the console, as the proxy passes it on.
func (b *Browser) Do(method, path, body string) (Answer, string, error) {
	origin := b.base.Scheme + "://" + b.base.Host
	r, err := http.NewRequestWithContext(b.t.Context(), method, "http://"+b.At+b.base.Path+path, bytes.NewReader([]byte(body)))
	if err != nil {
		return Answer{}, "", err
	}
	r.Header.Set("X-Forwarded-Host", b.base.Host)
	r.Header.Set("X-Forwarded-Proto", b.base.Scheme)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if method != http.MethodGet {
		r.Header.Set("Origin", origin)
	}
	if b.Key != "" {
		r.Header.Set("X-Muster-Key", b.Key)
	}
	for name, value := range b.Cookies {
		r.AddCookie(&http.Cookie{Name: name, Value: value}) //nolint:gosec // of a request
	}
	answer, err := (&http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}).Do(r)
	if err != nil {
		return Answer{}, "", err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	for _, c := range answer.Cookies() {
		if !c.Secure || !c.HttpOnly || !strings.HasPrefix(c.Name, "__Host-") {
			b.t.Errorf("a cookie without protection: %s", c.Name)
		}
		if c.MaxAge < 0 {
			delete(b.Cookies, c.Name)
		} else {
			b.Cookies[c.Name] = c.Value
		}
	}
	return Answer{answer.StatusCode, answer.Status, answer.Header}, string(text), err
}

// Get reads a path, and fails the test if the console does not answer.
func (b *Browser) Get(path string) (Answer, string) { return b.must("GET", path, "") }

// Post sends a body, and fails the test if the console does not answer.
func (b *Browser) Post(path, body string) (Answer, string) { return b.must("POST", path, body) }

func (b *Browser) must(method, path, body string) (Answer, string) {
	b.t.Helper()
	answer, text, err := b.Do(method, path, body)
	if err != nil {
		b.t.Fatal(err)
	}
	return answer, text
}

// Begin goes to the provider, and returns the path to which that sends the browser back.
func (b *Browser) Begin() string {
	b.t.Helper()
	answer, text := b.Get("/.muster/signin")
	if answer.StatusCode != http.StatusSeeOther {
		b.t.Fatalf("the sign-in begins with %s: %s", answer.Status, text)
	}
	back := b.idp.Visit(b.t, answer.Header.Get("Location"))
	path, ok := strings.CutPrefix(back.RequestURI(), b.base.Path)
	if !ok || back.Host != b.base.Host {
		b.t.Fatalf("the provider leads to %s", back)
	}
	return path
}

// Enter opens the page to which the callback leads, and clicks. It returns the user, and the status that is
// not the expected one.
func (b *Browser) Enter(callback string) (user string, status int) {
	b.t.Helper()
	answer, text := b.Get(callback)
	link, ok := strings.CutPrefix(answer.Header.Get("Location"), b.base.String()+"/.muster/enter#")
	if answer.StatusCode != http.StatusSeeOther || !ok {
		b.t.Fatalf("the callback: %s to %q: %s", answer.Status, answer.Header.Get("Location"), text)
	}
	var opened struct{ User, Key string }
	for range 2 {
		body, err := json.Marshal(map[string]string{"link": link, "user": opened.User})
		if err != nil {
			b.t.Fatal(err)
		}
		if answer, text = b.Post("/.muster/enter/link", string(body)); answer.StatusCode != http.StatusOK {
			return "", answer.StatusCode
		}
		if err := json.Unmarshal([]byte(text), &opened); err != nil {
			b.t.Fatal(err)
		}
	}
	b.Key = opened.Key
	return opened.User, 0
}
