package source

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/muster-dev/muster/internal/environment/retention"
	"github.com/muster-dev/muster/internal/osfile"
)

const (
	// exclusivePoll is how often it is tried to have the store alone, and
	// exclusivePatience for how long: a script may be being fetched.
	exclusivePoll     = 20 * time.Millisecond
	exclusivePatience = 2 * DefaultFetchTimeout
)

// Prune removes the snapshots that the rule lets go, the contents that no
// snapshot needs any more, and what interrupted writers left. What is live is
// noted as used now. It may be killed, and the power may go, between any two
// steps: what stays is whole, and what is left over the next call removes.
//
// It waits for those who are storing or laying out code just now, and they for
// it: the lock is held while files are removed, not while lists are read. An
// error that concerns what stays is returned before anything is removed.
func (s *Store) Prune(ctx context.Context, rule retention.Rule) (retention.Outcome, error) {
	p := &pruning{store: s, rule: rule, trees: map[string]bool{}, needed: map[[32]byte]bool{}}
	out, err := p.run(ctx)
	if err != nil {
		return out, fmt.Errorf("pruning the code store %s: %w", s.dir, err)
	}
	return out, nil
}

// pruning is one call of Prune.
type pruning struct {
	store *Store
	rule  retention.Rule
	out   retention.Outcome

	// trees are those that are known to stay, by name.
	trees map[string]bool
	// needed are the hashes of the blobs of trees that stay.
	needed map[[32]byte]bool
}

func (p *pruning) run(ctx context.Context) (retention.Outcome, error) {
	// 1. Read the lists of what stays, beside everybody else: it is most of
	// the work, and what stays now stays, since the rule's clock stands still.
	if _, err := p.look(ctx); err != nil {
		return p.out, err
	}
	// 2. Alone with the store: look again, at what was stored or reserved since.
	unlock, err := p.store.exclusive(ctx)
	if err != nil {
		return p.out, err
	}
	defer unlock()
	expired, err := p.look(ctx)
	if err != nil {
		return p.out, err
	}
	// 3. Trees, and only when they are gone for good, blobs.
	if err := p.removeTrees(expired); err != nil {
		return p.out, err
	}
	if err := p.removeBlobs(ctx); err != nil {
		return p.out, err
	}
	return p.out, p.removeRest()
}

// look judges every tree that is not known to stay, and returns the names of
// those that may go.
func (p *pruning) look(ctx context.Context) ([]string, error) {
	names, err := p.store.names(treesDir)
	if err != nil {
		return nil, err
	}
	var expired []string
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if p.trees[name] {
			continue
		}
		verdict, err := p.judge(name)
		if err != nil {
			return nil, err
		}
		if verdict == retention.Expired {
			expired = append(expired, name)
			continue
		}
		if err := p.need(name); errors.Is(err, ErrNotStored) {
			continue // removed meanwhile, by another call with another rule
		} else if err != nil {
			return nil, err
		}
		p.trees[name] = true
		p.out.Keep(verdict)
	}
	return expired, nil
}

func (p *pruning) judge(name string) (retention.Verdict, error) {
	reserved, used, err := p.store.times(name)
	if err != nil {
		return retention.Live, err
	}
	verdict := p.rule.Judge(digestPrefix+name, reserved, used)
	if verdict == retention.Live && !p.rule.DryRun {
		p.store.noteUse(name, p.rule.Now)
	}
	return verdict, nil
}

// need notes the blobs of a tree that stays.
func (p *pruning) need(name string) error {
	t, err := p.store.readTree(digestPrefix + name)
	if err != nil {
		return err
	}
	for i := range t.Entries {
		if e := &t.Entries[i]; e.Type == typeFile {
			hash, err := blobName(e.Hash)
			if err != nil {
				return err
			}
			p.needed[hash] = true
		}
	}
	return nil
}

// removeTrees removes trees so that not even a loss of power brings them back.
func (p *pruning) removeTrees(names []string) error {
	shards := map[string]bool{}
	for _, name := range names {
		reserved, used, err := p.store.times(name)
		if err != nil {
			return err
		}
		if used.Before(reserved) {
			used = reserved
		}
		gone := retention.Removed{Name: digestPrefix + name, LastUsed: used}
		if t, err := p.store.readTree(digestPrefix + name); err == nil {
			for i := range t.Entries {
				gone.Bytes += t.Entries[i].Size
			}
		}
		path := p.store.path(treesDir, name)
		if err := p.remove(path); err != nil {
			return err
		}
		shards[filepath.Dir(path)] = true
		p.out.Removed = append(p.out.Removed, gone)
	}
	if p.rule.DryRun {
		return nil
	}
	for _, shard := range slices.Sorted(maps.Keys(shards)) {
		if err := p.store.disk.syncDir(shard); err != nil {
			return err
		}
	}
	return nil
}

