package userapi

import (
	"bufio"
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/internal/account"
	"github.com/muster-dev/muster/internal/people/peer"
)

// directory knows every user but one.
type directory struct{ unknown uint32 }

func (d directory) ByUID(_ context.Context, uid uint32) (account.Account, bool, error) {
	return account.Account{UID: uid, Login: "ada"}, uid != d.unknown, nil
}

func (directory) Groups(context.Context, uint32) ([]account.Group, error) {
	return []account.Group{{GID: 7, Name: "vision"}}, nil
}

func (directory) GroupNames(context.Context, []uint32) ([]account.Group, error) { return nil, nil }

// box is a server at a socket.
type box struct {
	path string
	log  *buffer
	stop context.CancelFunc
	done chan error
}

// buffer may be written and read at the same time.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// names answers with what answers, the path and the query.
func names(name string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprint(w, name+" "+r.URL.RequestURI())
	})
}

func serve(t *testing.T, o Options) *box {
	t.Helper()
	b := &box{path: filepath.Join(t.TempDir(), "muster.sock"), log: &buffer{}, done: make(chan error, 1)}
	o.Log = slog.New(slog.NewTextHandler(b.log, nil))
	if o.Directory == nil {
		o.Directory = directory{unknown: 4000000}
	}
	if o.API == nil {
		o.API = names("api")
	}
	server, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := peer.Listen(t.Context(), b.path)
	if err != nil {
		t.Fatal(err)
	}
	var ctx context.Context
	ctx, b.stop = context.WithCancel(context.WithoutCancel(t.Context()))
	go func() { b.done <- server.Serve(ctx, listener) }()
	t.Cleanup(func() { b.end(t) })
	return b
}

// end stops the server and waits for it.
func (b *box) end(t *testing.T) {
	t.Helper()
	b.stop()
	if err := <-b.done; err != nil {
		t.Error(err)
	}
	b.done <- nil
}

func (b *box) client(t *testing.T) *http.Client {
	t.Helper()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return peer.Dial(ctx, b.path) }}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// ask sends a request and returns the status and the body.
func ask(t *testing.T, c *http.Client, method, path string, body io.Reader) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, "http://muster"+path, body)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := c.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

// TestRoutes: the first segment of a path decides who answers.
func TestRoutes(t *testing.T) {
	c := serve(t, Options{Door: names("door")}).client(t)
	for path, want := range map[string]string{
		"/":                                      "200 api /",
		"/api/v1/namespaces/u-0/pods?limit=1":    "200 api /api/v1/namespaces/u-0/pods?limit=1",
		"/apis":                                  "200 api /apis",
		"/openapi/v3":                            "200 api /openapi/v3",
		"/version":                               "200 api /version",
		"/healthz":                               "200 api /healthz",
		"/muster/door/v1/namespaces/u-0/top?a=b": "200 door /v1/namespaces/u-0/top?a=b",
		"/muster/door":                           `404 `,
		"/muster/v1/credential":                  `404 `, // nobody signs
		"/v1/namespaces/u-0/top":                 `404 `,
		"/apiserver":                             `404 `,
		"/debug/pprof/":                          `404 `,
	} {
		status, text := ask(t, c, http.MethodGet, path, nil)
		if got := fmt.Sprint(status, " ", text); got != want && (!strings.HasPrefix(want, "404") || !strings.HasPrefix(got, want) || !strings.Contains(text, `"kind":"Status"`)) {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}

// TestSessions: a session inside the process takes the routes of its user, and gets nothing that would
// outlive it. A process gets the console.
func TestSessions(t *testing.T) {
	sign := func(crypto.PublicKey, string, []string, time.Duration) ([]byte, error) { return nil, nil }
	b := &box{path: filepath.Join(t.TempDir(), "muster.sock"), log: &buffer{}, done: make(chan error, 1)}
	server, err := New(Options{Directory: directory{unknown: 4000000}, API: names("api"), Door: names("door"), Console: names("console"), Sign: sign})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := peer.Listen(t.Context(), b.path)
	if err != nil {
		t.Fatal(err)
	}
	inside := peer.NewInside()
	var ctx context.Context
	ctx, b.stop = context.WithCancel(context.WithoutCancel(t.Context()))
	go func() { b.done <- server.Serve(ctx, listener, inside) }()
	t.Cleanup(func() { b.end(t) })
	of := func(uid uint32) *http.Client {
		return &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return inside.Dial(ctx, uid) }}}
	}
	for _, c := range []struct {
		client     *http.Client
		path, want string
	}{
		{b.client(t), ConsolePath + "/v1/entries?all", "200 console /v1/entries?all"}, {b.client(t), ConsolePath, "404 "}, {b.client(t), CredentialPath, "200 "},
		{of(7), "/api/v1/pods", "200 api /api/v1/pods"}, {of(7), DoorPath + "/v1/x", "200 door /v1/x"},
		{of(7), ConsolePath + "/v1/entries", "403 "}, {of(7), CredentialPath, "403 "}, {of(0), CredentialPath, "403 "},
		{of(4000000), "/api/v1/pods", "403 "},
	} {
		status, text := ask(t, c.client, http.MethodGet, c.path, nil)
		if got := fmt.Sprint(status, " ", text); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %s, want %s", c.path, got, c.want)
		}
	}
	// A large body that the handler does not read ends the request, and not the server.
	for range 3 {
		status, _ := ask(t, of(7), http.MethodPost, CredentialPath, strings.NewReader(strings.Repeat("x", 1<<20)))
		if status != http.StatusForbidden {
			t.Errorf("a large body: %d", status)
		}
	}
}

