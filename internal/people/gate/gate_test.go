package gate

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/internal/people/session"
)

// raw sends a text over a connection, and returns the status of the answer.
func raw(t *testing.T, address, text string) int {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
	must(t, err)
	defer func() { _ = conn.Close() }()
	must(t, conn.SetDeadline(time.Now().Add(20*time.Second)))
	_, err = io.WriteString(conn, text)
	must(t, err)
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	must(t, err)
	return answer.StatusCode
}

// TestWire sends requests that Go's client does not make.
func TestWire(t *testing.T) {
	b := newBench(t)
	mine := b.signIn(ada, console)
	address := b.serve()
	good := "Origin: " + console + "\r\nSec-Fetch-Site: same-origin\r\nCookie: __Host-muster-8080=" + mine.Cookie.Reveal() + "\r\nX-Muster-Key: " + mine.Key.Reveal() + "\r\n"
	for name, c := range map[string]struct {
		text string
		want int
	}{
		"good":                 {"GET /api/jobs HTTP/1.1\r\nHost: localhost:8080\r\n" + good, 200},
		"spelled in lower":     {"GET /api/jobs HTTP/1.1\r\nhost: localhost:8080\r\n" + strings.ReplaceAll(good, "Sec-Fetch", "sec-fetch"), 200},
		"all of the server":    {"OPTIONS * HTTP/1.1\r\nHost: localhost:8080\r\n" + good, 400},
		"a proxy's target":     {"GET http://localhost:8080/api/jobs HTTP/1.1\r\nHost: evil.example\r\n" + good, 400},
		"a tunnel":             {"CONNECT localhost:8080 HTTP/1.1\r\nHost: localhost:8080\r\n" + good, 400},
		"no host":              {"GET /api/jobs HTTP/1.1\r\n" + good, 400},
		"no host, HTTP/1.0":    {"GET /api/jobs HTTP/1.0\r\n" + good, 421},
		"two hosts":            {"GET /api/jobs HTTP/1.1\r\nHost: localhost:8080\r\nHost: localhost:8080\r\n" + good, 400},
		"a dotted path":        {"GET /assets/../api/jobs HTTP/1.1\r\nHost: localhost:8080\r\n" + good, 400},
		"a hidden dot":         {"GET /assets/%2e%2e/api/jobs HTTP/1.1\r\nHost: localhost:8080\r\n" + good, 400},
		"a hidden separator":   {"GET /assets%2fx HTTP/1.1\r\nHost: localhost:8080\r\n" + good, 400},
		"a double separator":   {"GET //evil.example/api HTTP/1.1\r\nHost: localhost:8080\r\n" + good, 400},
		"a backslash":          {"GET /assets/..\\api HTTP/1.1\r\nHost: localhost:8080\r\n" + good, 400},
		"a name with a colon":  {"GET /api/jobs/unix%3A1000 HTTP/1.1\r\nHost: localhost:8080\r\n" + good, 200},
		"an override":          {"POST /api/jobs/a HTTP/1.1\r\nX-HTTP-Method-Override: DELETE\r\nHost: localhost:8080\r\n" + good, 405},
		"two lengths":          {"POST /api/jobs HTTP/1.1\r\nContent-Length: 2\r\nContent-Length: 3\r\nContent-Type: application/json\r\nHost: localhost:8080\r\n" + good, 400},
		"chunks without type":  {"POST /api/jobs HTTP/1.1\r\nTransfer-Encoding: chunked\r\nHost: localhost:8080\r\n" + good, 415},
		"a large body":         {"POST /api/jobs HTTP/1.1\r\nContent-Length: 101\r\nContent-Type: application/json\r\nHost: localhost:8080\r\n" + good, 413},
		"large headers":        {"GET /api/jobs HTTP/1.1\r\nHost: localhost:8080\r\nA: " + strings.Repeat("a", 80<<10) + "\r\n" + good, 431},
		"a page of a link":     {"GET " + Entrance + " HTTP/1.1\r\nHost: localhost:8080\r\nSec-Fetch-Site: cross-site\r\n", 200},
		"nothing":              {"GET /nothing HTTP/1.1\r\nHost: localhost:8080\r\n" + good, 404},
		"TLS, says the client": {"GET /api/jobs HTTP/1.1\r\nHost: localhost:8080\r\nX-Forwarded-Proto: https\r\n" + good, 200},
	} {
		if got := raw(t, address, c.text+"\r\n"); got != c.want {
			t.Errorf("%s: status %d, want %d", name, got, c.want)
		}
	}
}

