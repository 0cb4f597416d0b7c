package gate

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/internal/people/session"
)

// serve starts the gate as a server and returns its address.
func (b *bench) serve() string {
	b.t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(b.t.Context(), "tcp", "127.0.0.1:0")
	must(b.t, err)
	server := b.Server()
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(listener) }()
	b.t.Cleanup(func() { _ = server.Close(); <-done })
	return listener.Addr().String()
}

// realProgram makes the program of the bench a server of its own.
func (b *bench) realProgram(h http.HandlerFunc) {
	b.t.Helper()
	server := httptest.NewServer(h)
	b.t.Cleanup(server.Close)
	transport := &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, server.Listener.Addr().String())
	}}
	b.t.Cleanup(transport.CloseIdleConnections)
	b.board = transport
}

// switching answers an upgrade with 101, a cookie of Muster's name and an echo.
func switching(w http.ResponseWriter, _ *http.Request) {
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Set-Cookie: __Host-muster-8080=tossed; Secure; Path=/\r\nSet-Cookie: fine=1\r\nAccess-Control-Allow-Origin: *\r\n\r\n")
	_, _ = io.Copy(conn, buffered)
}

// dial sends a request over a connection of its own, and returns the answer and the connection.
func dial(t *testing.T, address string, r *http.Request) (*http.Response, net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	must(t, conn.SetDeadline(time.Now().Add(20*time.Second)))
	must(t, r.Write(conn))
	reader := bufio.NewReader(conn)
	answer, err := http.ReadResponse(reader, r)
	must(t, err)
	return answer, conn, reader
}

func websocket(origin string, as session.Opened) *http.Request {
	r := request("GET", origin, "/socket", "", as)
	upgrade("websocket", true)(sent{r: r})
	r.Header.Del("Sec-Fetch-Site") // as a browser that sends none with websockets
	r.Header.Del(keyHeader)
	return r
}

func (b *bench) refuses(name string, r *http.Request, status int) {
	b.t.Helper()
	if answer, reached := b.send(r); reached || answer.StatusCode != status {
		b.t.Errorf("%s: status %d (reached: %t), want %d", name, answer.StatusCode, reached, status)
	}
}

func (b *bench) passes(name string, r *http.Request) *http.Response {
	b.t.Helper()
	answer, reached := b.send(r)
	if !reached || answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(answer.Body)
		b.t.Errorf("%s: status %d (reached: %t), want 200: %s", name, answer.StatusCode, reached, text)
	}
	return answer
}

// TestHoles has a test for each hole that other servers for people had.
func TestHoles(t *testing.T) {
	for name, hole := range map[string]func(*bench, session.Opened, session.Opened){
		"CVE-2024-28179 websockets skipped authentication":        websocketsWithoutSession,
		"CVE-2026-27482 a method was forgotten; DNS rebinding":    forgottenMethod,
		"CVE-2023-48022 no login on loopback":                     loopback,
		"GHSA-7r3h-4ph8-w38g cookie tossing":                      cookieTossing,
		"CVE-2026-40864 Sec-Fetch-Mode was trusted":               fetchMode,
		"CVE-2026-40934 sessions could not be revoked":            revocation,
		"nbconvert: stored scripts on the origin of the sessions": storedScripts,
		"CVE-2023-0957 origin of websockets":                      websocketOrigin,
		"agent-compose 654: any origin created a kernel":          anyOrigin,
		"tokens in URLs, and secrets in programs":                 leakedSecrets,
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			hole(b, b.signIn(ada, console), b.signIn(ada, program))
		})
	}
}

func websocketsWithoutSession(b *bench, _, ours session.Opened) {
	b.realProgram(switching)
	address := b.serve()
	t := b.t.(*testing.T)
	for name, r := range map[string]*http.Request{
		"none": func() *http.Request { r := websocket(program, ours); r.Header.Del("Cookie"); return r }(),
		"another user's": func() *http.Request {
			return websocket(program, b.signIn(session.Caller{User: "unix:1001"}, program))
		}(),
	} {
		if answer, _, _ := dial(t, address, r); answer.StatusCode < 400 || b.reached.Load() > 0 {
			t.Errorf("an upgrade with %s session has the status %d", name, answer.StatusCode)
		}
	}
	answer, conn, reader := dial(t, address, websocket(program, ours))
	if answer.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("an upgrade with a session has the status %d", answer.StatusCode)
	}
	_, err := io.WriteString(conn, "ping")
	must(t, err)
	text := make([]byte, 4)
	_, err = io.ReadFull(reader, text)
	must(t, err)
	if string(text) != "ping" {
		t.Errorf("the program echoed %q", text)
	}
}

