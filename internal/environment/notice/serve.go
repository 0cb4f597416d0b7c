package notice

import (
	"context"
	"sync"
)

// Serve calls work for each posted key until ctx ends, and returns once all calls have. Each namespace has at
// most wide calls at once, of its own: one with many keys, or slow ones, does not keep others waiting. Run
// has to run meanwhile.
func (b *Board) Serve(ctx context.Context, wide int, namespace func(key string) string, work func(key string)) {
	l := line{wide: wide, parts: map[string]*part{}}
	var workers sync.WaitGroup
	defer workers.Wait()
	for {
		select {
		case <-ctx.Done():
			return
		case key := <-b.out:
			of := namespace(key)
			if !l.join(of, key) {
				continue
			}
			workers.Go(func() {
				for key, ok := l.next(of); ok; key, ok = l.next(of) {
					if ctx.Err() == nil {
						work(key)
					}
				}
			})
		}
	}
}

// line has the keys that no call has taken yet, by namespace.
type line struct {
	// wide is the most workers of one namespace.
	wide int

	mu    sync.Mutex
	parts map[string]*part
}

// part is the line of one namespace.
type part struct {
	waiting []string
	workers int
}

// join adds a key. It reports whether the namespace needs one more worker, which then counts.
func (l *line) join(namespace, id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.parts[namespace]
	if p == nil {
		p = &part{}
		l.parts[namespace] = p
	}
	p.waiting = append(p.waiting, id)
	if p.workers == l.wide {
		return false
	}
	p.workers++
	return true
}

// next takes the oldest key of a namespace. If there is none, the worker that asks counts no more.
func (l *line) next(namespace string) (string, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.parts[namespace]
	if len(p.waiting) == 0 {
		if p.workers--; p.workers == 0 {
			delete(l.parts, namespace)
		}
		return "", false
	}
	id := p.waiting[0]
	p.waiting = p.waiting[1:]
	return id, true
}
