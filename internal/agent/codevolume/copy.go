package codevolume

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

const (
	// copyWithin is for how long it is waited for the pod's empty volume, which
	// the kubelet makes at the same time.
	copyWithin = 10 * time.Second
	copyLook   = 10 * time.Millisecond
)

// copyName is the copy in the pod's empty volume.
const copyName = "code"

// copy lays a pod's own copy of a tree out in an empty volume of the pod, where
// it and what is written to it count as the pod's ephemeral storage, and goes with
// it. What an earlier life of the machine left is made anew.
func (d *depot) copy(ctx context.Context, v volume, again bool) (string, error) {
	dir, err := d.emptyVolume(ctx, v)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, copyName)
	if info, err := os.Lstat(path); again && err == nil && info.IsDir() {
		return path, nil
	}
	// Not what a container of the pod may have put there.
	if err := os.RemoveAll(path); err != nil {
		return "", fmt.Errorf("copying %s: %w", v.Digest, err)
	}
	temp, err := os.MkdirTemp(dir, ".new-")
	if err != nil {
		return "", fmt.Errorf("copying %s: %w", v.Digest, err)
	}
	defer func() { _ = os.RemoveAll(temp) }() // does nothing once it is renamed
	if err := copyTree(d.tree(v), temp); err != nil {
		return "", fmt.Errorf("copying %s: %w", v.Digest, err)
	}
	if err := os.Rename(temp, path); err != nil {
		return "", fmt.Errorf("copying %s: %w", v.Digest, err)
	}
	return path, nil
}

// emptyVolume is the folder of the pod's empty volume, once the kubelet has made
// it: one that nobody named in the pod would be in its way.
func (d *depot) emptyVolume(ctx context.Context, v volume) (string, error) {
	const plugin = "kubernetes.io~empty-dir"
	ready := filepath.Join(d.pods, v.Pod, "plugins", plugin, v.Copy, "ready")
	ctx, cancel := context.WithTimeout(ctx, copyWithin)
	defer cancel()
	tick := time.NewTicker(copyLook)
	defer tick.Stop()
	for {
		if info, err := os.Lstat(ready); err == nil && info.Mode().IsRegular() {
			return filepath.Join(d.pods, v.Pod, "volumes", plugin, v.Copy), nil
		}
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("pod %s has no emptyDir %s that a container mounts, for its copy of the code: name one beside the attribute copy, or leave that out and have the code read-only", v.Pod, v.Copy)
		case <-tick.C:
		}
	}
}
