package put

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/muster-dev/muster/internal/cli/data/meter"
	"github.com/muster-dev/muster/internal/cli/terminal"
)

// errUnknown says that nobody can tell how much is to come.
var errUnknown = errors.New("how much is to come is not known")

// expect finds out beside the put how much is to come, for whoever looks at a bar:
// not where nobody does, and not for what is done before one is shown. It ends
// with the function that it returns.
func (o *options) expect(ctx context.Context, sources []source, bar *meter.Meter) (stop func()) {
	if !terminal.Is(o.factory.Streams.Err) {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		patience := time.NewTimer(terminal.Patience)
		defer patience.Stop()
		select {
		case <-ctx.Done():
			return
		case <-patience.C:
		}
		// What cannot be measured is a put without a time that is left.
		if total, err := measure(ctx, sources); err == nil {
			bar.Expect(total)
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// measure is the size of all sources together.
func measure(ctx context.Context, sources []source) (total int64, err error) {
	for _, s := range sources {
		if s.local == "" || s.kind == stream {
			return 0, errUnknown
		}
		root, err := filepath.EvalSymlinks(s.local)
		if err != nil {
			return 0, fmt.Errorf("measuring what is to be put: %w", err)
		}
		err = filepath.WalkDir(root, func(_ string, e os.DirEntry, err error) error {
			if err != nil || !e.Type().IsRegular() {
				return errors.Join(err, ctx.Err())
			}
			info, err := e.Info()
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err == nil {
				total += info.Size()
			}
			return errors.Join(err, ctx.Err())
		})
		if err != nil {
			return 0, fmt.Errorf("measuring what is to be put: %w", err)
		}
	}
	return total, nil
}