// TestProxies: X-Forwarded-* counts from configured proxies only.
func TestProxies(t *testing.T) {
	b := newBench(t)
	mine := b.signIn(ada, cluster)
	b.passes("through the proxy", request("GET", cluster, "/muster/api/jobs", "", mine))
	for name, c := range map[string]struct {
		change func(*http.Request)
		status int
	}{
		"another peer":      {func(r *http.Request) { r.RemoteAddr = "192.0.2.1:1" }, 421},
		"a peer by a pipe":  {func(r *http.Request) { r.RemoteAddr = "@" }, 421},
		"no scheme":         {func(r *http.Request) { r.Header.Del("X-Forwarded-Proto") }, 421},
		"http":              {func(r *http.Request) { r.Header.Set("X-Forwarded-Proto", "http") }, 421},
		"two schemes":       {func(r *http.Request) { r.Header.Add("X-Forwarded-Proto", "https") }, 400},
		"two hosts":         {func(r *http.Request) { r.Header.Set("X-Forwarded-Host", "muster.example.org, evil.example") }, 421},
		"without a prefix":  {func(r *http.Request) { r.URL.Path = "/api/jobs" }, 404},
		"the prefix's name": {func(r *http.Request) { r.URL.Path = "/musterx/api/jobs" }, 404},
		"an end slash":      {func(r *http.Request) { r.URL.Path = "/muster/api/jobs/" }, 404},
	} {
		r := request("GET", cluster, "/muster/api/jobs", "", mine)
		c.change(r)
		b.refuses(name, r, c.status)
	}
	mapped := request("GET", cluster, "/muster/api/jobs", "", mine)
	mapped.RemoteAddr = "[::ffff:10.1.2.3]:1"
	b.passes("an IPv4 address in an IPv6 one", mapped)
	direct := request("GET", cluster, "/muster/assets/app.js", "", mine)
	direct.Host = "localhost:8080"
	direct.Header.Set("X-Forwarded-Host", "localhost:8080")
	b.refuses("http://localhost through the proxy of https", direct, http.StatusMisdirectedRequest)
	asset := b.passes("an asset", request("GET", cluster, "/muster/assets/app.js", "", mine))
	if got := b.last.Load().URL.Path; got != "/assets/app.js" || !strings.Contains(asset.Header.Get("Cache-Control"), "immutable") {
		t.Errorf("the handler sees the path %s; cache: %s", got, asset.Header.Get("Cache-Control"))
	}
}

// browser exchanges links as the page does. keeps says whether it keeps __Host- cookies.
type browser struct {
	*bench
	keeps   bool
	cookies map[string]string
}

