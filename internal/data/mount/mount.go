package mount

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/internal/data"
)

// Options say what is mounted where. View and Point are required.
type Options struct {
	// View is the commit. It has to stay as long as the mount.
	View *data.View
	// Path is which part: a folder, whose content is shown, or a file, which is the
	// only one shown; no pattern. Default: all.
	Path string
	// Point is a folder that is there.
	Point string
	// Memory is how many bytes of chunks are kept. Default: 64 MiB.
	Memory int64
	// Patience is for how long a read is tried again that fails for a reason that may
	// pass. Default: a minute.
	Patience time.Duration
	// Log hears of what cannot be read. Default: nobody.
	Log *slog.Logger
}

const (
	// memory and patience are the defaults.
	memory   = 64 << 20
	patience = time.Minute
	// requestBytes is how much the kernel asks for at once, at most.
	requestBytes = 1 << 20
	// inBackground is how many requests the kernel makes ahead of readers.
	inBackground = 64
	// kind is what the file system is called in the table of mounts, behind "fuse.".
	kind = "muster"
	// flags are those of a mount.
	flags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_RDONLY
)

// Mount is a part of a commit that is mounted.
type Mount struct {
	point  string
	system *system
	server *fuse.Server
	done   chan struct{}
}

// Open mounts, and serves until somebody unmounts. The error wraps
// [fs.ErrNotExist] where the commit has no such path.
func Open(ctx context.Context, o Options) (*Mount, error) {
	o.complete()
	point, err := filepath.Abs(o.Point)
	if err != nil {
		return nil, fmt.Errorf("finding the folder to mount at: %w", err)
	}
	if err := Available(); err != nil {
		return nil, err
	}
	s, err := newSystem(ctx, o)
	if err != nil {
		return nil, err
	}
	server, err := fuse.NewServer(s, point, options(o))
	if err != nil {
		s.end()
		return nil, fmt.Errorf("mounting at %s: %w", point, err)
	}
	m := run(s, server, point)
	// The kernel learns that it need not ask us whether a file can be read yet: a
	// reader in this process would wait in that question with all that is needed for
	// the answer.
	if err := server.WaitMount(); err != nil {
		_, closing := m.Close()
		return nil, fmt.Errorf("mounting at %s: %w", point, errors.Join(err, closing))
	}
	m.readFurtherAhead()
	return m, nil
}

// options are what the kernel and the library are told.
func options(o Options) *fuse.MountOptions {
	f := &fuse.MountOptions{
		Name: kind, FsName: "muster-data-" + o.View.Commit().ID.Short(),
		MaxWrite: requestBytes, MaxBackground: inBackground,
		EnableSymlinkCaching: true, ExplicitDataCacheControl: true, DisableXAttrs: true,
		ExtraCapabilities: fuse.CAP_READDIRPLUS_AUTO,
		Options:           []string{"default_permissions"},
		Logger:            log.New(lines{o.Log}, "", 0),
	}
	if os.Geteuid() == 0 {
		f.DirectMountStrict, f.DirectMountFlags = true, flags
		f.AllowOther = true // containers run as anybody
	} else {
		f.Options = append(f.Options, "ro")
	}
	return f
}

// lines has a library's lines in a log.
type lines struct{ log *slog.Logger }

// Write implements [io.Writer].
func (l lines) Write(p []byte) (int, error) {
	l.log.Warn("serving a mount", "said", string(p))
	return len(p), nil
}

// readFurtherAhead has the kernel ask for whole requests ahead of readers instead of
// 128 KiB, where it lets us; it is only slower otherwise.
func (m *Mount) readFurtherAhead() {
	var st unix.Stat_t
	if unix.Stat(m.point, &st) != nil {
		return
	}
	knob := fmt.Sprintf("/sys/class/bdi/%d:%d/read_ahead_kb", unix.Major(st.Dev), unix.Minor(st.Dev))
	_ = os.WriteFile(knob, fmt.Append(nil, requestBytes>>10), 0)
}

// Point is where it is mounted, as an absolute path.
func (m *Mount) Point() string { return m.point }

// Usage is how much is shown.
func (m *Mount) Usage() data.Usage { return m.system.usage }

// Done is closed once it is unmounted and nobody has anything open in it any more.
func (m *Mount) Done() <-chan struct{} { return m.done }

// Close unmounts. Files that are still open are served on, until they are closed or
// this process ends; then held is true.
func (m *Mount) Close() (held bool, err error) {
	err = Unmount(m.point, false)
	if errors.Is(err, unix.EBUSY) {
		return true, Unmount(m.point, true)
	}
	if err == nil || errors.Is(err, unix.EINVAL) { // somebody else did
		<-m.done
		return false, nil
	}
	return false, err
}
