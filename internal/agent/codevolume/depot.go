package codevolume

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

// fetchWithin bounds one fetch, whoever waits for it.
const fetchWithin = time.Hour

// Fetcher lays a namespace's snapshot out as the new folder dst, all of it or
// none, verified against its digest.
type Fetcher interface {
	Fetch(ctx context.Context, namespace, digest, dst string) error
}

// depot is what a node keeps of code, or of environments.
type depot struct {
	dir     string
	fetcher Fetcher
	// keeper takes what was built here. Nil: it is code.
	keeper Keeper
	// built has something whenever a build has ended.
	built chan struct{}
	keep  time.Duration
	now   func() time.Time
	log   *slog.Logger

	fetches singleflight.Group
	// mu is held while volumes come and go; not while code is fetched.
	mu sync.Mutex
}

// volume is what a pod asked for, and its record.
type volume struct {
	Namespace string `json:"namespace"`
	Digest    string `json:"digest"`
	// Owner is the job, or the pod of one that names none.
	Owner  string `json:"owner"`
	Target string `json:"target"`
	// Build says that the pod builds the environment that the digest is the key
	// of.
	Build bool `json:"build,omitempty"`
}

var (
	digests = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
	names   = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
	handles = regexp.MustCompile(`^[A-Za-z0-9][-A-Za-z0-9_.]{0,250}$`)
)

// check refuses what would be a path of somebody else's.
func (v volume) check() error {
	switch {
	case !digests.MatchString(v.Digest):
		return fmt.Errorf("the attribute says %q: give the digest of a snapshot (snapshot: sha256: and 64 hexadecimal digits) or the key of an environment (key: the digits alone)", v.Digest)
	case !names.MatchString(v.Namespace):
		return fmt.Errorf("the pod's namespace is %q: does the CSIDriver object say podInfoOnMount?", v.Namespace)
	case !names.MatchString(v.Owner):
		return fmt.Errorf("the attribute job is %q: give the job's UID", v.Owner)
	case !filepath.IsAbs(v.Target) || filepath.Clean(v.Target) != v.Target:
		return fmt.Errorf("the target path is %q: give a whole path", v.Target)
	}
	return nil
}

// what is kept here, for a person.
func (d *depot) what() string {
	if d.keeper != nil {
		return "environment"
	}
	return "code"
}

func (v volume) hex() string { return strings.TrimPrefix(v.Digest, "sha256:") }

func (d *depot) tree(v volume) string {
	return filepath.Join(d.dir, "trees", v.Namespace, v.hex())
}

func (d *depot) checkout(v volume) string {
	return filepath.Join(d.dir, "checkouts", v.Namespace+"."+v.Owner+"."+v.hex()[:16])
}

func (d *depot) record(handle string) string { return filepath.Join(d.dir, "volumes", handle+".json") }

func (d *depot) prepare() error {
	for _, name := range []string{"trees", "checkouts", "volumes", "builds", "outbox"} {
		if err := os.MkdirAll(filepath.Join(d.dir, name), 0o700); err != nil {
			return fmt.Errorf("making the folders of code: %w", err)
		}
	}
	return nil
}

// fetch has the tree of a volume, once however many want it.
func (d *depot) fetch(ctx context.Context, v volume) error {
	path := d.tree(v)
	if d.touch(path) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("fetching %s %s: %w", d.what(), v.Digest, err)
	}
	// Who asked first may give up before it is there, and asks again later: it is
	// fetched to its end all the same.
	life := context.WithoutCancel(ctx)
	result := d.fetches.DoChan(path, func() (any, error) {
		if d.touch(path) {
			return nil, nil
		}
		ctx, cancel := context.WithTimeout(life, fetchWithin)
		defer cancel()
		began := d.now()
		d.log.Info("fetching", "namespace", v.Namespace, "digest", v.Digest)
		err := d.fetcher.Fetch(ctx, v.Namespace, v.Digest, path)
		if err == nil {
			d.log.Info("fetched", "namespace", v.Namespace, "digest", v.Digest, "took", d.now().Sub(began))
		}
		return nil, err
	})
	var err error
	select {
	case r := <-result:
		err = r.Err
	case <-ctx.Done():
		err = fmt.Errorf("it is still on its way: %w", ctx.Err())
	}
	if err != nil {
		return fmt.Errorf("fetching %s %s of namespace %s: %w", d.what(), v.Digest, v.Namespace, err)
	}
	return nil
}

// touch notes that a tree is needed; false if it is not there.
func (d *depot) touch(path string) bool {
	now := d.now()
	return os.Chtimes(path, now, now) == nil
}

