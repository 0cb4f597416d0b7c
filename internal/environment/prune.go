//go:build linux

package environment

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/internal/environment/retention"
	"github.com/muster-dev/muster/internal/osfile"
)

// removedDir holds environments on their way out.
const removedDir = ".removed"

// Prune removes the environments in dir that the rule lets go, and what builds
// that never finished left. What is live is noted as used now; what is being
// built, or reserved just now, stays. It may be killed, and the power may go,
// between any two steps: an environment is in its place whole or not at all,
// and what is left over the next call removes. No [Builder] is needed, and one
// that runs, in any process, need not be told.
//
// One call works on a folder at a time; another is an error at once.
func Prune(ctx context.Context, dir string, rule retention.Rule) (retention.Outcome, error) {
	p := &pruning{dir: dir, rule: rule, disk: osDisk{}}
	if err := p.run(ctx); err != nil {
		return p.out, fmt.Errorf("pruning the environments in %s: %w", dir, err)
	}
	return p.out, nil
}

// pruning is one call of Prune.
type pruning struct {
	dir  string
	rule retention.Rule
	disk disk
	out  retention.Outcome
}

// disk is every way in which environments are removed, so that tests can stop
// at each of them.
type disk interface {
	mkdir(path string) error
	rename(from, to string) error
	syncDir(path string) error
	removeAll(path string) error
}

func (p *pruning) run(ctx context.Context) error {
	entries, err := os.ReadDir(p.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // nothing was ever built
	}
	if err != nil {
		return err
	}
	// 1. One at a time, so that nobody counts what another removes.
	bin := filepath.Join(p.dir, removedDir)
	if err := p.disk.mkdir(bin); err != nil {
		return err
	}
	unlock, err := holdDir(bin)
	if err != nil {
		return err
	}
	defer unlock()
	// 2. What an earlier call did not come to.
	if err := p.empty(ctx); err != nil {
		return err
	}
	// 3. One environment after the other: out of its place, then off the disk.
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		if !e.IsDir() || !isKey(e.Name()) {
			continue
		}
		if err := p.consider(e.Name()); err != nil {
			return fmt.Errorf("environment %s: %w", e.Name(), err)
		}
	}
	return p.empty(ctx)
}

// consider moves an environment out of its place if it may go.
func (p *pruning) consider(key string) error {
	home := filepath.Join(p.dir, key)
	held, err := lockHome(home, unix.LOCK_EX)
	if errors.Is(err, errBusy) {
		p.out.Keep(retention.Live) // being built, or reserved
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = held.Close() }()
	_, complete := readyAt(home)
	used, verdict, err := p.judge(key, complete)
	if err != nil {
		return err
	}
	if verdict == retention.Live && !p.rule.DryRun {
		note(home, useFile, p.rule.Now)
	}
	if verdict != retention.Expired {
		p.out.Keep(verdict)
		return nil
	}
	size, err := sizeOf(home)
	if err != nil {
		return err
	}
	if !p.rule.DryRun {
		if err := p.takeOut(key); err != nil {
			return err
		}
	}
	p.out.Bytes += size
	if complete {
		p.out.Removed = append(p.out.Removed, retention.Removed{Name: key, LastUsed: used, Bytes: size})
	}
	return nil
}

// judge is asked with the environment's lock held: nobody reserves it meanwhile.
func (p *pruning) judge(key string, complete bool) (used time.Time, v retention.Verdict, err error) {
	home := filepath.Join(p.dir, key)
	times := map[string]time.Time{}
	for _, name := range []string{".", markerFile, reserveFile, useFile, logFile} {
		info, err := os.Lstat(filepath.Join(home, name))
		if err == nil {
			times[name] = info.ModTime()
		} else if !errors.Is(err, fs.ErrNotExist) {
			return used, v, err
		}
	}
	if !complete {
		changed := later(times["."], times[logFile])
		if p.rule.Live.Has(key) {
			// A job waits for it, and a build may begin at any time.
			return changed, retention.Live, nil
		}
		return changed, p.rule.Unfinished(changed), nil
	}
	reserved := later(times[markerFile], times[reserveFile])
	used = later(reserved, times[useFile])
	return used, p.rule.Judge(key, reserved, used), nil
}

// takeOut moves an environment out of its place, for good: not even a loss of
// power brings back its name, with half of its content.
func (p *pruning) takeOut(key string) error {
	bin := filepath.Join(p.dir, removedDir)
	if err := p.disk.rename(filepath.Join(p.dir, key), filepath.Join(bin, key)); err != nil {
		return err
	}
	return errors.Join(p.disk.syncDir(bin), p.disk.syncDir(p.dir))
}

// empty removes what is on its way out. Nobody can reach it any more.
func (p *pruning) empty(ctx context.Context) error {
	if p.rule.DryRun {
		return nil
	}
	bin := filepath.Join(p.dir, removedDir)
	entries, err := os.ReadDir(bin)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := p.disk.removeAll(filepath.Join(bin, e.Name())); err != nil {
			return fmt.Errorf("removing environment %s: %w", e.Name(), err)
		}
	}
	return nil
}

// holdDir locks a folder; call the result to let go.
func holdDir(dir string) (func(), error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = errors.New("environments are being pruned already; wait until that is done, and try again")
		}
		return nil, err
	}
	return func() { _ = f.Close() }, nil
}

// sizeOf sums up the sizes of the files in a folder.
func sizeOf(dir string) (size int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			size += info.Size()
		}
		return err
	})
	return size, err
}

// isKey reports whether a name is that of an environment's folder.
func isKey(name string) bool {
	return len(name) == 64 && strings.Trim(name, "0123456789abcdef") == ""
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// osDisk is the real one.
type osDisk struct{}

func (osDisk) mkdir(path string) error { return os.MkdirAll(path, 0o755) }

func (osDisk) rename(from, to string) error { return os.Rename(from, to) }

func (osDisk) removeAll(path string) error { return os.RemoveAll(path) }

func (osDisk) syncDir(path string) error { return osfile.SyncFolder(path) }