func forgottenMethod(b *bench, mine, _ session.Opened) {
	r := request("DELETE", console, "/api/jobs/a", "", mine)
	r.Header.Set("Origin", "http://evil.example:8080")
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	b.refuses("a DELETE of another origin", r, http.StatusForbidden)
	b.refuses("a method that the route does not name", request("PATCH", console, "/api/jobs/a", "", mine), http.StatusMethodNotAllowed)
	rebound := request("DELETE", console, "/api/jobs/a", "", mine) // to the page, it is one origin
	rebound.Host = "evil.example:8080"
	rebound.Header.Set("Origin", "http://evil.example:8080")
	b.refuses("a name that leads to this address", rebound, http.StatusMisdirectedRequest)
	b.passes("a DELETE of the page", request("DELETE", console, "/api/jobs/a", "", mine))
}

func loopback(b *bench, mine, _ session.Opened) {
	r := httptest.NewRequest("POST", "/api/jobs", strings.NewReader(`{"command":["id"]}`))
	r.Host, r.RemoteAddr = "localhost:8080", "127.0.0.1:40000"
	r.Header.Set("Content-Type", "application/json")
	b.refuses("a job of a program on this machine", r, http.StatusForbidden)
	r = request("POST", console, "/api/jobs", `{}`, mine)
	anonymous(sent{r: r})
	b.refuses("a job of a page without a session", r, http.StatusUnauthorized)
	r.Header.Set("Authorization", "Bearer "+b.token("jobs"))
	b.passes("a job of a program with a token", r)
}

func cookieTossing(b *bench, mine, ours session.Opened) {
	t := b.t.(*testing.T)
	tossed := []string{"__Host-muster-8080=x; Secure; Path=/", "__host-MUSTER-8080 = x", "muster-8080=x; Path=/api", "=muster-8080=x", "muster-8080",
		"fine=1; domain=localhost", "fine=1; path=/; DOMAIN = .localhost", " muster-8080=x"}
	b.realProgram(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "" {
			switching(w, r)
			return
		}
		for _, line := range tossed {
			w.Header().Add("Set-Cookie", line)
		}
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Add("Set-Cookie", "fine=1; Path=/")
	})
	address := b.serve()
	answer, _, reader := dial(t, address, request("GET", program, "/", "", ours))
	if diff := cmp.Diff([]string(nil), answer.Header["Set-Cookie"]); answer.StatusCode != http.StatusEarlyHints || diff != "" {
		t.Errorf("interim answer %d: %s", answer.StatusCode, diff)
	}
	final, err := http.ReadResponse(reader, nil)
	must(t, err)
	if diff := cmp.Diff([]string{"fine=1; Path=/"}, final.Header["Set-Cookie"]); diff != "" || final.Header.Get("Cross-Origin-Resource-Policy") != "same-origin" {
		t.Errorf("answer after an interim one: %s, headers %v", diff, final.Header)
	}
	b.realProgram(func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Set-Cookie"] = append(tossed, "fine=1; Path=/")
	})
	answer, _, _ = dial(t, address, request("GET", program, "/", "", ours))
	if diff := cmp.Diff([]string{"fine=1; Path=/"}, answer.Header["Set-Cookie"]); diff != "" {
		t.Error(diff)
	}
	b.realProgram(switching)
	answer, _, _ = dial(t, address, websocket(program, ours))
	if diff := cmp.Diff([]string{"fine=1"}, answer.Header["Set-Cookie"]); answer.StatusCode != http.StatusSwitchingProtocols || diff != "" {
		t.Errorf("upgrade %d: %s", answer.StatusCode, diff)
	}

	thief := b.signIn(session.Caller{User: "unix:1001"}, console)
	r := request("POST", console, "/api/jobs", "{}", mine)
	r.Header.Set("Cookie", "__Host-muster-8080="+thief.Cookie.Reveal()+"; "+r.Header.Get("Cookie"))
	b.refuses("two cookies", r, http.StatusBadRequest)
	r = request("POST", console, "/api/jobs", "{}", mine)
	r.Header.Set("Cookie", "__Host-muster-8080="+thief.Cookie.Reveal())
	b.refuses("another user's session in the browser of this user", r, http.StatusForbidden)
	r = request("POST", console, "/api/jobs", "{}", mine)
	r.Header.Set("Cookie", r.Header.Get("Cookie")+"; muster-8080="+thief.Cookie.Reveal())
	b.passes("a plain cookie beside the cookie with the prefix", r)
}