// open records a volume, and returns what it shows: of code a checkout, which it
// makes; of an environment the tree itself, since nobody writes to it; of a build
// a workbench. The tree must be there.
func (d *depot) open(handle string, v volume) (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	raw, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("recording volume %s: %w", handle, err)
	}
	if err := writeWhole(d.record(handle), raw); err != nil {
		return "", fmt.Errorf("recording volume %s: %w", handle, err)
	}
	switch {
	case v.Build:
		return d.workbench(handle)
	case d.keeper != nil:
		return d.tree(v), nil
	}
	path := d.checkout(v)
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	temp, err := os.MkdirTemp(filepath.Join(d.dir, "checkouts"), ".new-")
	if err != nil {
		return "", fmt.Errorf("checking out %s: %w", v.Digest, err)
	}
	defer func() { _ = os.RemoveAll(temp) }() // does nothing once it is renamed
	if err := copyTree(d.tree(v), temp); err != nil {
		return "", fmt.Errorf("checking out %s: %w", v.Digest, err)
	}
	if err := os.Rename(temp, path); err != nil {
		return "", fmt.Errorf("checking out %s: %w", v.Digest, err)
	}
	return path, nil
}

// close forgets a volume that is not mounted any more, and its checkout if no
// other volume shows it.
func (d *depot) close(handle string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	all, err := d.volumes()
	if err != nil {
		return err
	}
	v, known := all[handle]
	if !known {
		return nil
	}
	if v.Build {
		return d.finish(handle)
	}
	if err := os.Remove(d.record(handle)); err != nil {
		return fmt.Errorf("forgetting volume %s: %w", handle, err)
	}
	delete(all, handle)
	return d.drop(d.checkout(v), all)
}

// drop removes a checkout that no volume shows.
func (d *depot) drop(path string, all map[string]volume) error {
	for _, v := range all {
		if d.checkout(v) == path {
			return nil
		}
	}
	if err := os.RemoveAll(path); err != nil {
		return fmt.Errorf("removing a checkout: %w", err)
	}
	return nil
}

// volumes are all that are recorded, by their handles.
func (d *depot) volumes() (map[string]volume, error) {
	entries, err := os.ReadDir(filepath.Join(d.dir, "volumes"))
	if err != nil {
		return nil, fmt.Errorf("reading the records of volumes: %w", err)
	}
	out := map[string]volume{}
	for _, e := range entries {
		handle, ok := strings.CutSuffix(e.Name(), ".json")
		if !ok {
			continue
		}
		raw, err := os.ReadFile(d.record(handle))
		if err != nil {
			return nil, fmt.Errorf("reading the record of volume %s: %w", handle, err)
		}
		var v volume
		if err := json.Unmarshal(raw, &v); err != nil {
			return nil, fmt.Errorf("reading the record of volume %s: %w", handle, err)
		}
		out[handle] = v
	}
	return out, nil
}

// tidy removes what nobody needs: volumes whose targets are gone, checkouts that
// none shows, what a crash left half made, and trees that were not needed for a
// while and that no checkout came from.
func (d *depot) tidy() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	all, err := d.volumes()
	if err != nil {
		return err
	}
	needed := map[string]bool{}
	for handle, v := range all {
		if _, err := os.Stat(filepath.Dir(v.Target)); errors.Is(err, fs.ErrNotExist) {
			if v.Build {
				err = d.finish(handle)
			} else {
				err = os.Remove(d.record(handle))
			}
			if err != nil {
				return fmt.Errorf("forgetting volume %s: %w", handle, err)
			}
			delete(all, handle)
			continue
		}
		needed[d.tree(v)] = true
	}
	var errs []error
	for _, path := range glob(d.dir, "builds", "*") {
		if _, known := all[filepath.Base(path)]; !known {
			errs = append(errs, os.RemoveAll(path))
		}
	}
	for _, path := range glob(d.dir, "checkouts", "*") {
		errs = append(errs, d.drop(path, all))
	}
	for _, path := range glob(d.dir, "trees", "*", "*") {
		info, err := os.Stat(path)
		if err != nil || needed[path] || d.now().Sub(info.ModTime()) < d.keep {
			continue
		}
		errs = append(errs, os.RemoveAll(path))
	}
	return errors.Join(errs...)
}

// glob lists what is there, names that begin with a dot included.
func glob(elements ...string) []string {
	found, _ := filepath.Glob(filepath.Join(elements...)) // the pattern is well formed
	hidden, _ := filepath.Glob(filepath.Join(append(elements[:len(elements)-1:len(elements)-1], "."+elements[len(elements)-1])...))
	return append(found, hidden...)
}
