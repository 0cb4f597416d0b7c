//go:build fuse

package mount

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/internal/data"
)

// TestServingWhatIsGone: a device whose mount somebody has taken away is of no use, which
// is said, and nothing is closed twice: that might be what another one has opened.
func TestServingWhatIsGone(t *testing.T) {
	s, folder, point := newShop(t), t.TempDir(), t.TempDir()
	plant(t, folder)
	view := s.put(data.Folder(folder))
	device, err := Attach(point)
	must(t, err)
	must(t, Abandon(point))
	if _, err := Serve(t.Context(), Options{View: view, Point: point, Log: s.log.log()}, device); !errors.Is(err, ErrUnservable) || errors.Is(err, unix.EBADF) {
		t.Errorf("serving it says %v", err)
	}
	must(t, device.Close())
}
