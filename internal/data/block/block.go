package block

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/muster-dev/muster/internal/data/backend"
	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/pack"
	"github.com/muster-dev/muster/internal/osfile"
)

const (
	// Size is how long a block is, in bytes.
	Size = 256 << 10
	// mostAtOnce is how many blocks are asked for in one request.
	mostAtOnce = 32
	// defaultPart is which part of its file system the folder may have, as 1/n.
	defaultPart = 4
)

// Options say where blocks are kept, and of what. Dir and Behind are required.
type Options struct {
	// Dir is the folder. It is made if need be; nothing else may be in it.
	Dir string
	// Limit is how many bytes of blocks it may have. Default: a quarter of what the
	// file system has that it is on.
	Limit int64
	// Behind is the backend that has the objects.
	Behind backend.Backend
}

// Blocks is a backend before another. It may be used by many at once.
type Blocks struct {
	backend.Backend
	dir string
	bin bin

	mu sync.Mutex
	// coming are the files of blocks that are being fetched; each is closed then.
	coming map[string]chan struct{}
	// ends are the lengths of objects of which the end was asked for.
	ends map[string]int64
}

// Open opens a folder of blocks.
func Open(o Options) (*Blocks, error) {
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("making a folder for what is fetched: %w", err)
	}
	if o.Limit <= 0 {
		total, _, err := osfile.Space(o.Dir)
		if err != nil {
			return nil, fmt.Errorf("asking how much room there is in %s: %w", o.Dir, err)
		}
		o.Limit = total / defaultPart
	}
	b := &Blocks{
		Backend: o.Behind, dir: o.Dir, bin: bin{dir: o.Dir, limit: o.Limit},
		coming: map[string]chan struct{}{}, ends: map[string]int64{},
	}
	return b, b.bin.tidy()
}

// file is where a block is.
func (b *Blocks) file(key string, block int64) string {
	name := digest.Of([]byte(key + "#" + strconv.FormatInt(block, 10))).String()
	return filepath.Join(b.dir, name[:2], name[2:])
}

// ReadAt implements [backend.Backend].
func (b *Blocks) ReadAt(ctx context.Context, key string, offset int64, into []byte) error {
	if !strings.HasPrefix(key, pack.Prefix) || len(into) == 0 {
		return b.Backend.ReadAt(ctx, key, offset, into)
	}
	end := offset + int64(len(into))
	for offset < end {
		block := offset / Size
		piece := into[len(into)-int(end-offset):]
		piece = piece[:min(int64(len(piece)), (block+1)*Size-offset)]
		if b.read(b.file(key, block), offset-block*Size, piece) {
			offset += int64(len(piece))
			continue
		}
		got, err := b.fetch(ctx, key, block, (end-1)/Size, offset, into[len(into)-int(end-offset):])
		if err != nil {
			return err
		}
		offset += int64(got)
	}
	return nil
}

// read reads a part of a block that is here, and says whether it is.
func (b *Blocks) read(path string, offset int64, into []byte) bool {
	file, err := os.Open(path)
	if err != nil {
		return false
	}
	_, err = file.ReadAt(into, offset)
	b.bin.used(file)
	return errors.Join(err, file.Close()) == nil
}

// fetch brings blocks here, from one up to, at most, another, and gives out of them
// what is wanted from an offset in the first on. Where somebody else fetches the first
// one, it waits for that, and gives nothing.
func (b *Blocks) fetch(ctx context.Context, key string, from, to, offset int64, into []byte) (int, error) {
	files, others := b.claim(key, from, min(to, from+mostAtOnce-1))
	if others != nil {
		select {
		case <-others:
			return 0, nil
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	defer b.release(files)
	// Somebody may have brought it between the look and the claim.
	if first := into[:min(int64(len(into)), (from+1)*Size-offset)]; b.read(files[0], offset-from*Size, first) {
		return len(first), nil
	}
	raw, err := b.whole(ctx, key, from*Size, int64(len(files))*Size)
	if err != nil {
		return 0, err
	}
	got := raw[min(offset-from*Size, int64(len(raw))):]
	if n := min(len(into), len(files)*Size-int(offset-from*Size)); len(got) < n {
		return 0, fmt.Errorf("reading %s: %d bytes at %d: %w", key, n, offset, backend.ErrShort)
	}
	for i, file := range files {
		part := raw[min(i*Size, len(raw)):min((i+1)*Size, len(raw))]
		b.bin.write(file, part) // if it cannot be kept it is fetched again
	}
	return copy(into, got), nil
}

// whole is a range of an object, as far as that goes.
func (b *Blocks) whole(ctx context.Context, key string, offset, length int64) ([]byte, error) {
	b.mu.Lock()
	end, known := b.ends[key]
	b.mu.Unlock()
	if known {
		length = max(min(length, end-offset), 0)
	}
	raw := make([]byte, length)
	err := b.Backend.ReadAt(ctx, key, offset, raw)
	if known || !errors.Is(err, backend.ErrShort) {
		return raw, err
	}
	info, err := b.Stat(ctx, key)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	b.ends[key] = info.Size
	b.mu.Unlock()
	raw = raw[:max(min(length, info.Size-offset), 0)]
	return raw, b.Backend.ReadAt(ctx, key, offset, raw)
}

// claim takes blocks that are missing upon itself, from one on, as many as lie beside
// one another. Where somebody else fetches the first, it is when they are done.
func (b *Blocks) claim(key string, from, to int64) (files []string, others chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for block := from; block <= to; block++ {
		file := b.file(key, block)
		if other := b.coming[file]; other != nil {
			if block == from {
				return nil, other
			}
			break
		}
		if block > from && exists(file) {
			break
		}
		b.coming[file] = make(chan struct{})
		files = append(files, file)
	}
	return files, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func (b *Blocks) release(files []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, file := range files {
		close(b.coming[file])
		delete(b.coming, file)
	}
}

// Doubt implements [backend.Doubter].
func (b *Blocks) Doubt(key string, offset, length int64) bool {
	dropped := false
	for block := offset / Size; block*Size < offset+length; block++ {
		dropped = os.Remove(b.file(key, block)) == nil || dropped
	}
	return dropped
}
