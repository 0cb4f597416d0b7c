//go:build linux

package environment

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"time"
)

// Interpreter describes the Python that programs of this machine find: python3.
// Its zero value is ready.
type Interpreter struct {
	mu   sync.Mutex
	file os.FileInfo
	path string
	says string
}

// Describe is the version, implementation and platform of the machine's python3.
// It is asked again only once the file is another one.
func (i *Interpreter) Describe(ctx context.Context) (string, error) {
	path, err := exec.LookPath("python3")
	if err != nil {
		return "", fmt.Errorf("looking for the machine's Python: %w", err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("looking for the machine's Python: %w", err)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.path == path && i.file != nil && os.SameFile(i.file, info) && i.file.ModTime().Equal(info.ModTime()) && i.file.Size() == info.Size() {
		return i.says, nil
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	found, err := probe(ctx, path)
	if err != nil {
		return "", err
	}
	i.path, i.file = path, info
	i.says = found.Version + " " + found.Implementation + " " + found.Platform
	return i.says, nil
}
