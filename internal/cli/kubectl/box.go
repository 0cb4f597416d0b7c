package kubectl

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/muster-dev/muster/internal/cli/connection"
)

// writeKubeconfig writes a kubeconfig for the Muster of the machine, which only this user
// may read, and returns its path. It has no secret: kubectl runs this program for a
// credential. The caller calls remove, also after an error.
func writeKubeconfig(ctx context.Context, f *connection.Factory) (path string, remove func() error, err error) {
	remove = func() error { return nil }
	program, err := os.Executable()
	if err != nil {
		return "", remove, fmt.Errorf("finding this program: %w", err)
	}
	config, err := f.BoxKubeconfig(ctx, program)
	if err != nil {
		return "", remove, err
	}
	text, err := clientcmd.Write(*config)
	if err != nil {
		return "", remove, fmt.Errorf("writing a kubeconfig: %w", err)
	}
	folder, err := os.MkdirTemp(f.Getenv("XDG_RUNTIME_DIR"), "muster-kubectl-")
	if err != nil { // the variable may be of another user, as after sudo
		folder, err = os.MkdirTemp("", "muster-kubectl-")
	}
	if err != nil {
		return "", remove, fmt.Errorf("making a folder for a kubeconfig: %w", err)
	}
	remove = func() error { return os.RemoveAll(folder) }
	path = filepath.Join(folder, "kubeconfig")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return "", remove, fmt.Errorf("writing a kubeconfig: %w", err)
	}
	return path, remove, nil
}
