package frontproxy

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/internal/account"
	"github.com/muster-dev/muster/internal/people/peer"
)

// trial is a front proxy behind a real socket, before a server that demands the
// certificate of the proxy.
type trial struct {
	*testing.T
	path string
	// seen gets each request that reaches the server.
	seen chan *http.Request
}

// start starts a proxy with the directory, or one of files.
func start(t *testing.T, directory Directory, serve http.HandlerFunc) *trial {
	t.Helper()
	s := &trial{T: t, path: filepath.Join(t.TempDir(), "socket"), seen: make(chan *http.Request, 10)}
	backend := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // trailers come after it
		s.seen <- r
		if serve != nil {
			serve(w, r)
		}
	}))
	certificate, pool := certify(t)
	backend.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool}
	backend.StartTLS()
	t.Cleanup(backend.Close)
	address, err := url.Parse(backend.URL)
	if err != nil {
		t.Fatal(err)
	}
	if directory == nil {
		directory = files(t)
	}
	trusted := x509.NewCertPool()
	trusted.AddCert(backend.Certificate())
	proxy, err := New(Options{
		Server: address, Directory: directory,
		TLS: &tls.Config{RootCAs: trusted, Certificates: []tls.Certificate{certificate}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	listener, err := peer.Listen(t.Context(), s.path)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: proxy, ConnContext: peer.Context, ReadHeaderTimeout: time.Minute}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-done
	})
	return s
}

// certify makes a certificate of a client that is its own authority.
func certify(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "front-proxy"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

// files is a directory that knows the user of this test as ada.
func files(t *testing.T) *account.Directory {
	t.Helper()
	folder := t.TempDir()
	for name, content := range map[string]string{
		"passwd": fmt.Sprintf("ada:x:%d:6001::/home/ada:/bin/sh\n", os.Getuid()),
		"group":  "ada:x:6001:\nsystem:x:6003:ada\nlab:x:6002:ada\nmasters:x:6004:\n",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	directory := account.New(account.Options{FilesOnly: true, Folder: folder})
	t.Cleanup(directory.Close)
	return directory
}

// send sends bytes and returns the connection and the answer.
func (s *trial) send(raw string) (net.Conn, *bufio.Reader, *http.Response) {
	s.Helper()
	conn, err := peer.Dial(s.Context(), s.path)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = conn.Close() })
	if _, err := io.WriteString(conn, strings.ReplaceAll(raw, "\n", "\r\n")); err != nil {
		s.Fatal(err)
	}
	reader := bufio.NewReader(conn)
	answer, err := http.ReadResponse(reader, nil)
	if err != nil {
		s.Fatal(err)
	}
	return conn, reader, answer
}

// own returns the headers of the identity of the user of this test.
func own() http.Header {
	return http.Header{
		"X-Remote-User":        {fmt.Sprint("unix:", os.Getuid())},
		"X-Remote-Group":       {"unix-group:ada", "unix-group:lab", "unix-group:system"},
		"X-Remote-Extra-Login": {"ada"},
	}
}

// with returns the headers of the identity and others.
func with(more http.Header) http.Header {
	header := own()
	maps.Copy(header, more)
	return header
}

