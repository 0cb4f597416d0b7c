package gateway

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/muster-dev/muster/internal/data/backend"
)

// whole reads a body of a known length. The last of its bytes are passed on only once
// its end was seen: there sums are compared.
type whole struct {
	from io.Reader

	// mu: whoever was given it to read may do so while it is asked what was wrong.
	mu   sync.Mutex
	left int64
	seen bool
	err  error
}

// Read implements io.Reader.
func (w *whole) Read(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.read(p)
}

func (w *whole) read(p []byte) (int, error) {
	if w.err != nil {
		return 0, w.err
	}
	if w.left == 0 {
		if err := w.ended(); err != nil {
			return 0, err
		}
		return 0, io.EOF
	}
	n, err := w.from.Read(p[:min(int64(len(p)), w.left)])
	w.left -= int64(n)
	if w.left > 0 {
		if err != nil {
			w.err = err
			if errors.Is(err, io.EOF) {
				w.err = incomplete(io.ErrUnexpectedEOF)
			}
			return n, w.err
		}
		return n, nil
	}
	if errors.Is(err, io.EOF) {
		w.seen, err = true, nil
	}
	if w.err = err; err == nil {
		err = w.ended()
	}
	if err != nil {
		return 0, err
	}
	return n, nil
}

// end is why the body is not what it was said to be, once all of it was read.
func (w *whole) end() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ended()
}

func (w *whole) ended() error {
	if w.seen || w.err != nil {
		return w.err
	}
	w.seen = true
	n, err := io.Copy(io.Discard, w.from)
	if w.err = err; err == nil && n > 0 {
		w.err = incomplete(errors.New("more bytes came"))
	}
	return w.err
}

// wrong is what was wrong with the body, if that was read. That nobody wanted the rest is
// no fault of it.
func (w *whole) wrong() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if errors.Is(w.err, errOver) {
		return nil
	}
	return w.err
}

// joined reads parts one after another.
type joined struct {
	ctx   context.Context // io.Reader has no place for one
	from  backend.Streamer
	parts []part
	open  io.ReadCloser
}

// Read implements io.Reader.
func (j *joined) Read(p []byte) (int, error) {
	for {
		if err := j.ctx.Err(); err != nil {
			return 0, err
		}
		if j.open == nil {
			if len(j.parts) == 0 {
				return 0, io.EOF
			}
			part, err := j.from.Open(j.ctx, j.parts[0].Bytes, 0, j.parts[0].Size)
			if err != nil {
				return 0, err
			}
			j.open, j.parts = part, j.parts[1:]
		}
		n, err := j.open.Read(p)
		if !errors.Is(err, io.EOF) {
			return n, err
		}
		err = j.open.Close()
		if j.open = nil; n > 0 || err != nil {
			return n, err
		}
	}
}

// close ends reading before the end.
func (j *joined) close() error {
	if j.open == nil {
		return nil
	}
	return j.open.Close()
}
