package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/muster-dev/muster/internal/data"
)

// putLong stores a long body as it comes, so that only its commit waits in the lane.
func (g *Gateway) putLong(p *place, branch string, c *change, body io.Reader, length int64) (string, error) {
	ctx := context.WithoutCancel(g.life)
	lease, err := p.home.leases.take(ctx)
	if err != nil {
		return "", err
	}
	defer p.home.leases.give(ctx, lease)
	// As they are now: what was there when it began, and is put again, is not put on top of
	// what came since.
	if _, err := p.heads.read(ctx, time.Now()); err != nil {
		return "", err
	}
	s, err := p.Begin(ctx, branch, data.SessionOptions{Lease: lease.Lease, Open: true})
	if err != nil {
		return "", err
	}
	counted := &counter{Reader: body}
	if err = s.Add(ctx, data.Stream(c.path, counted), data.AddOptions{}); err == nil && counted.n != length {
		err = incomplete(fmt.Errorf("%d bytes came instead of %d: %w", counted.n, length, io.ErrUnexpectedEOF))
	}
	var e data.Entry
	if err == nil {
		e, err = s.Stat(ctx, c.path)
	}
	if err != nil {
		return "", errors.Join(err, s.Close(ctx))
	}
	c.session = s
	return etag(&e), g.commitAll(p, branch, c)[0]
}

type counter struct {
	io.Reader
	n int64
}

// Read implements io.Reader.
func (c *counter) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += int64(n)
	return n, err
}