// TestHeaders: whatever a caller sends, the server sees the identity of the socket.
func TestHeaders(t *testing.T) {
	for name, c := range map[string]struct {
		lines string
		want  http.Header
	}{
		"none":                      {"", own()},
		"a user":                    {"X-Remote-User: root\n", own()},
		"in lower case":             {"x-remote-user: root\nx-remote-GROUP: system:masters\n", own()},
		"with underscores":          {"X_Remote_User: root\nX-Remote_Group: system:masters\n", own()},
		"many times":                {"X-Remote-Group: a\nX-Remote-Group: system:masters\n", own()},
		"a uid":                     {"X-Remote-Uid: 0\n", own()},
		"extra":                     {"X-Remote-Extra-Login: root\nX-Remote-Extra-Scopes: all\nx-remote-extra-a%2fb: c\n", own()},
		"a token":                   {"Authorization: Bearer admin\nAUTHORIZATION: Basic eDp5\nProxy-Authorization: Basic eDp5\n", own()},
		"a token of a WebSocket":    {"Sec-WebSocket-Protocol: base64url.bearer.authorization.k8s.io.YQ, v5.channel.k8s.io\n", with(http.Header{"Sec-Websocket-Protocol": {"v5.channel.k8s.io"}})},
		"a token alone":             {"sec-websocket-protocol: Base64url.bearer.authorization.k8s.io.YQ\n", own()},
		"the way":                   {"Forwarded: for=1.2.3.4\nX-Forwarded-For: 1.2.3.4\nX-Forwarded-Host: a\nx-forwarded-client-cert: b\nX-Real-IP: 1.2.3.4\nVia: x\n", own()},
		"another host":              {"X-Forwarded-Host: a\n", own()},
		"impersonation":             {"Impersonate-User: bob\nImpersonate-Group: lab\n", with(http.Header{"Impersonate-User": {"bob"}, "Impersonate-Group": {"lab"}})},
		"a continued line":          {"Accept: a\n X-Remote-User: root\n", with(http.Header{"Accept": {"a X-Remote-User: root"}})},
		"a header of the client":    {"Accept: application/json;as=Table\n", with(http.Header{"Accept": {"application/json;as=Table"}})},
		"of the connection":         {"Connection: keep-alive\nKeep-Alive: 5\nTE: gzip\n", own()},
		"an upgrade without asking": {"Upgrade: websocket\n", own()},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, nil, nil)
			_, _, answer := s.send("GET /api HTTP/1.1\nHost: elsewhere\n" + c.lines + "\n")
			if answer.StatusCode != http.StatusOK {
				t.Fatalf("the answer is %s", answer.Status)
			}
			got := <-s.seen
			got.Header.Del("User-Agent")
			if diff := cmp.Diff(c.want, got.Header); diff != "" {
				t.Error(diff)
			}
			if got.Host == "elsewhere" || got.TLS.PeerCertificates[0].Subject.CommonName != "front-proxy" {
				t.Errorf("the server sees the host %q and the certificate of %v", got.Host, got.TLS.PeerCertificates[0].Subject)
			}
		})
	}
}

// TestTrailers: what comes after the body names no one.
func TestTrailers(t *testing.T) {
	s := start(t, nil, nil)
	_, _, answer := s.send("POST /api HTTP/1.1\nHost: a\nTransfer-Encoding: chunked\nTrailer: X-Remote-User, X-Remote-Group\n\n" +
		"2\nhi\n0\nX-Remote-User: root\nX-Remote-Group: system:masters\n\n")
	got := <-s.seen
	got.Header.Del("User-Agent")
	got.Header.Del("Accept-Encoding")
	if diff := cmp.Diff(own(), got.Header); answer.StatusCode != http.StatusOK || diff != "" || len(got.Trailer) > 0 {
		t.Errorf("%s, trailers %v: %s", answer.Status, got.Trailer, diff)
	}
}

// TestRefused: requests that two readers may understand differently reach no server.
func TestRefused(t *testing.T) {
	s := start(t, nil, nil)
	for name, raw := range map[string]string{
		"CONNECT":                     "CONNECT a:443 HTTP/1.1\nHost: a:443\n\n",
		"CONNECT of a path":           "CONNECT /api HTTP/1.1\nHost: a\n\n",
		"an absolute form":            "GET http://a/api HTTP/1.1\nHost: a\n\n",
		"https":                       "GET https://a/api HTTP/1.1\nHost: a\n\n",
		"no slash":                    "GET api HTTP/1.1\nHost: a\n\n",
		"a star":                      "GET * HTTP/1.1\nHost: a\n\n",
		"two slashes":                 "GET //a/api HTTP/1.1\nHost: a\n\n",
		"the folder above":            "GET /api/../metrics HTTP/1.1\nHost: a\n\n",
		"the same, encoded":           "GET /api/%2e%2E/metrics HTTP/1.1\nHost: a\n\n",
		"with encoded slashes":        "GET /api%2f..%2fmetrics HTTP/1.1\nHost: a\n\n",
		"a dot":                       "GET /api/./v1 HTTP/1.1\nHost: a\n\n",
		"a newline":                   "GET /api%0d%0aX-Remote-User:%20root HTTP/1.1\nHost: a\n\n",
		"a null":                      "GET /api%00 HTTP/1.1\nHost: a\n\n",
		"a header is to be removed":   "GET /api HTTP/1.1\nHost: a\nConnection: close, Impersonate-User\nImpersonate-User: bob\n\n",
		"the identity is to be":       "GET /api HTTP/1.1\nHost: a\nConnection: X-Remote-User\n\n",
		"a second Connection":         "GET /api HTTP/1.1\nHost: a\nConnection: keep-alive\nConnection: X-Remote-Group\n\n",
		"HTTP/2 without TLS":          "GET /api HTTP/1.1\nHost: a\nConnection: Upgrade\nUpgrade: h2c\n\n",
		"two protocols":               "GET /api HTTP/1.1\nHost: a\nConnection: Upgrade\nUpgrade: websocket, h2c\n\n",
		"two lengths":                 "POST /api HTTP/1.1\nHost: a\nContent-Length: 1\nContent-Length: 2\n\nab",
		"a space in the name":         "GET /api HTTP/1.1\nHost: a\nX-Remote-User : root\n\n",
		"a name that is not of ASCII": "GET /api HTTP/1.1\nHost: a\nX-Remote-U\u017fer: root\n\n",
	} {
		t.Run(name, func(t *testing.T) {
			s := &trial{T: t, path: s.path}
			_, _, answer := s.send(raw)
			if answer.StatusCode != http.StatusBadRequest {
				t.Errorf("the answer is %s", answer.Status)
			}
		})
	}
	if len(s.seen) > 0 {
		t.Errorf("the server got %d requests", len(s.seen))
	}
}