func fetchMode(b *bench, mine, ours session.Opened) {
	for _, mode := range []string{"no-cors", "navigate", "same-origin", "cors", "websocket"} {
		for origin, as := range map[string]session.Opened{console: mine, program: ours} {
			for _, site := range []string{"cross-site", "same-site"} {
				r := request("POST", origin, "/api/jobs", "{}", as)
				r.Header.Del("Origin")
				r.Header.Set("Sec-Fetch-Site", site)
				r.Header.Set("Sec-Fetch-Mode", mode)
				b.refuses(site+" "+mode, r, http.StatusForbidden)
			}
		}
	}
	r := request("POST", console, "/api/jobs", "{}", mine)
	r.Header.Set("Sec-Fetch-Site", "none")
	b.refuses("none", r, http.StatusForbidden)
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	r.Header.Del(keyHeader)
	b.refuses("same-origin without the key", r, http.StatusForbidden)
}

func revocation(b *bench, mine, ours session.Opened) {
	t := b.t.(*testing.T)
	ended := make(chan struct{})
	b.realProgram(func(w http.ResponseWriter, r *http.Request) { switching(w, r); close(ended) })
	address := b.serve()
	answer, _, reader := dial(t, address, websocket(program, ours))
	if answer.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("status %d", answer.StatusCode)
	}
	must(t, b.table.Revoke(t.Context(), ada.User, ours.ID))
	if _, err := reader.ReadByte(); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("a websocket outlived its session: %v", err)
	}
	<-ended

	answer, _ = b.send(request("POST", console, "/.muster/leave", "", mine))
	if answer.StatusCode != http.StatusNoContent || len(answer.Cookies()) != 2 || answer.Cookies()[0].MaxAge != -1 {
		t.Errorf("leaving: status %d, cookies %v", answer.StatusCode, answer.Cookies())
	}
	b.refuses("a session that was left", request("GET", console, "/api/jobs", "", mine), http.StatusUnauthorized)
	b.start()
	b.refuses("a session that was left, after a restart", request("GET", console, "/api/jobs", "", mine), http.StatusUnauthorized)
	text, err := os.ReadFile(b.path)
	must(t, err)
	if session.Reveals(string(text)) {
		t.Error("the stored table has a secret")
	}
}

func storedScripts(b *bench, mine, ours session.Opened) {
	t := b.t.(*testing.T)
	b.board = roundTrip(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, ProtoMajor: 1, ProtoMinor: 1, Body: io.NopCloser(strings.NewReader("<script>steal()</script>")), Header: http.Header{
			"Content-Type": {"text/html"}, "Content-Security-Policy": {"default-src *"}, "Cache-Control": {"public, max-age=60"},
			"Cross-Origin-Resource-Policy": {"cross-origin"}}}, nil
	})
	h := b.passes("a page of a program", request("GET", program, "/notebook.html", "", ours)).Header
	want := http.Header{"Content-Type": {"text/html"}, "Content-Security-Policy": {"default-src *", "frame-ancestors 'self'"}, "Cache-Control": {"private, max-age=60"},
		"Cross-Origin-Resource-Policy": {"same-origin"}, "Cross-Origin-Opener-Policy": {"same-origin"}, "Referrer-Policy": {"same-origin"}}
	if diff := cmp.Diff(want, h); diff != "" {
		t.Error(diff)
	}
	asProgram := request("POST", console, "/api/jobs", "{}", ours)
	b.refuses("a program's session at the console", asProgram, http.StatusUnauthorized)

	h = b.passes("data of the console", request("GET", console, "/api/jobs", "", mine)).Header
	for name, part := range map[string]string{"Content-Security-Policy": "script-src 'self';", "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY",
		"Referrer-Policy": "no-referrer", "Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin", "Cache-Control": "no-store"} {
		if !strings.Contains(h.Get(name), part) || strings.Contains(h.Get(name), "unsafe") {
			t.Errorf("%s: %q, want %q", name, h.Get(name), part)
		}
	}
	refused, _ := b.send(httptest.NewRequest("GET", "/", nil))
	if refused.Header.Get("Content-Security-Policy") != policy || refused.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("a refusal has the headers %v", refused.Header)
	}
}