// TestRefusals: a user whom the directory does not know, and one whom Muster cannot
// prepare, reach nothing. The log has a line for each, without the query.
func TestRefusals(t *testing.T) {
	var prepared atomic.Int32
	failing := func(context.Context, peer.Peer) error {
		if prepared.Add(1) == 1 {
			return errors.New("the API server is away")
		}
		return nil
	}
	reached := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a request came through") })
	unknown := serve(t, Options{API: reached, Directory: directory{unknown: uint32(os.Geteuid())}})
	status, text := ask(t, unknown.client(t), http.MethodGet, "/api?token=secret", nil)
	if status != http.StatusForbidden || !strings.Contains(text, "is no user of this machine") {
		t.Errorf("an unknown user: %d %s", status, text)
	}
	unknown.end(t)
	line := unknown.log.String()
	if want := fmt.Sprintf("status=403 method=GET path=/api uid=%d\n", os.Geteuid()); !strings.HasSuffix(line, want) || strings.Contains(line, "secret") {
		t.Errorf("the log has %q, want %q", line, want)
	}
	c := serve(t, Options{Prepare: failing}).client(t)
	if status, text := ask(t, c, http.MethodGet, "/api", nil); status != http.StatusServiceUnavailable || !strings.Contains(text, "the API server is away") {
		t.Errorf("not prepared: %d %s", status, text)
	}
	for range 3 {
		if status, _ := ask(t, c, http.MethodGet, "/api", nil); status != http.StatusOK {
			t.Errorf("prepared: %d", status)
		}
	}
	if n := prepared.Load(); n != 4 {
		t.Errorf("prepared %d times, want before each request", n)
	}
}

// TestJournal: a user cannot fill the disk, and what is left out is counted.
func TestJournal(t *testing.T) {
	var text bytes.Buffer
	now := time.Now()
	j := &journal{log: slog.New(slog.NewTextHandler(&text, nil)), now: func() time.Time { return now }}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "/"+strings.Repeat("x%0a", 200), nil)
	if err != nil {
		t.Fatal(err)
	}
	for range lines + 7 {
		j.write(request, http.StatusForbidden)
	}
	if n := strings.Count(text.String(), "\n"); n != lines {
		t.Errorf("%d lines, want %d", n, lines)
	}
	now = now.Add(span)
	text.Reset()
	j.write(request, http.StatusForbidden)
	if got := text.String(); !strings.Contains(got, "leftOut=7") || len(got) > 3*longest {
		t.Errorf("the line is %q", got)
	}
}

// TestConnections: one user has so many connections; further ones are told, and far more
// are closed.
func TestConnections(t *testing.T) {
	b := serve(t, Options{Connections: 2})
	var open []net.Conn
	defer func() {
		for _, conn := range open {
			_ = conn.Close()
		}
	}()
	says := func() string {
		conn, err := peer.Dial(t.Context(), b.path)
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, conn)
		if _, err := io.WriteString(conn, "GET /api HTTP/1.1\r\nHost: muster\r\n\r\n"); err != nil {
			return "closed"
		}
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			return "closed"
		}
		_ = answer.Body.Close()
		return answer.Status
	}
	for i, want := range []string{"200 OK", "200 OK", "429 Too Many Requests"} {
		if got := says(); got != want {
			t.Errorf("connection %d: %s, want %s", i, got, want)
		}
	}
	_ = open[0].Close() // its place is free
	deadline := time.Now().Add(10 * time.Second)
	for says() != "200 OK" {
		if time.Now().After(deadline) {
			t.Fatal("a closed connection still counts")
		}
	}
	// Idle ones are not answered; those beyond the excess are not even kept.
	var closed bool
	for range excess + 4 {
		conn, err := peer.Dial(t.Context(), b.path)
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, conn)
		_ = conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		_, err = conn.Read(make([]byte, 1))
		closed = closed || err != nil && !errors.Is(err, os.ErrDeadlineExceeded)
	}
	if !closed {
		t.Errorf("%d connections are kept", len(open))
	}
}