func (b *browser) post(body string) (*http.Response, exchangeAnswer) {
	b.t.Helper()
	r := request("POST", console, Entrance+"/link", body, session.Opened{})
	anonymous(sent{r: r})
	for name, value := range b.cookies {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	answer, _ := b.send(r)
	for _, c := range answer.Cookies() {
		if c.Path != "/" || c.Domain != "" || !c.Secure || !c.HttpOnly || c.SameSite != http.SameSiteStrictMode {
			b.t.Errorf("cookie %s lacks an attribute: %s", c.Name, c.Raw)
		}
		switch {
		case c.MaxAge < 0:
			delete(b.cookies, c.Name)
		case b.keeps || !strings.HasPrefix(c.Name, hostPrefix):
			b.cookies[c.Name] = c.Value
		}
	}
	var read exchangeAnswer
	if answer.StatusCode == http.StatusOK {
		must(b.t, json.NewDecoder(answer.Body).Decode(&read))
	}
	return answer, read
}

// TestEntrance: a page exchanges a link after it has named the user, with a browser that keeps __Host-
// cookies over http and with one that does not.
func TestEntrance(t *testing.T) {
	for keeps, name := range map[bool]string{true: "__Host-muster-8080", false: "muster-8080"} {
		b := &browser{bench: newBench(t), keeps: keeps, cookies: map[string]string{}}
		link, err := b.table.Link(ada, console)
		must(t, err)
		body := func(user string) string {
			text, err := json.Marshal(exchangeRequest{Link: link.Reveal(), User: user})
			must(t, err)
			return string(text)
		}
		for _, bad := range []string{"{}", "[]", "{} {}", `{"link":"x","more":1}`, `{"link":"` + strings.Repeat("a", 5000) + `"}`} {
			if answer, _ := b.post(bad); answer.StatusCode < 400 || len(answer.Cookies()) > 0 {
				t.Errorf("the body %.30q has the status %d and cookies %v", bad, answer.StatusCode, answer.Cookies())
			}
		}
		_, named := b.post(body(""))
		if diff := cmp.Diff(exchangeAnswer{User: ada.User, Name: ada.User}, named); diff != "" {
			t.Fatal(diff)
		}
		if answer, _ := b.post(body("unix:1001")); answer.StatusCode != http.StatusUnauthorized {
			t.Errorf("another user's name has the status %d", answer.StatusCode)
		}
		b.post(body(named.User))
		if len(b.cookies) != 1 || b.cookies[name] == "" {
			t.Fatalf("the browser (keeps __Host-: %t) has the cookies %v, want %s", keeps, b.cookies, name)
		}
		if answer, _ := b.post(body(named.User)); answer.StatusCode != http.StatusUnauthorized {
			t.Errorf("a link was exchanged twice: status %d", answer.StatusCode)
		}
		if link, err = b.table.Link(ada, console); err != nil { // again, in a browser that has a session
			t.Fatal(err)
		}
		b.post(body(""))
		before := b.cookies[name]
		_, opened := b.post(body(named.User))
		if len(b.cookies) != 1 || b.cookies[name] == before {
			t.Fatalf("after a second link the browser (keeps __Host-: %t) has the cookies %v, want a new %s", keeps, b.cookies, name)
		}
		r := request("GET", console, "/api/jobs", "", session.Opened{})
		r.Header.Set("Cookie", name+"="+b.cookies[name])
		r.Header.Set(keyHeader, opened.Key)
		b.passes("the first request", r)
		if grant, ok := Of(b.last.Load().Context()); !ok || grant.Caller.User != ada.User || b.last.Load().Header.Get("Cookie") != "" {
			t.Errorf("the handler sees the caller %q and the cookies %q", grant.Caller.User, b.last.Load().Header.Get("Cookie"))
		}
	}
}

// TestAdmit: a site refuses callers, also at the exchange of a link, which it then does not use up.
func TestAdmit(t *testing.T) {
	b := newBench(t)
	bob := session.Caller{User: "unix:1001"}
	b.refuses("another user's session", request("GET", program, "/", "", b.signIn(bob, program)), http.StatusForbidden)
	link, err := b.table.Link(bob, program)
	must(t, err)
	r := request("POST", program, Entrance+"/link", `{"link":"`+link.Reveal()+`","user":"unix:1001"}`, session.Opened{})
	anonymous(sent{r: r})
	b.refuses("another user's link", r, http.StatusForbidden)
	if _, err := b.table.LinkCaller(link.Reveal(), program); err != nil {
		t.Error(err)
	}
}

func TestScopes(t *testing.T) {
	b := newBench(t)
	jobs, programs := b.token("jobs"), b.token("programs")
	with := func(origin, path, token string) *http.Request {
		r := httptest.NewRequest("GET", path, nil) // as a program: no Origin, no Sec-Fetch-Site
		_, r.Host, _ = strings.Cut(origin, "://")
		r.Header.Set("Authorization", "bearer "+token)
		return r
	}
	b.passes("jobs", with(console, "/api/jobs", jobs))
	b.passes("programs", with(program, "/", programs))
	b.refuses("jobs with another scope", with(console, "/api/jobs", programs), http.StatusForbidden)
	b.refuses("a program with another scope", with(program, "/", jobs), http.StatusForbidden)
	b.refuses("a route for sessions", with(console, "/api/tokens", jobs), http.StatusForbidden)
	foreign := with(console, "/api/jobs", jobs)
	foreign.Header.Set("Origin", "https://evil.example")
	b.refuses("a token in a foreign page", foreign, http.StatusForbidden)
	b.shift.Store(int64(2 * time.Hour))
	b.refuses("an expired token", with(console, "/api/jobs", jobs), http.StatusUnauthorized)
}

func TestSites(t *testing.T) {
	h := http.NotFoundHandler()
	one := func(r Route) []Route { return []Route{r} }
	board := &Program{Transport: http.DefaultTransport}
	for name, c := range map[string]struct {
		site Site
		want string
	}{
		"address":          {Site{Origin: "http://127.0.0.1:8080"}, "the host localhost"},
		"http elsewhere":   {Site{Origin: "http://muster.example.org"}, "the host localhost"},
		"default port":     {Site{Origin: "https://muster.example.org:443"}, "names no default port"},
		"path":             {Site{Origin: "https://muster.example.org/"}, "an origin has a scheme"},
		"capitals":         {Site{Origin: "https://Muster.example.org"}, "in lower case"},
		"empty":            {Site{}, "an origin has a scheme"},
		"prefix":           {Site{Origin: console, Prefix: "/a/../b"}, "without an end slash"},
		"prefix, slash":    {Site{Origin: console, Prefix: "/a/"}, "without an end slash"},
		"public change":    {Site{Origin: console, Routes: one(Route{Pattern: "/a", Methods: []string{"POST"}, Public: true, Handler: h})}, "GET and HEAD only"},
		"no methods":       {Site{Origin: console, Routes: one(Route{Pattern: "/a", Handler: h})}, "names its methods"},
		"TRACE":            {Site{Origin: console, Routes: one(Route{Pattern: "/a", Methods: []string{"TRACE"}, Handler: h})}, `"TRACE"`},
		"OPTIONS":          {Site{Origin: console, Routes: one(Route{Pattern: "/a", Methods: []string{"OPTIONS"}, Handler: h})}, `"OPTIONS"`},
		"method pattern":   {Site{Origin: console, Routes: one(Route{Pattern: "GET /a", Methods: []string{"GET"}, Handler: h})}, "begins with /"},
		"bad pattern":      {Site{Origin: console, Routes: one(Route{Pattern: "/{a", Methods: []string{"GET"}, Handler: h})}, "route"},
		"the gate's path":  {Site{Origin: console, Routes: one(Route{Pattern: Entrance, Methods: []string{"GET"}, Handler: h})}, "conflicts"},
		"no handler":       {Site{Origin: console, Routes: one(Route{Pattern: "/a", Methods: []string{"GET"}})}, "a handler or a program"},
		"public program":   {Site{Origin: console, Routes: one(Route{Pattern: "/", Methods: []string{"GET"}, Public: true, Program: board})}, "a public route"},
		"program below":    {Site{Origin: console, Routes: one(Route{Pattern: "/a/", Methods: []string{"GET"}, Program: board})}, "an origin of its own"},
		"program, prefix":  {Site{Origin: console, Prefix: "/a", Routes: one(Route{Pattern: "/", Methods: []string{"GET"}, Program: board})}, "an origin of its own"},
		"upgrade":          {Site{Origin: console, Routes: one(Route{Pattern: "/a", Methods: []string{"POST"}, Upgrade: "websocket", Handler: h})}, "allow GET"},
		"own token":        {Site{Origin: console, Routes: one(Route{Pattern: "/", Methods: []string{"GET"}, OwnToken: true, Handler: h})}, "has a program"},
		"own token, scope": {Site{Origin: console, Routes: one(Route{Pattern: "/", Methods: []string{"GET"}, OwnToken: true, Scope: "jobs", Program: board})}, "and no scope"},
		"asset":            {Site{Origin: console, Routes: one(Route{Pattern: "/a", Methods: []string{"GET"}, Asset: true, Handler: h})}, "an asset is public"},
	} {
		if err := New(Options{}).Add(t.Context(), c.site); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	b := newBench(t)
	if err := b.Add(b.t.Context(), Site{Origin: console}); err == nil {
		t.Error("a host was added twice")
	}
	mine := b.signIn(ada, program)
	b.passes("before", request("GET", program, "/", "", mine))
	grant, err := b.table.Session(mine.Cookie.Reveal(), program)
	must(t, err)
	ended := make(chan struct{})
	grant.AfterEnd(func() { close(ended) })
	must(t, b.Remove(t.Context(), program))
	<-ended // streams of the program's pages end
	b.refuses("after", request("GET", program, "/", "", mine), http.StatusMisdirectedRequest)
}

// TestSiteOfAnotherProgram: a session of a program opens nothing of a later program at the same origin,
// even if the earlier one was never removed.
func TestSiteOfAnotherProgram(t *testing.T) {
	b := newBench(t)
	mine, at := b.signIn(ada, program), b.signIn(ada, console)
	b.start()
	b.refuses("a later program", request("GET", program, "/", "", mine), http.StatusUnauthorized)
	b.passes("the console", request("GET", console, "/api/jobs", "", at))
}

// TestOwnToken: a program on a port of its own gets requests without a session, its own token with them,
// and nothing of Muster's.
func TestOwnToken(t *testing.T) {
	const port = "http://localhost:20001"
	b := newBench(t)
	b.board = http.DefaultTransport
	seen := make(chan *http.Request, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.SetCookie(w, &http.Cookie{Name: "jupyter", Value: "1"})
		http.SetCookie(w, &http.Cookie{Name: "__Host-muster-8080", Value: "1"})
		seen <- r
	}))
	t.Cleanup(server.Close)
	refused := error(nil)
	must(t, b.Add(t.Context(), Site{Origin: port, Admit: func(*http.Request, session.Caller) error { return refused },
		Routes: []Route{{Pattern: "/", OwnToken: true, Upgrade: "websocket", Methods: []string{"GET", "POST"},
			Program: &Program{Scheme: "http", Host: server.Listener.Addr().String(), Transport: b.count()}}}}))
	mine := b.signIn(ada, console)
	python := func(change func(*http.Request)) *http.Request {
		r := httptest.NewRequest("POST", "/api/kernels?token=own", strings.NewReader("{}"))
		r.Host = "localhost:20001"
		r.Header.Set("Authorization", "token own")
		r.Header.Set("Cookie", "jupyter=1; __Host-muster-8080="+mine.Cookie.Reveal())
		r.Header.Set(keyHeader, mine.Key.Reveal())
		change(r)
		return r
	}
	answer := b.passes("a program", python(func(*http.Request) {}))
	if cookies := answer.Cookies(); len(cookies) != 1 || cookies[0].Name != "jupyter" {
		t.Errorf("cookies of the answer: %v", cookies)
	}
	got := <-seen
	if got.Header.Get("Authorization") != "token own" || got.URL.RawQuery != "token=own" || got.Header.Get("Cookie") != "jupyter=1" || got.Header.Get(keyHeader) != "" {
		t.Errorf("the program sees %s %v", got.URL, got.Header)
	}
	for name, change := range map[string]func(*http.Request){
		"foreign host":   func(r *http.Request) { r.Host = "evil.example" },
		"the console":    func(r *http.Request) { r.Header.Set("Origin", console) },
		"foreign page":   func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
		"foreign socket": upgraded("https://evil.example"),
		"a method":       func(r *http.Request) { r.Method = "DELETE" },
		"another user":   func(*http.Request) { refused = stranger{} },
	} {
		r := python(change)
		if answer, reached := b.send(r); reached || answer.StatusCode < 400 {
			t.Errorf("%s: status %d, reached %v", name, answer.StatusCode, reached)
		}
		refused = nil
	}
	enter := httptest.NewRequest("POST", Entrance+"/link", strings.NewReader("{}"))
	enter.Host = "localhost:20001"
	b.passes("no entrance of Muster's", enter)
	<-seen
}

