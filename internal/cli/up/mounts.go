package up

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-dev/muster/internal/data/mount/roster"

	verb "github.com/muster-dev/muster/internal/cli/data/mount"
)

// mounts are the mounts of pods, each served by a process of this program that does
// not end with it.
type mounts struct {
	roster *roster.Roster
	// source is [roster.Order.Source] for a namespace.
	source func(namespace string) string
}

// openMounts finds the mounts that there are, and takes away those of pods that are
// gone: the folder of a pod is there as long as anything of it is.
func (m *machine) openMounts() (*mounts, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this executable: %w", err)
	}
	r, err := roster.Open(roster.Options{Dir: m.path("mounts"), Server: []string{self, "data", verb.ServerName, string(m.home)}})
	if err != nil {
		return nil, err
	}
	err = r.Sweep(func(pod string) bool {
		_, err := os.Lstat(filepath.Join(m.path("pods"), pod))
		return !os.IsNotExist(err)
	})
	if err != nil {
		m.log.Warn("mounts of earlier pods", "error", err)
	}
	return &mounts{r, m.kept.scope}, nil
}

// Mount implements volume.Mounts.
func (m *mounts) Mount(ctx context.Context, namespace string, pod types.UID, commit, path string) (string, error) {
	return m.roster.Ensure(ctx, string(pod), roster.Order{Source: m.source(namespace), Commit: commit, Path: path})
}

// Forget implements volume.Mounts.
func (m *mounts) Forget(pod types.UID) error { return m.roster.Release(string(pod)) }
