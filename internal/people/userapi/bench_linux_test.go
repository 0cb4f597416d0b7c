package userapi

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/muster-dev/muster/internal/account"
	"github.com/muster-dev/muster/internal/people/frontproxy"
	"github.com/muster-dev/muster/internal/people/peer"
)

// sessions is the number of open connections of the benchmark.
const sessions = 200

// BenchmarkRequest measures reads of 4 KiB over 200 kept connections: directly from a TLS
// server that stands for the API server, by the socket, the gate and the front proxy from
// the same server, by a session inside the process, and by the socket and the gate from a
// handler, as the door's.
func BenchmarkRequest(b *testing.B) {
	body := bytes.Repeat([]byte("x"), 4096)
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(body) })
	api := httptest.NewTLSServer(handler)
	b.Cleanup(api.Close)
	roots := x509.NewCertPool()
	roots.AddCert(api.Certificate())
	trust := &tls.Config{RootCAs: roots, Certificates: api.TLS.Certificates, MinVersion: tls.VersionTLS13}
	server, err := url.Parse(api.URL)
	if err != nil {
		b.Fatal(err)
	}
	directory := account.New(account.Options{FilesOnly: true})
	b.Cleanup(directory.Close)
	proxy, err := frontproxy.New(frontproxy.Options{Server: server, TLS: trust, Directory: directory})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(proxy.Close)
	inside := peer.NewInside()
	path := listen(b, Options{Directory: directory, AllowUnknown: true, API: proxy, Door: handler}, inside)
	socket := func() *http.Transport {
		return &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return peer.Dial(ctx, path) }}
	}
	for _, c := range []struct {
		name, target string
		transport    func() *http.Transport
	}{
		{"direct", api.URL + "/api", func() *http.Transport { return &http.Transport{TLSClientConfig: trust.Clone()} }},
		{"proxy", "http://muster/api", socket},
		{"session", "http://muster/api", func() *http.Transport {
			return &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return inside.Dial(ctx, uint32(os.Geteuid())) //nolint:gosec // a uid
			}}
		}},
		{"door", "http://muster" + DoorPath + "/v1", socket},
	} {
		b.Run(c.name, func(b *testing.B) { measure(b, c.target, c.transport) })
	}
}

func listen(b *testing.B, o Options, inside *peer.Inside) string {
	b.Helper()
	path := filepath.Join(b.TempDir(), "muster.sock")
	listener, err := peer.Listen(b.Context(), path)
	if err != nil {
		b.Fatal(err)
	}
	server, err := New(o)
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(b.Context()))
	done := make(chan error, 1)
	go func() { done <- server.Serve(ctx, listener, inside) }()
	b.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			b.Error(err)
		}
	})
	return path
}

// measure sends the requests of all sessions in turn.
func measure(b *testing.B, target string, transport func() *http.Transport) {
	var open []*http.Client
	for range sessions {
		client := &http.Client{Transport: transport()}
		defer client.CloseIdleConnections()
		if err := read(b.Context(), client, target); err != nil {
			b.Fatal(err)
		}
		open = append(open, client)
	}
	times := make([]time.Duration, b.N)
	var next atomic.Int64
	b.ResetTimer()
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			n := next.Add(1) - 1
			start := time.Now()
			if err := read(b.Context(), open[n%sessions], target); err != nil {
				b.Error(err)
				return
			}
			times[n] = time.Since(start)
		}
	})
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(times[len(times)*99/100].Microseconds()), "p99-µs")
}

func read(ctx context.Context, client *http.Client, target string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return err
	}
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, answer.Body)
	if err = errors.Join(err, answer.Body.Close()); err == nil && answer.StatusCode != http.StatusOK {
		err = errors.New(answer.Status)
	}
	return err
}
