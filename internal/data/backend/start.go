package backend

import (
	"context"
	"errors"
	"os"
	"sync"
)

// Starter is a backend that gets on with an object of which not all is there yet.
type Starter interface {
	Backend
	// Start begins an object, which nobody finds before it is whole.
	Start(key string) Started
}

// Started is an object on its way. It is for one goroutine, which finishes or drops it.
type Started interface {
	// Grow says how the object begins, which what was said before is the beginning of,
	// and does not wait until that is written. Nobody changes these bytes any more.
	Grow(begins []byte)
	// Finish stores the whole object, as [Backend.Put] does.
	Finish(ctx context.Context, content []byte) error
	// Drop gives it up. After Finish it does nothing.
	Drop()
}

var _ Starter = (*Folder)(nil)

// Start implements [Starter].
func (f *Folder) Start(key string) Started {
	return &growing{folder: f, key: key, temp: f.temp()}
}

// growing is a file that is written while its content grows.
type growing struct {
	folder    *Folder
	key, temp string

	mu     sync.Mutex
	begins []byte
	// writing is closed when nobody writes any more; nil: nobody does.
	writing chan struct{}

	// file is what is written, written how much of it, and failed why no more is. They are
	// those of whoever writes.
	file    *os.File
	written int
	failed  error
}

// Grow implements [Started].
func (g *growing) Grow(begins []byte) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.begins = begins
	if g.writing == nil {
		g.writing = make(chan struct{})
		go g.write(g.writing)
	}
}

// write writes what there is, until there is no more.
func (g *growing) write(done chan struct{}) {
	defer close(done)
	for {
		g.mu.Lock()
		begins := g.begins
		if g.written == len(begins) || g.failed != nil {
			g.writing = nil
			g.mu.Unlock()
			return
		}
		g.mu.Unlock()
		g.append(begins)
	}
}

// append writes what a beginning has more than is written, and has the disk begin with it.
func (g *growing) append(begins []byte) {
	if g.file == nil {
		if g.file, g.failed = os.OpenFile(g.temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644); g.failed != nil {
			return
		}
	}
	from := g.written
	n, err := g.file.Write(begins[from:])
	g.written, g.failed = from+n, err
	beginWriting(g.file, int64(from), int64(n))
}

// wait waits for whoever writes.
func (g *growing) wait() {
	g.mu.Lock()
	writing := g.writing
	g.mu.Unlock()
	if writing != nil {
		<-writing
	}
}

// Finish implements [Started].
func (g *growing) Finish(ctx context.Context, content []byte) error {
	defer g.Drop() // where it does not come to its end
	return g.folder.put(ctx, g.key, g.temp, func(string) error { return g.end(content) }, atOnce)
}

// end writes what is missing; it is on disk then.
func (g *growing) end(content []byte) error {
	g.wait()
	if g.failed == nil {
		g.append(content)
	}
	if g.failed == nil {
		g.failed = g.file.Sync()
	}
	if g.file == nil {
		return g.failed
	}
	err := errors.Join(g.failed, g.file.Close())
	g.file = nil
	return err
}

// Drop implements [Started].
func (g *growing) Drop() {
	if g.wait(); g.file != nil {
		_, _ = g.file.Close(), dropFile(g.temp) // else it is removed once it is old
		g.file = nil
	}
}