func upgraded(origin string) func(*http.Request) {
	return func(r *http.Request) {
		r.Method, r.Body, r.ContentLength = "GET", http.NoBody, 0
		r.Header.Set("Connection", "Upgrade")
		r.Header.Set("Upgrade", "websocket")
		r.Header.Set("Origin", origin)
	}
}

// TestHandlersCannotLoosen: what a handler sets is set again when the answer is sent.
func TestHandlersCannotLoosen(t *testing.T) {
	loosen := func(w http.ResponseWriter) {
		w.Header().Set("Content-Security-Policy", "default-src *")
		w.Header().Set("Access-Control-Allow-Origin", "*")
		w.Header().Set("Cache-Control", "public")
	}
	var hijacked error
	for name, h := range map[string]http.HandlerFunc{
		"nothing": func(w http.ResponseWriter, _ *http.Request) { loosen(w) },
		"status":  func(w http.ResponseWriter, _ *http.Request) { loosen(w); w.WriteHeader(http.StatusCreated) },
		"body":    func(w http.ResponseWriter, _ *http.Request) { loosen(w); _, _ = io.WriteString(w, "a") },
		"flush": func(w http.ResponseWriter, _ *http.Request) {
			loosen(w)
			_ = http.NewResponseController(w).Flush()
		},
		"hijack": func(w http.ResponseWriter, _ *http.Request) {
			loosen(w)
			_, _, hijacked = http.NewResponseController(w).Hijack()
		},
	} {
		g := New(Options{})
		must(t, g.Add(t.Context(), Site{Origin: console, Routes: []Route{{Pattern: "/", Methods: []string{"GET"}, Public: true, Handler: h}}}))
		w := httptest.NewRecorder()
		r := httptest.NewRequest("GET", "/", nil)
		r.Host = "localhost:8080"
		g.ServeHTTP(w, r)
		head := w.Result().Header
		if head.Get("Content-Security-Policy") != policy || head.Get("Access-Control-Allow-Origin") != "" || head.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %v", name, head)
		}
	}
	if !errors.Is(hijacked, errNoUpgrade) {
		t.Errorf("a handler without an upgrade took the connection: %v", hijacked)
	}
}

