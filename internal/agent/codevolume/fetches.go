package codevolume

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

// fetchWithin bounds one fetch, whoever waits for it.
const fetchWithin = time.Hour

// fetches are those under way, each once however many want it. They go on when
// who asked gives up, and end with the driver.
type fetches struct {
	group singleflight.Group
	life  context.Context //nolint:containedctx // that of the driver, which is longer than any request's
	end   context.CancelFunc

	mu      sync.Mutex
	ended   bool
	running sync.WaitGroup
}

func newFetches() *fetches {
	f := &fetches{}
	f.life, f.end = context.WithCancel(context.Background())
	return f
}

// errEnded is said to who asks a driver that ends.
var errEnded = errors.New("the agent is stopping; it is asked for again")

// begin reports whether a fetch may begin; call running.Done once it has ended.
func (f *fetches) begin() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.ended {
		f.running.Add(1)
	}
	return !f.ended
}

// stop ends all fetches, and waits until they have.
func (f *fetches) stop() {
	f.mu.Lock()
	f.ended = true
	f.mu.Unlock()
	f.end()
	f.running.Wait()
}

// fetch has the tree of a volume.
func (d *depot) fetch(ctx context.Context, v volume) error {
	path := d.tree(v)
	if d.touch(path) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("fetching %s %s: %w", d.what(), v.Digest, err)
	}
	// Who asked first may give up before it is there, and asks again later: it is
	// fetched to its end all the same.
	result := d.fetches.group.DoChan(path, func() (any, error) {
		if !d.fetches.begin() {
			return nil, errEnded
		}
		defer d.fetches.running.Done()
		if d.touch(path) {
			return nil, nil
		}
		within, cancel := context.WithTimeout(d.fetches.life, fetchWithin)
		defer cancel()
		began := d.now()
		d.log.Info("fetching", "namespace", v.Namespace, "digest", v.Digest)
		err := d.fetcher.Fetch(within, v.Namespace, v.Digest, path)
		if err == nil {
			d.log.Info("fetched", "namespace", v.Namespace, "digest", v.Digest, "took", d.now().Sub(began))
		}
		return nil, err
	})
	var err error
	select {
	case r := <-result:
		err = r.Err
	case <-ctx.Done():
		err = fmt.Errorf("it is still on its way: %w", ctx.Err())
	}
	if err != nil {
		return fmt.Errorf("fetching %s %s of namespace %s: %w", d.what(), v.Digest, v.Namespace, err)
	}
	return nil
}
