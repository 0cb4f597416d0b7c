package inline

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
)

// Listen makes a socket in a folder that pods are shown, in the place of one that an
// earlier agent left. Anybody who sees it may connect. It is made by a name that is
// short however deep the folder is, and stays when it is closed.
func Listen(ctx context.Context, network, dir, name string) (net.Listener, error) {
	folder, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = folder.Close() }()
	path := filepath.Join(dir, name)
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, network, fmt.Sprintf("/proc/self/fd/%d/%s", folder.Fd(), name))
	if err != nil {
		return nil, err
	}
	listener.(*net.UnixListener).SetUnlinkOnClose(false)
	if err := os.Chmod(path, 0o666); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return listener, nil
}