// TestBodies: a body of unknown length ends at the bound.
func TestBodies(t *testing.T) {
	b := newBench(t)
	mine := b.signIn(ada, console)
	for size, want := range map[int]bool{100: true, 101: false} {
		r := request("POST", console, "/api/jobs", strings.Repeat("a", size), mine)
		r.ContentLength = -1
		answer, _ := b.send(r)
		text, err := io.ReadAll(answer.Body)
		must(t, err)
		if (len(text) == size) != want {
			t.Errorf("the handler read %d of %d bytes", len(text), size)
		}
	}
}

// TestDeadProgram: a program that does not answer is a sentence, not its error.
func TestDeadProgram(t *testing.T) {
	b := newBench(t)
	b.board = roundTrip(func(*http.Request) (*http.Response, error) {
		return nil, errors.New("dial unix /home/ada/.secret: refused")
	})
	answer, _ := b.send(request("GET", program, "/", "", b.signIn(ada, program)))
	text, err := io.ReadAll(answer.Body)
	must(t, err)
	if answer.StatusCode != http.StatusBadGateway || strings.Contains(string(text), "/home") || !strings.Contains(string(text), "does not answer") {
		t.Errorf("status %d: %s", answer.StatusCode, text)
	}
}

// FuzzHeaders: whatever the spelling of a request, one without a session reaches no handler but public
// ones, and one with a session reveals no secret to a program.
func FuzzHeaders(f *testing.F) {
	b := newBench(f)
	mine, ours := b.signIn(ada, console), b.signIn(ada, program)
	for _, s := range [][3]string{
		{"GET", "/api/jobs", "Cookie: a=b"}, {"POST", "/api/jobs", "cookie:\t__Host-muster-8080=x"},
		{"GET", "/socket", "Connection: upgrade\r\nUpgrade: websocket"}, {"GET", "//api/jobs", "X-Forwarded-Host: localhost:8080"},
		{"DELETE", "/api/jobs/a", "Authorization: Bearer muster-token.0000000000000000.x"}, {"GET", "/", "Referer: http://a/?muster-token."}, {"GET", "/%2e/api", "Cookie: x=\"muster-session.\""},
	} {
		f.Add(s[0], s[1], s[2])
	}
	f.Fuzz(func(t *testing.T, method, target, headers string) {
		for origin, as := range map[string]session.Opened{console: mine, program: ours} {
			_, name, _ := strings.Cut(origin, "://")
			for _, signedIn := range []bool{false, true} {
				text := method + " " + target + " HTTP/1.1\r\nHost: " + name + "\r\n" + headers + "\r\n"
				if signedIn {
					text += "Cookie: __Host-muster-8080=" + as.Cookie.Reveal() + "\r\nOrigin: " + origin + "\r\nSec-Fetch-Site: same-origin\r\nX-Muster-Key: " + as.Key.Reveal() + "\r\n"
				}
				r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(text + "\r\n")))
				if err != nil {
					continue
				}
				r.RemoteAddr = "127.0.0.1:1"
				_, reached := b.send(r)
				if !reached {
					continue
				}
				seen := b.last.Load()
				if !signedIn && (origin == program || strings.HasPrefix(seen.URL.Path, "/api") || !slices.Contains(reading, seen.Method)) {
					t.Fatalf("a request without a session reached a handler: %q", text)
				}
				for _, lines := range seen.Header {
					if session.Reveals(strings.Join(lines, "\n")) || slices.Contains(lines, as.Key.Reveal()) {
						t.Fatalf("a handler sees a secret: %q", lines)
					}
				}
			}
		}
	})
}
