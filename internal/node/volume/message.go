package volume

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"

	"github.com/muster-dev/muster/internal/node/userfiles"
)

// Message returns the file in which a container of the plain tier leaves its termination message: a
// folder, and the file's path, which lies below it. Programs may put links there. A folder of the pod
// is made for it where it is missing.
func (v *View) Message(ctx context.Context, at string) (base, file string, err error) {
	base, rel, own, err := v.outer(at)
	if err != nil {
		return "", "", fmt.Errorf("finding the termination message: %w", err)
	}
	if own && v.owner != nil && path.Dir(rel) != "." {
		if err := v.owner.MakeAll(ctx, userfiles.Place{Base: base, Below: path.Dir(rel)}, 0o700); err != nil {
			return "", "", fmt.Errorf("making the folder of the termination message: %w", err)
		}
	} else if own && v.owner == nil {
		folder, err := makeBelow(base, path.Dir(rel))
		if err != nil {
			return "", "", fmt.Errorf("making the folder of the termination message: %w", err)
		}
		if err := folder.Close(); err != nil {
			return "", "", fmt.Errorf("making the folder of the termination message: %w", err)
		}
	}
	return base, filepath.Join(base, rel), nil
}

// MakeMessage makes an empty file in a folder of Muster's, to be mounted in a container. Any user may
// write to it.
func MakeMessage(folder, name string) (file string, err error) {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", fmt.Errorf("making the termination message: %w", err)
	}
	file = filepath.Join(folder, name)
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		return "", fmt.Errorf("making the termination message: %w", err)
	}
	if err := os.Chmod(file, 0o666); err != nil { // whatever the umask
		return "", fmt.Errorf("making the termination message: %w", err)
	}
	return file, nil
}
