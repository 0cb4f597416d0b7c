package egress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

// fileCounts is as how many bytes a file counts for the pace of a copy, however short
// it is.
const fileCounts = 64 << 10

// assembling is how long a bucket may take to make a file of its parts. It has all of
// them then, and tells nobody how far it is.
const assembling = 10 * time.Minute

// Pace is so much in such a time; a file counts as 64 KiB at least. The time is that
// in which the bucket is waited for: not that in which there is no memory for a part,
// what is copied is read, or a bucket makes a file of its parts, for which it has ten
// minutes each time that it is asked.
type Pace struct {
	Bytes int64
	In    time.Duration
}

// errSlow is why a copy is given up.
var errSlow = errors.New("the bucket is too slow")

// meter is how much a bucket has taken, of files that it has and of others, in how much
// time spent waiting for it.
type meter struct {
	mu    sync.Mutex
	moved int64
	// waits is how many requests wait for the bucket, since when some do, and waited how
	// long some did before.
	waits  int
	since  time.Time
	waited time.Duration
}

// move counts bytes.
func (m *meter) move(n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.moved += n
}

// read is what was moved and waited up to now.
func (m *meter) read() (moved int64, waited time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	waited = m.waited
	if m.waits > 0 {
		waited += time.Since(m.since)
	}
	return m.moved, waited
}

// watch ends a copy that is slower than its pace.
func (m *meter) watch(ctx context.Context, p Pace, stop context.CancelCauseFunc) {
	moved, waited := m.read()
	timer := time.NewTimer(p.In)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		now, until := m.read()
		left := p.In - (until - waited)
		if left > 0 {
			timer.Reset(max(left, p.In/16))
			continue
		}
		if now-moved < p.Bytes {
			stop(fmt.Errorf("%w: it took %d bytes in %s in which it was waited for, and %d in %s are the least, since others wait", errSlow, now-moved, until-waited, p.Bytes, p.In))
			return
		}
		moved, waited = now, until
		timer.Reset(p.In)
	}
}

// wait is a request's. It may be changed by many at once, and ends once.
type wait struct {
	meter       *meter
	going, over bool
}

// set says whether the request waits for the bucket, unless it is over.
func (w *wait) set(going bool) {
	w.meter.mu.Lock()
	defer w.meter.mu.Unlock()
	w.change(going)
}

// end says that the request is over.
func (w *wait) end() {
	w.meter.mu.Lock()
	defer w.meter.mu.Unlock()
	w.change(false)
	w.over = true
}

// change is set for who holds the lock.
func (w *wait) change(going bool) {
	if w.over || w.going == going {
		return
	}
	m := w.meter
	w.going = going
	switch {
	case going && m.waits == 0:
		m.since = time.Now()
	case !going && m.waits == 1:
		m.waited += time.Since(m.since)
	}
	if going {
		m.waits++
	} else {
		m.waits--
	}
}

// assembles says whether a request asks for a file to be made of its parts.
func assembles(r *http.Request) bool {
	return r.Method == http.MethodPost && r.URL.Query().Has("uploadId")
}

// metered counts what requests carry, and how long the bucket is waited for.
type metered struct {
	http.RoundTripper
	meter *meter
}

// RoundTrip implements [http.RoundTripper].
func (m metered) RoundTrip(r *http.Request) (*http.Response, error) {
	if assembles(r) {
		ctx, cancel := context.WithTimeoutCause(r.Context(), assembling, fmt.Errorf("%w: it has all parts of a file, and did not make it of them within %s", errSlow, assembling))
		response, err := m.RoundTripper.RoundTrip(r.WithContext(ctx))
		if err != nil {
			defer cancel()
			return response, because(ctx, err)
		}
		response.Body = &answer{response.Body, ctx, cancel}
		return response, nil
	}
	w := &wait{meter: m.meter}
	if r.Body != nil && r.Body != http.NoBody {
		r = r.WithContext(r.Context()) // a copy
		r.Body = &carried{r.Body, w}
	}
	w.set(true)
	response, err := m.RoundTripper.RoundTrip(r)
	if err != nil {
		w.end()
		return response, err
	}
	response.Body = &answer{response.Body, r.Context(), w.end}
	return response, nil
}

// because is why a request went wrong, where that is that its time was over.
func because(ctx context.Context, err error) error {
	if slow := context.Cause(ctx); errors.Is(slow, errSlow) {
		return slow
	}
	return err
}

// carried is the body of a request. While it is read, nobody waits for the bucket.
type carried struct {
	io.ReadCloser
	wait *wait
}

// Read implements [io.Reader].
func (c *carried) Read(p []byte) (int, error) {
	c.wait.set(false)
	n, err := c.ReadCloser.Read(p)
	c.wait.meter.move(int64(n))
	c.wait.set(true)
	return n, err
}

// answer is the body of a response, up to whose end the bucket is waited for.
type answer struct {
	io.ReadCloser
	ctx context.Context
	end func()
}

// Read implements [io.Reader].
func (a *answer) Read(p []byte) (int, error) {
	n, err := a.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = because(a.ctx, err)
	}
	return n, err
}

// Close implements [io.Closer].
func (a *answer) Close() error {
	defer a.end()
	return a.ReadCloser.Close()
}
