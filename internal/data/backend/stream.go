package backend

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/minio/minio-go/v7"
)

// Streamer is a backend that also moves objects piece by piece, for who passes them
// on and has no room for all that are on their way.
type Streamer interface {
	Backend
	// Open reads a part of an object: so many bytes from an offset on, and not one
	// more. The error wraps [io/fs.ErrNotExist] where there is no object and
	// [ErrShort] where it ends before. The reader has to be closed; it fails where
	// not all of the part can be read.
	Open(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error)
	// PutFrom stores exactly so many bytes of a reader under a key, as Put does.
	// Where the reader has fewer, or fails, the key has what it had before.
	PutFrom(ctx context.Context, key string, size int64, from io.Reader) error
}

var (
	_ Streamer = (*Memory)(nil)
	_ Streamer = (*Folder)(nil)
	_ Streamer = (*Bucket)(nil)
)

// Open implements [Streamer].
func (m *Memory) Open(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	o, err := m.get(ctx, "reading", key)
	if err != nil {
		return nil, err
	}
	if err := within(key, offset, length, int64(len(o.content))); err != nil {
		return nil, err
	}
	return io.NopCloser(bytes.NewReader(o.content[offset : offset+length])), nil
}

// PutFrom implements [Streamer].
func (m *Memory) PutFrom(ctx context.Context, key string, size int64, from io.Reader) error {
	content := make([]byte, size)
	if _, err := io.ReadFull(from, content); err != nil {
		return fmt.Errorf("storing %s: %w", key, err)
	}
	return m.Put(ctx, key, content)
}

// within refuses a part that an object of a size does not have.
func within(key string, offset, length, size int64) error {
	if offset < 0 || length < 0 || offset > size || length > size-offset {
		return fmt.Errorf("reading %s: %d bytes at %d: %w", key, length, offset, ErrShort)
	}
	return nil
}

// Open implements [Streamer].
func (f *Folder) Open(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	if err := errors.Join(check(key), ctx.Err()); err != nil {
		return nil, err
	}
	file, err := os.Open(filepath.Join(f.root, filepath.FromSlash(key)))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", key, err)
	}
	info, err := file.Stat()
	if err == nil {
		err = within(key, offset, length, info.Size())
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &part{Reader: io.NewSectionReader(file, offset, length), left: length, Closer: file}, nil
}

// PutFrom implements [Streamer].
func (f *Folder) PutFrom(ctx context.Context, key string, size int64, from io.Reader) error {
	return f.put(ctx, key, f.temp(), func(temp string) error { return copyDurably(temp, size, from) }, atOnce)
}

// copyDurably makes a file of a reader, which is on disk when it returns nil.
func copyDurably(path string, size int64, from io.Reader) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = io.CopyN(file, from, size)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// Open implements [Streamer].
func (b *Bucket) Open(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	if err := check(key); err != nil {
		return nil, err
	}
	if offset < 0 || length <= 0 {
		info, err := b.Stat(ctx, key)
		if err == nil {
			err = within(key, offset, length, info.Size)
		}
		return io.NopCloser(bytes.NewReader(nil)), err
	}
	var o minio.GetObjectOptions
	if err := o.SetRange(offset, offset+length-1); err != nil {
		return nil, fmt.Errorf("reading %s: %w", key, err)
	}
	body, info, _, err := b.client.GetObject(ctx, b.client.Name, b.prefix+key, o)
	if minio.ToErrorResponse(err).Code == minio.InvalidRange {
		return nil, fmt.Errorf("reading %s in bucket %s: %d bytes at %d: %w", key, b.client.Name, length, offset, ErrShort)
	}
	if err != nil {
		return nil, b.client.Explain("reading", key, err)
	}
	if info.Size < length { // of the part, as the answer's head says
		return nil, errors.Join(fmt.Errorf("reading %s in bucket %s: %d bytes at %d: %w", key, b.client.Name, length, offset, ErrShort), body.Close())
	}
	return &part{Reader: body, left: length, Closer: body}, nil
}

// PutFrom implements [Streamer]. It is one request, which is made once: what was
// read is gone.
func (b *Bucket) PutFrom(ctx context.Context, key string, size int64, from io.Reader) error {
	if err := check(key); err != nil {
		return err
	}
	if size == 0 {
		return b.Put(ctx, key, nil)
	}
	o := minio.PutObjectOptions{ContentType: "application/octet-stream", DisableMultipart: true}
	watched := &watched{Reader: io.LimitReader(from, size)}
	_, err := b.client.Once.PutObject(ctx, b.client.Name, b.prefix+key, watched, size, o)
	if why := watched.why(); why != nil { // what is wrong with it says more than what the request says
		return fmt.Errorf("storing %s in bucket %s: %w", key, b.client.Name, why)
	}
	return b.client.Explain("storing", key, err)
}

// watched remembers why it could not be read. Where a bucket answers before it has been
// sent all, it may be read on for a moment.
type watched struct {
	io.Reader
	mu  sync.Mutex
	err error
}

func (w *watched) why() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// Read implements [io.Reader].
func (w *watched) Read(p []byte) (int, error) {
	n, err := w.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.err = err
	}
	return n, err
}

// part is a part of an object on its way: that it breaks off is an error.
type part struct {
	io.Reader
	io.Closer
	left int64
}

// Read implements [io.Reader].
func (p *part) Read(into []byte) (int, error) {
	if p.left == 0 {
		return 0, io.EOF
	}
	n, err := p.Reader.Read(into[:min(int64(len(into)), p.left)])
	p.left -= int64(n)
	if errors.Is(err, io.EOF) {
		err = nil
		if p.left > 0 {
			err = io.ErrUnexpectedEOF
		}
	}
	return n, err
}
