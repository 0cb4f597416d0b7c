package gate

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/muster-dev/muster/internal/people/session"
)

// BenchmarkGate measures requests of 200 sessions: the checks alone, with the connection, and the
// connection without a gate.
func BenchmarkGate(b *testing.B) {
	g := newBench(b)
	var sessions []session.Opened
	for n := range 200 {
		sessions = append(sessions, g.signIn(session.Caller{User: fmt.Sprint("unix:", 1000+n)}, console))
	}
	bare := httptest.NewServer(http.HandlerFunc(g.handle))
	b.Cleanup(bare.Close)
	for _, c := range []struct {
		name string
		send func(session.Opened) error
	}{{"checks", g.directly}, {"connection", g.over(g.serve())}, {"bare", g.over(bare.Listener.Addr().String())}} {
		b.Run(c.name, func(b *testing.B) {
			times := make([]time.Duration, b.N)
			var next atomic.Int64
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					n := next.Add(1) - 1
					start := time.Now()
					if err := c.send(sessions[n%int64(len(sessions))]); err != nil {
						b.Error(err)
						return
					}
					times[n] = time.Since(start)
				}
			})
			slices.Sort(times)
			b.ReportMetric(float64(times[len(times)/2].Microseconds()), "p50-µs")
			b.ReportMetric(float64(times[len(times)*99/100].Microseconds()), "p99-µs")
		})
	}
}

func (b *bench) directly(as session.Opened) error {
	w := httptest.NewRecorder()
	b.ServeHTTP(w, request("GET", console, "/api/jobs", "", as))
	if w.Code != http.StatusOK {
		return fmt.Errorf("status %d", w.Code)
	}
	return nil
}

// over returns a function that sends a request to an address over a kept connection.
func (b *bench) over(address string) func(session.Opened) error {
	transport := &http.Transport{MaxIdleConnsPerHost: 200}
	b.t.Cleanup(transport.CloseIdleConnections)
	return func(as session.Opened) error {
		r := request("GET", console, "/api/jobs", "", as).WithContext(context.Background())
		r.RequestURI, r.URL.Scheme, r.URL.Host = "", "http", address
		answer, err := transport.RoundTrip(r)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, answer.Body)
		if closed := answer.Body.Close(); err != nil || closed != nil || answer.StatusCode != http.StatusOK {
			return fmt.Errorf("status %d: %w", answer.StatusCode, err)
		}
		return nil
	}
}