// TestRequestIsKept: path, query, method and body arrive as they were sent.
func TestRequestIsKept(t *testing.T) {
	s := start(t, nil, nil)
	const uri = "/api/v1/namespaces/a/services/http:b:1/proxy/x%2Fy//z?command=a&command=b%3Bc&watch=1"
	if _, _, answer := s.send("PATCH " + uri + " HTTP/1.1\nHost: a\nContent-Length: 2\n\nhi"); answer.StatusCode != http.StatusOK {
		t.Fatalf("the answer is %s", answer.Status)
	}
	if got := <-s.seen; got.RequestURI != uri || got.Method != http.MethodPatch || got.ContentLength != 2 {
		t.Errorf("the server got %s %s with %d bytes", got.Method, got.RequestURI, got.ContentLength)
	}
}

// TestUpgrade: bytes flow both ways after exec has taken over the connection.
func TestUpgrade(t *testing.T) {
	for _, protocol := range []string{"SPDY/3.1", "websocket"} {
		t.Run(protocol, func(t *testing.T) {
			s := start(t, nil, func(w http.ResponseWriter, r *http.Request) {
				conn, buffer, err := http.NewResponseController(w).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				defer func() { _ = conn.Close() }()
				_, _ = fmt.Fprintf(buffer, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", r.Header.Get("Upgrade"))
				_ = buffer.Flush()
				line, _ := buffer.ReadString('\n')
				_, _ = buffer.WriteString("you said " + line)
				_ = buffer.Flush()
			})
			conn, reader, answer := s.send("POST /api/v1/namespaces/a/pods/b/exec?command=sh HTTP/1.1\nHost: a\nConnection: Upgrade\nUpgrade: " + protocol + "\nX-Remote-User: root\n\n")
			if answer.StatusCode != http.StatusSwitchingProtocols {
				t.Fatalf("the answer is %s", answer.Status)
			}
			if got := (<-s.seen).Header["X-Remote-User"]; !slices.Equal(got, own()["X-Remote-User"]) {
				t.Errorf("the server sees %q", got)
			}
			if _, err := io.WriteString(conn, "hello\n"); err != nil {
				t.Fatal(err)
			}
			if line, err := reader.ReadString('\n'); err != nil || line != "you said hello\n" {
				t.Errorf("%q, %v", line, err)
			}
		})
	}
}

// TestWatch: an event arrives before the next one exists.
func TestWatch(t *testing.T) {
	next := make(chan struct{})
	s := start(t, nil, func(w http.ResponseWriter, _ *http.Request) {
		for i := range 3 {
			_, _ = fmt.Fprintf(w, "event %d\n", i)
			_ = http.NewResponseController(w).Flush()
			<-next
		}
	})
	_, _, answer := s.send("GET /api/v1/pods?watch=1 HTTP/1.1\nHost: a\n\n")
	body := bufio.NewReader(answer.Body)
	for i := range 3 {
		if line, err := body.ReadString('\n'); err != nil || line != fmt.Sprintf("event %d\n", i) {
			t.Fatalf("%q, %v", line, err)
		}
		next <- struct{}{}
	}
}

// TestServerAway: the answer is one that kubectl understands.
func TestServerAway(t *testing.T) {
	s := start(t, nil, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	_, _, answer := s.send("GET /api HTTP/1.1\nHost: a\n\n")
	var status struct {
		Kind, Reason, Message string
		Code                  int
	}
	if err := json.NewDecoder(answer.Body).Decode(&status); err != nil {
		t.Fatal(err)
	}
	if answer.StatusCode != http.StatusServiceUnavailable || status.Kind != "Status" || status.Reason != "ServiceUnavailable" || status.Code != 503 {
		t.Errorf("%s: %+v", answer.Status, status)
	}
}

// TestNoPeer: a connection that is not of the socket has no identity.
func TestNoPeer(t *testing.T) {
	proxy, err := New(Options{Server: &url.URL{Scheme: "https", Host: "localhost:1"}, TLS: &tls.Config{Certificates: make([]tls.Certificate, 1)}, Directory: files(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.Close()
	w := httptest.NewRecorder()
	proxy.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api", nil))
	if w.Code != http.StatusForbidden {
		t.Errorf("the answer is %d", w.Code)
	}
}

func TestOptions(t *testing.T) {
	certificate := &tls.Config{Certificates: make([]tls.Certificate, 1)}
	for name, o := range map[string]Options{
		"http":           {Server: &url.URL{Scheme: "http", Host: "a"}, TLS: certificate},
		"no server":      {TLS: certificate},
		"no certificate": {Server: &url.URL{Scheme: "https", Host: "a"}, TLS: &tls.Config{}},
	} {
		if _, err := New(o); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

// directory is one that fails in a way.
type directory struct {
	known             bool
	err, groups, name error
}

func (d directory) ByUID(_ context.Context, uid uint32) (account.Account, bool, error) {
	return account.Account{UID: uid, Login: "ada"}, d.known, d.err
}

func (d directory) Groups(context.Context, uint32) ([]account.Group, error) {
	return []account.Group{{GID: 1, Name: "told"}}, d.groups
}

func (d directory) GroupNames(_ context.Context, gids []uint32) ([]account.Group, error) {
	if d.name != nil {
		return nil, d.name
	}
	var groups []account.Group
	for _, gid := range gids {
		groups = append(groups, account.Group{GID: gid, Name: fmt.Sprint("kernel", gid)})
	}
	return groups, nil
}

// TestIdentify: while the directory is away, the kernel tells the groups.
func TestIdentify(t *testing.T) {
	away := fmt.Errorf("asking: %w", account.ErrAway)
	for name, c := range map[string]struct {
		directory directory
		want      []string
		fails     bool
	}{
		"a user":             {directory: directory{known: true}, want: []string{"unix-group:told"}},
		"unknown":            {directory: directory{}, want: []string{"unix-group:kernel7", "unix-group:kernel8"}},
		"away":               {directory: directory{err: away}, want: []string{"unix-group:kernel7", "unix-group:kernel8"}},
		"away for groups":    {directory: directory{known: true, groups: away}, want: []string{"unix-group:kernel7", "unix-group:kernel8"}},
		"away for all":       {directory: directory{err: away, name: away}},
		"the caller is gone": {directory: directory{err: context.Canceled, name: context.Canceled}, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			who, err := Identify(t.Context(), c.directory, peer.Peer{UID: 5, GID: 7, Groups: []uint32{8, 7}})
			if (err != nil) != c.fails || (c.fails && !errors.Is(err, context.Canceled)) {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, who.Groups); diff != "" || (!c.fails && who.User != "unix:5") {
				t.Errorf("%q: %s", who.User, diff)
			}
		})
	}
}

// TestIdentifySession: for a session the directory alone tells the user and the groups.
func TestIdentifySession(t *testing.T) {
	away := fmt.Errorf("asking: %w", account.ErrAway)
	for name, c := range map[string]struct {
		directory directory
		want      []string
		fails     string
	}{
		"a user":          {directory: directory{known: true}, want: []string{"unix-group:told"}},
		"removed":         {fails: "uid 5 is no user of this machine any more"},
		"away":            {directory: directory{err: away}, fails: "finding the user of a session: asking: the directory"},
		"away for groups": {directory: directory{known: true, groups: away}},
	} {
		t.Run(name, func(t *testing.T) {
			c.directory.name = errors.New("the kernel's groups are asked for")
			who, err := Identify(t.Context(), c.directory, peer.Peer{UID: 5, Session: true})
			if c.fails == "" && err != nil || c.fails != "" && (err == nil || !strings.HasPrefix(err.Error(), c.fails)) {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, who.Groups); diff != "" || c.fails == "" && who.User != "unix:5" {
				t.Errorf("%q: %s", who.User, diff)
			}
		})
	}
}