// TestStop: a stop ends streams at once, waits for other requests, and removes the socket.
func TestStop(t *testing.T) {
	begun, finish := make(chan string, 2), make(chan struct{})
	b := serve(t, Options{API: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		begun <- r.URL.RawQuery
		if r.URL.RawQuery == "watch=true" {
			<-r.Context().Done()
			return
		}
		<-finish
		_, _ = io.WriteString(w, "whole")
	})})
	c, answers := b.client(t), make(chan string, 2)
	for _, path := range []string{"/api?watch=true", "/api?watch=0"} {
		go func() {
			_, text := ask(t, c, http.MethodGet, path, nil)
			answers <- path + " " + text
		}()
		<-begun
	}
	b.stop()
	if got := <-answers; got != "/api?watch=true " {
		t.Errorf("first ended: %s", got)
	}
	close(finish)
	if got := <-answers; got != "/api?watch=0 whole" {
		t.Errorf("then ended: %s", got)
	}
	b.end(t)
	if _, err := os.Lstat(b.path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is left: %v", err)
	}
}

// TestBody: a body to the API server is bounded.
func TestBody(t *testing.T) {
	c := serve(t, Options{API: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		_, _ = fmt.Fprint(w, n, " ", err)
	})}).client(t)
	if _, text := ask(t, c, http.MethodPost, "/api", bytes.NewReader(make([]byte, bodyBytes))); text != fmt.Sprint(bodyBytes, " <nil>") {
		t.Errorf("of the largest: %s", text)
	}
	if _, text := ask(t, c, http.MethodPost, "/api", bytes.NewReader(make([]byte, bodyBytes+1))); text != fmt.Sprint(bodyBytes, " http: request body too large") {
		t.Errorf("of one byte more: %s", text)
	}
}

// TestCredential: a caller gets a certificate for their own key and name, whatever the
// request says.
func TestCredential(t *testing.T) {
	p256, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	must(t, err)
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	must(t, err)
	large, err := rsa.GenerateKey(rand.Reader, 2048)
	must(t, err)
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	var signed []any
	c := serve(t, Options{
		Now: func() time.Time { return now }, Cluster: Cluster{Server: "https://127.0.0.1:6443", Authority: []byte("ca")},
		Sign: func(key crypto.PublicKey, user string, groups []string, life time.Duration) ([]byte, error) {
			signed = []any{user, groups, life, key.(interface{ Equal(crypto.PublicKey) bool }).Equal(p256.Public())}
			return []byte("certificate"), nil
		},
	}).client(t)
	request := func(key crypto.Signer, spoil func([]byte) []byte) []byte {
		der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:admin", Organization: []string{"system:masters"}}}, key)
		must(t, err)
		if spoil != nil {
			der = spoil(der)
		}
		text, err := json.Marshal(CredentialRequest{Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})})
		must(t, err)
		return text
	}
	for name, q := range map[string]struct {
		method string
		body   []byte
		status int
		says   string
	}{
		"the address":      {http.MethodGet, nil, 200, `{"server":"https://127.0.0.1:6443","authority":"Y2E="}`},
		"ECDSA":            {http.MethodPost, request(p256, nil), 201, `"certificate":"Y2VydGlmaWNhdGU=","expires":"2030-01-02T03:19:05Z"`},
		"Ed25519":          {http.MethodPost, request(edwards, nil), 201, `"certificate"`},
		"another curve":    {http.MethodPost, request(p384, nil), 400, "ECDSA key of P-256"},
		"RSA":              {http.MethodPost, request(large, nil), 400, "*rsa.PublicKey"},
		"not its own key":  {http.MethodPost, request(p256, func(der []byte) []byte { der[len(der)-1] ^= 1; return der }), 400, "reading the request"},
		"no request":       {http.MethodPost, []byte(`{}`), 400, "no PEM block"},
		"no JSON":          {http.MethodPost, []byte(`x`), 400, "reading the request"},
		"too large":        {http.MethodPost, bytes.Repeat([]byte(" "), requestBytes+1), 413, "more than 16384 bytes"},
		"another method":   {http.MethodDelete, nil, 405, "by POST"},
		"a method of 4 KB": {strings.Repeat("X", 4096), nil, 405, "by POST"},
	} {
		status, text := ask(t, c, q.method, CredentialPath, bytes.NewReader(q.body))
		if status != q.status || !strings.Contains(text, q.says) {
			t.Errorf("%s: %d %s, want %d %s", name, status, text, q.status, q.says)
		}
	}
	if status, _ := ask(t, c, http.MethodPost, CredentialPath, bytes.NewReader(request(p256, nil))); status != http.StatusCreated {
		t.Fatal(status)
	}
	if diff := cmp.Diff([]any{fmt.Sprintf("unix:%d", os.Geteuid()), []string{"unix-group:vision"}, 15 * time.Minute, true}, signed); diff != "" {
		t.Error(diff)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
