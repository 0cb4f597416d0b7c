package mount

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// ErrUnservable says of a device that it is of no use, as where somebody has unmounted.
var ErrUnservable = errors.New("the device cannot be served")

// Attach mounts at a folder what whoever has the device that is returned serves, which
// may be another process: nothing in the folder can be looked at until one does, by
// [Serve]. Once nobody has the device any more, whoever looks is told that it is not
// connected.
func Attach(point string) (device *os.File, err error) {
	if err := Available(); err != nil {
		return nil, err
	}
	device, err = os.OpenFile(fuseDevice, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", fuseDevice, err)
	}
	options := fmt.Sprintf("fd=%d,rootmode=%o,user_id=0,group_id=0,max_read=%d,default_permissions,allow_other", device.Fd(), unix.S_IFDIR, requestBytes)
	if err := unix.Mount("muster-data", point, "fuse."+kind, flags, options); err != nil {
		return nil, errors.Join(fmt.Errorf("mounting at %s: %w", point, err), device.Close())
	}
	return device, nil
}

// Serve serves what is mounted already by [Attach], until somebody unmounts. Point is
// not looked at. The device may be closed afterwards. The error wraps [ErrUnservable] where
// another device is needed.
func Serve(ctx context.Context, o Options, device *os.File) (*Mount, error) {
	o.complete()
	s, err := newSystem(ctx, o)
	if err != nil {
		return nil, err
	}
	fd, err := unix.FcntlInt(device.Fd(), unix.F_DUPFD_CLOEXEC, 3) // the library closes its own
	if err != nil {
		s.end()
		return nil, fmt.Errorf("taking over the device of a mount: %w", err)
	}
	told := options(o)
	told.DirectMount, told.DirectMountStrict = false, false
	server, err := fuse.NewServer(s, fmt.Sprintf("/dev/fd/%d", fd), told)
	if err != nil {
		s.end()
		return nil, fmt.Errorf("serving a mount: %w: %w", ErrUnservable, err) // the library has closed fd
	}
	return run(s, server, o.Point), nil
}

// Abandon takes a mount away and ends it, whoever serves it, and whoever waits for an
// answer is told. It does nothing where there is none.
func Abandon(point string) error {
	err := unix.Unmount(point, unix.UMOUNT_NOFOLLOW|unix.MNT_DETACH|unix.MNT_FORCE)
	if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("unmounting %s: %w", point, err)
	}
	return nil
}

// complete fills in the defaults.
func (o *Options) complete() {
	if o.Memory <= 0 {
		o.Memory = memory
	}
	if o.Patience <= 0 {
		o.Patience = patience
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
}

// run serves until somebody unmounts.
func run(s *system, server *fuse.Server, point string) *Mount {
	m := &Mount{point: point, system: s, server: server, done: make(chan struct{})}
	go func() {
		defer close(m.done)
		server.Serve()
		s.end()
	}()
	return m
}
