package upload

import (
	"context"
	"errors"
	"io"

	"github.com/muster-dev/muster/internal/data/backend"
)

// Reader reads parts one after another.
type Reader struct {
	ctx   context.Context // io.Reader has no context parameter
	from  backend.Streamer
	parts []Part
	open  io.ReadCloser
}

// Open returns a reader of parts, which fails once ctx ends.
func (u Store) Open(ctx context.Context, parts []Part) *Reader {
	return &Reader{ctx: ctx, from: u.Objects, parts: parts}
}

// Read implements io.Reader.
func (j *Reader) Read(p []byte) (int, error) {
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

// Close closes the part that is open.
func (j *Reader) Close() error {
	if j.open == nil {
		return nil
	}
	return j.open.Close()
}