func websocketOrigin(b *bench, mine, ours session.Opened) {
	t := b.t.(*testing.T)
	for _, origin := range []string{"http://evil.example", "null", "http://localhost:9999", console, "https://board-1000.localhost:8080", program + "."} {
		r := websocket(program, ours)
		r.Header.Set("Origin", origin)
		b.refuses("a websocket of "+origin, r, http.StatusForbidden)
	}
	r := websocket(program, ours)
	r.Header.Del("Origin")
	b.refuses("a websocket without an origin", r, http.StatusForbidden)
	b.passes("a websocket of the program's page", websocket(program, ours))
	seen := b.last.Load()
	if seen.Header.Get("Origin") != program || "http://"+seen.Host != program {
		t.Errorf("the program sees the origin %q and host %q, so its own check is void", seen.Header.Get("Origin"), seen.Host)
	}
	watch := websocket(console, mine)
	watch.URL.Path = "/api/watch"
	b.refuses("a websocket of the console without the key", watch, http.StatusForbidden)
	watch.Header.Set("Sec-Websocket-Protocol", keyProtocol+mine.Key.Reveal()+", muster.watch")
	b.passes("a websocket of the console", watch)
	if got := b.last.Load().Header.Get("Sec-Websocket-Protocol"); got != "muster.watch" {
		t.Errorf("the handler sees the subprotocols %q", got)
	}
}

func anyOrigin(b *bench, _, ours session.Opened) {
	t := b.t.(*testing.T)
	b.board = roundTrip(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusCreated, ProtoMajor: 1, ProtoMinor: 1, Body: http.NoBody, Header: http.Header{
			"Access-Control-Allow-Origin": {"*"}, "Access-Control-Allow-Credentials": {"true"}}}, nil
	})
	r := request("POST", program, "/api/kernels", "{}", ours) // a "simple" request, which browsers send without asking
	r.Header.Set("Origin", "https://evil.example")
	r.Header.Set("Content-Type", "text/plain")
	r.Header.Del("Sec-Fetch-Site")
	b.refuses("a kernel of a foreign page", r, http.StatusForbidden)
	r = request("OPTIONS", program, "/api/kernels", "", ours)
	r.Header.Set("Origin", "https://evil.example")
	r.Header.Set("Access-Control-Request-Method", "POST")
	b.refuses("the question of a browser whether it may", r, http.StatusMethodNotAllowed)
	answer, reached := b.send(request("POST", program, "/api/kernels", "{}", ours))
	if !reached || answer.Header.Get("Access-Control-Allow-Origin")+answer.Header.Get("Access-Control-Allow-Credentials") != "" {
		t.Errorf("the program allows other origins to read its answers: %v", answer.Header)
	}
}

func leakedSecrets(b *bench, mine, ours session.Opened) {
	t := b.t.(*testing.T)
	token := b.token("jobs", "programs")
	for _, query := range []string{"?token=", "?access_token=", "?key=", "?muster-8080="} {
		r := request("GET", console, "/api/jobs"+query+token, "", mine)
		anonymous(sent{r: r})
		b.refuses("a token in the URL", r, http.StatusUnauthorized)
	}
	link, err := b.table.Link(ada, console)
	must(t, err)
	answer, _ := b.send(httptest.NewRequest("GET", "http://localhost:8080"+Entrance+"?link="+link.Reveal(), nil))
	_, err = b.table.LinkCaller(link.Reveal(), console)
	if err != nil {
		t.Errorf("a GET, as a preview of a message sends, used up the link (status %d): %v", answer.StatusCode, err)
	}

	r := request("POST", program, "/api", "{}", ours)
	r.Header["Cookie"] = []string{"a=1; " + r.Header.Get("Cookie") + ";__host-MUSTER-9=x", "b=" + mine.Cookie.Reveal() + "; c=2; muster-8080; =muster-session.x; _xsrf=3"}
	r.Header.Set("Authorization", "token of-jupyter")
	r.Header.Set("Sec-Websocket-Protocol", keyProtocol+"x, v1.kernel")
	r.Header.Set("X-Muster-User", "root")
	r.Header["X_forwarded_user"] = []string{"root"}
	r.Header.Set("X-Remote-User", "root")
	r.Header.Set("X-Forwarded-For", "6.6.6.6")
	b.passes("a request to a program", r)
	seen := b.last.Load().Header
	want := http.Header{"Cookie": {"a=1; c=2; _xsrf=3"}, "Authorization": {"token of-jupyter"}, "Sec-Websocket-Protocol": {"v1.kernel"},
		"Content-Type": {"application/json"}, "Origin": {program}, "Sec-Fetch-Site": {"same-origin"},
		"X-Forwarded-For": {"127.0.0.1"}, "X-Forwarded-Host": {"board-1000.localhost:8080"}, "X-Forwarded-Proto": {"http"}, "User-Agent": {""}}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Error(diff)
	}
	r = request("GET", program, "/api", "", ours)
	r.Header.Set("Authorization", "Bearer "+token)
	b.passes("a request with a token to a program", r)
	if leaked := fmt.Sprint(b.last.Load().Header); session.Reveals(leaked) {
		t.Errorf("the program sees %s", leaked)
	}
}
