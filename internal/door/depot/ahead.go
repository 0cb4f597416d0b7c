package depot

import (
	"bytes"
	"context"
	"io"
	"sync"

	"github.com/muster-dev/muster/internal/environment/source"
)

// ahead reads small contents before they are asked for, several at once: to a
// bucket each is a question of milliseconds. Larger ones are opened when they are
// asked for: a bucket breaks off what nobody reads for a while.
type ahead struct {
	fetch  func(context.Context, source.Content) (io.ReadCloser, error)
	cancel context.CancelFunc
	ctx    context.Context //nolint:containedctx // that of one answer, whose life this is
	rest   []source.Content
	// coming are those that are asked for next; nil is a large one.
	coming []chan fetched
	wg     sync.WaitGroup
}

// fetched is a content that is there.
type fetched struct {
	in  io.ReadCloser
	err error
}

// readAhead returns a reader of contents that will be asked for in this order.
// Call stop in the end.
func readAhead(ctx context.Context, order []source.Content, fetch func(context.Context, source.Content) (io.ReadCloser, error)) *ahead {
	a := &ahead{fetch: fetch, rest: order}
	a.ctx, a.cancel = context.WithCancel(ctx)
	return a
}

// open returns the next content.
func (a *ahead) open(ctx context.Context, c source.Content) (io.ReadCloser, error) {
	for len(a.coming) < atOnce && len(a.rest) > 0 {
		a.start(a.rest[0])
		a.rest = a.rest[1:]
	}
	next := a.coming[0]
	a.coming = a.coming[1:]
	if next == nil {
		return a.fetch(ctx, c)
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case got := <-next:
		return got.in, got.err
	}
}

func (a *ahead) start(c source.Content) {
	if c.Size > small {
		a.coming = append(a.coming, nil)
		return
	}
	out := make(chan fetched, 1)
	a.coming = append(a.coming, out)
	a.wg.Go(func() {
		in, err := a.fetch(a.ctx, c)
		if err == nil {
			var data []byte
			data, err = io.ReadAll(in)
			_ = in.Close() // it was read wholly, or the error is known
			in = io.NopCloser(bytes.NewReader(data))
		}
		out <- fetched{in, err}
	})
}

// stop gives up what nobody will ask for, and waits until it is given up.
func (a *ahead) stop() {
	a.cancel()
	a.wg.Wait()
}