// removeBlobs removes the blobs that no tree needs. Whoever stores writes the
// tree before letting go of the lock, so that a blob without one is nobody's.
func (p *pruning) removeBlobs(ctx context.Context) error {
	names, err := p.store.names(blobsDir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return err
		}
		hash, err := blobName(name)
		if err != nil || p.needed[hash] {
			continue
		}
		if err := p.remove(p.store.path(blobsDir, name)); err != nil {
			return err
		}
	}
	return nil
}

// removeRest removes what only saves time: notes of use without a snapshot,
// indexes of folders that nobody has stored for long, temporary files.
func (p *pruning) removeRest() error {
	uses, err := os.ReadDir(filepath.Join(p.store.dir, usesDir))
	if err != nil {
		return err
	}
	for _, e := range uses {
		if p.trees[e.Name()] {
			continue
		}
		if err := p.remove(filepath.Join(p.store.dir, usesDir, e.Name())); err != nil {
			return err
		}
	}
	indexes, err := os.ReadDir(filepath.Join(p.store.dir, indexDir))
	if err != nil {
		return err
	}
	for _, e := range indexes {
		info, err := e.Info()
		if err != nil {
			return err
		}
		if p.rule.Judge("", info.ModTime(), info.ModTime()) != retention.Expired {
			continue
		}
		if err := p.remove(filepath.Join(p.store.dir, indexDir, e.Name())); err != nil {
			return err
		}
	}
	if p.rule.DryRun {
		return nil
	}
	return p.store.removeTemporary()
}

// remove removes a file, or in a dry run only counts it.
func (p *pruning) remove(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !p.rule.DryRun {
		if err := p.store.disk.remove(path); err != nil {
			return err
		}
	}
	p.out.Bytes += info.Size()
	return nil
}

// names lists what a sharded part of the store holds, in order. Other files
// are not the store's.
func (s *Store) names(part string) ([]string, error) {
	shards, err := os.ReadDir(filepath.Join(s.dir, part))
	if err != nil {
		return nil, err
	}
	var names []string
	for _, shard := range shards {
		entries, err := os.ReadDir(filepath.Join(s.dir, part, shard.Name()))
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if safeHash(e.Name()) && e.Name()[:2] == shard.Name() {
				names = append(names, e.Name())
			}
		}
	}
	return names, nil
}

// times returns when a snapshot was last reserved and last used. One that is
// gone meanwhile was neither.
func (s *Store) times(name string) (reserved, used time.Time, err error) {
	info, err := os.Lstat(s.path(treesDir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return reserved, used, nil
	}
	if err != nil {
		return reserved, used, err
	}
	reserved = info.ModTime()
	info, err = os.Lstat(s.usePath(name))
	switch {
	case err == nil:
		used = info.ModTime()
	case !errors.Is(err, fs.ErrNotExist):
		return reserved, used, err
	}
	return reserved, used, nil
}

func (s *Store) usePath(name string) string { return filepath.Join(s.dir, usesDir, name) }

// noteUse notes that something runs from the snapshot. A note that is lost
// only lets go of it earlier.
func (s *Store) noteUse(name string, at time.Time) {
	path := s.usePath(name)
	if err := s.disk.touch(path, at); !errors.Is(err, fs.ErrNotExist) {
		return
	}
	if os.WriteFile(path, nil, 0o600) == nil {
		_ = s.disk.touch(path, at)
	}
}

// exclusive holds the store alone, against everybody who stores, lays out or
// removes; call the result to let go.
func (s *Store) exclusive(ctx context.Context) (func(), error) {
	patience := time.NewTimer(exclusivePatience)
	defer patience.Stop()
	tick := time.NewTicker(exclusivePoll)
	defer tick.Stop()
	for {
		unlock, err := s.flock(osfile.TryLock)
		if !errors.Is(err, osfile.ErrLocked) {
			return unlock, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-patience.C:
			return nil, fmt.Errorf("somebody has been storing or laying out code for %s; nothing was removed, try again later", exclusivePatience)
		case <-tick.C:
		}
	}
}

// blobName is a blob's hash in half the space.
func blobName(hash string) (name [32]byte, err error) {
	n, err := hex.Decode(name[:], []byte(hash))
	if err == nil && n != len(name) {
		err = fmt.Errorf("%q is not a content's hash", hash)
	}
	return name, err
}
