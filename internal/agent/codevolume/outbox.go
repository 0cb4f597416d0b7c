package codevolume

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/internal/environment/bundle"
)

// Keeper keeps environments that were built on this node.
type Keeper interface {
	// Keep stores a namespace's environment, packed in a file. The error wraps
	// [bundle.ErrUnwanted] where that will never be.
	Keep(ctx context.Context, namespace, digest string, packed bundle.Packed, file string) error
}

const (
	// keepAgain is the pause after an environment could not be delivered.
	keepAgain = 5 * time.Second
	// keepWithin bounds one delivery.
	keepWithin = time.Hour
)

// workbench is the folder in which an environment is built, by whomever the
// container runs as: nobody else sees it. It is empty unless the volume is asked
// for again in the same life of the machine.
func (d *depot) workbench(handle string, again bool) (place, error) {
	builds := filepath.Join(d.dir, "builds")
	path := filepath.Join(builds, handle)
	if !again {
		if err := os.RemoveAll(path); err != nil {
			return place{}, fmt.Errorf("making a folder to build in: %w", err)
		}
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return place{}, fmt.Errorf("making a folder to build in: %w", err)
	}
	if err := os.Chmod(path, 0o777); err != nil {
		return place{}, fmt.Errorf("making a folder to build in: %w", err)
	}
	return place{builds, handle}, nil
}

// finish puts the workbench of a volume that is not mounted any more into the
// outbox, and then its record, which says whose it is. It may be asked for again.
func (d *depot) finish(handle string) error {
	err := os.Rename(filepath.Join(d.dir, "builds", handle), filepath.Join(d.dir, "outbox", handle))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("taking what was built: %w", err)
	}
	if err := os.Rename(d.record(handle), d.outgoing(handle)+".json"); err != nil {
		return fmt.Errorf("taking what was built: %w", err)
	}
	select {
	case d.built <- struct{}{}:
	default:
	}
	return nil
}

func (d *depot) outgoing(handle string) string { return filepath.Join(d.dir, "outbox", handle) }

// deliver brings what is in the outbox to the keeper, until the context ends.
func (d *depot) deliver(ctx context.Context) {
	timer := time.NewTimer(0) // what an earlier agent left
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.built:
		case <-timer.C:
		}
		if d.deliverAll(ctx) {
			timer.Reset(keepAgain)
		}
	}
}

// deliverAll brings everything away once; true if something is left.
func (d *depot) deliverAll(ctx context.Context) (left bool) {
	records, _ := filepath.Glob(filepath.Join(d.dir, "outbox", "*.json")) // the pattern is well formed
	for _, record := range records {
		handle := strings.TrimSuffix(filepath.Base(record), ".json")
		if err := d.deliverOne(ctx, handle); err != nil {
			left = true
			if ctx.Err() == nil {
				d.log.Error("bringing an environment to the store; it is tried again", "build", handle, "error", err)
			}
		}
	}
	return left
}

// deliverOne brings one away. What was never finished, and what nobody wants, is
// dropped.
func (d *depot) deliverOne(ctx context.Context, handle string) error {
	folder := d.outgoing(handle)
	file := folder + ".tar"
	raw, err := os.ReadFile(folder + ".json")
	if err != nil {
		return fmt.Errorf("reading whose it is: %w", err)
	}
	var v volume
	if err := json.Unmarshal(raw, &v); err != nil {
		return fmt.Errorf("reading whose it is: %w", err)
	}
	if v.Boot != "" && v.Boot != d.boot {
		d.log.Info("the machine was started anew since an environment was built: it may not be whole", "namespace", v.Namespace, "key", v.hex())
		return d.dropBuild(handle)
	}
	ctx, cancel := context.WithTimeout(ctx, keepWithin)
	defer cancel()
	packed, err := bundle.Pack(ctx, folder, file)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, fs.ErrNotExist):
		d.log.Info("a build was not finished", "namespace", v.Namespace, "key", v.hex())
		return d.dropBuild(handle)
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return err // of the node's disk; there may be room again
	case err != nil:
		d.log.Error("what was built is no environment", "namespace", v.Namespace, "key", v.hex(), "error", err)
		return d.dropBuild(handle)
	}
	began := d.now()
	err = d.keeper.Keep(ctx, v.Namespace, v.Digest, packed, file)
	if errors.Is(err, bundle.ErrUnwanted) {
		d.log.Error("an environment was not taken", "namespace", v.Namespace, "key", v.hex(), "error", err)
		return d.dropBuild(handle)
	}
	if err != nil {
		return err
	}
	d.log.Info("an environment was brought to the store", "namespace", v.Namespace, "key", v.hex(), "bytes", packed.Size, "took", d.now().Sub(began))
	return d.dropBuild(handle)
}

// dropBuild removes what the outbox has of a build, its record last.
func (d *depot) dropBuild(handle string) error {
	folder := d.outgoing(handle)
	for _, path := range []string{folder, folder + ".tar", folder + ".json"} {
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("removing what was built: %w", err)
		}
	}
	return nil
}
