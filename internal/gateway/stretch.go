package gateway

import (
	"errors"
	"io"
	"sync"
)

// whole reads a body of a known length. The last of its bytes are passed on only once
// its end was seen: there sums are compared.
type whole struct {
	from io.Reader
	// stop ends the reading; nil: nothing does.
	stop func()

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

// End reads the rest of the body, and returns an error if the body differs from its announced size
// or checksum.
func (w *whole) End() error {
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

// Wrong stops all reads and returns the error of the body, or nil. An unread rest of the body is no
// error.
func (w *whole) Wrong() error {
	if w.stop != nil {
		w.stop() // a store that answered early may still read
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if errors.Is(w.err, errOver) {
		return nil
	}
	return w.err
}
