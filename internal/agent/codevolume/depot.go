package codevolume

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/muster-dev/muster/internal/agent/inline"
	"github.com/muster-dev/muster/internal/osfile"
)

// Fetcher lays a namespace's snapshot out as the new folder dst, <namespace>/<tree> in
// [TreesFolder], all of it or none, verified against its digest. It makes the folder of the
// namespace.
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
	// boot is which of the machine's lives this is: what was written in another
	// one is not known to be whole.
	boot string
	// pods is the kubelet's folder of pods.
	pods string
	keep time.Duration
	now  func() time.Time
	log  *slog.Logger

	errands *inline.Errands
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
	// Boot is in which of the machine's lives it was asked for; empty: by an agent
	// that did not say so.
	Boot string `json:"boot,omitempty"`
	// Copy is the empty volume of the pod, whose UID Pod is, that holds its copy
	// of the code. Empty: it sees the tree, and cannot write to it.
	Copy string `json:"copy,omitempty"`
	Pod  string `json:"pod,omitempty"`
}

var (
	digests = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
	names   = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
	trees   = regexp.MustCompile(`^[0-9a-f]{64}(?:\.([0-9a-f]+))?$`)
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
	case v.Copy != "" && (!names.MatchString(v.Copy) || !names.MatchString(v.Pod)):
		return fmt.Errorf("the attribute copy is %q, of pod %q: give the name of an emptyDir of the pod", v.Copy, v.Pod)
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

// treesName is the folder of trees. The process that fetches writes to it: nothing in it is
// opened through links.
const treesName = "trees"

// tree is where the tree of a volume is: for as long as the machine runs, since
// nothing is synced, and after a loss of power a file may be there and empty.
func (d *depot) tree(v volume) string {
	return filepath.Join(d.dir, treesName, v.treeName())
}

// treeName is the path of the tree of a volume in the folder of trees.
func (v volume) treeName() string {
	name := v.hex()
	if v.Boot != "" {
		name += "." + v.Boot
	}
	return v.Namespace + "/" + name
}

// checkout is the copy that earlier agents made for all members of a job.
func (d *depot) checkout(v volume) string {
	return filepath.Join(d.dir, "checkouts", v.Namespace+"."+v.Owner+"."+v.hex()[:16])
}

func (d *depot) record(handle string) string { return filepath.Join(d.dir, "volumes", handle+".json") }

func (d *depot) prepare() error {
	for _, name := range []string{treesName, "checkouts", "volumes", "builds", "outbox"} {
		if err := osfile.MakeFolder(filepath.Join(d.dir, name), 0o700); err != nil {
			return fmt.Errorf("making the folders of code: %w", err)
		}
	}
	return nil
}

// touch notes that the tree of a volume is needed; false if it is not there.
func (d *depot) touch(v volume) bool {
	tree, err := d.openTree(v)
	if err != nil {
		return false
	}
	defer func() { _ = tree.Close() }()
	now := d.now()
	return tree.Chtimes(".", now, now) == nil
}

// openTree opens the tree of a volume.
func (d *depot) openTree(v volume) (*os.Root, error) {
	trees, err := os.OpenRoot(filepath.Join(d.dir, treesName))
	if err != nil {
		return nil, err
	}
	defer func() { _ = trees.Close() }()
	namespace, name := path.Split(v.treeName())
	folder, err := osfile.OpenFolder(trees, path.Clean(namespace))
	if err != nil {
		return nil, err
	}
	defer func() { _ = folder.Close() }()
	return osfile.OpenFolder(folder, name)
}

// place is a folder that a volume shows: below is its path in top. Only the agent and the
// kubelet can replace top.
type place struct{ top, below string }

// open records a volume, and returns what it shows: the tree itself, to which
// nobody writes; of code that may be written to the pod's own copy, which it makes;
// of a build a workbench. The tree must be there.
func (d *depot) open(ctx context.Context, handle string, v volume) (place, error) {
	again, err := d.note(handle, v)
	if err != nil {
		return place{}, fmt.Errorf("recording volume %s: %w", handle, err)
	}
	switch {
	case v.Build:
		return d.workbench(handle, again)
	case v.Copy == "":
		return place{filepath.Join(d.dir, treesName), v.treeName()}, nil
	}
	return d.copy(ctx, v, again)
}

// note records a volume: from then on what it needs stays. It reports whether it
// was recorded before, in this life of the machine.
func (d *depot) note(handle string, v volume) (again bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	before, err := d.volume(handle)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return false, err
	}
	return before.Boot == v.Boot, osfile.Replace(d.record(handle), raw, 0o600)
}

// close forgets a volume that is not mounted any more, and the checkout of an
// earlier agent if no other volume shows it. A pod's own copy goes with the volume
// that it is in.
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
		if v.Boot == "" && d.checkout(v) == path {
			return nil
		}
	}
	if err := os.RemoveAll(path); err != nil {
		return fmt.Errorf("removing a checkout: %w", err)
	}
	return nil
}

// volume reads a record.
func (d *depot) volume(handle string) (volume, error) {
	var v volume
	raw, err := os.ReadFile(d.record(handle))
	if err == nil {
		err = json.Unmarshal(raw, &v)
	}
	if err != nil {
		return v, fmt.Errorf("reading the record of volume %s: %w", handle, err)
	}
	return v, nil
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
		if out[handle], err = d.volume(handle); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// tidy removes what nobody needs: volumes whose targets are gone, checkouts that
// none shows, what a crash left half made, and trees that no volume shows and that
// are of an earlier life of the machine, or were not needed for a while.
func (d *depot) tidy() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	all, err := d.volumes()
	if err != nil {
		return err
	}
	if err := d.forget(all); err != nil {
		return err
	}
	errs := []error{d.tidyTrees(all)}
	for _, path := range glob(d.dir, "builds", "*") {
		if _, known := all[filepath.Base(path)]; !known {
			errs = append(errs, os.RemoveAll(path))
		}
	}
	for _, path := range glob(d.dir, "checkouts", "*") {
		errs = append(errs, d.drop(path, all))
	}
	return errors.Join(errs...)
}

// gone is the prefix of the names of trees that are being removed.
const gone = ".gone-"

// tidyTrees renames unused trees: no volume shows them, and they are of an earlier boot of the
// machine or were not used for a while. It follows no link. removeTrees removes them.
func (d *depot) tidyTrees(all map[string]volume) error {
	needed := map[string]bool{}
	for _, v := range all {
		needed[v.treeName()] = true
	}
	return d.eachTree(func(folder *os.Root, namespace string, e fs.DirEntry) error {
		if strings.HasPrefix(e.Name(), gone) || needed[namespace+"/"+e.Name()] {
			return nil
		}
		info, err := folder.Lstat(e.Name())
		if errors.Is(err, fs.ErrNotExist) {
			return nil // the fetcher has renamed it, or removed it
		}
		if err != nil || !d.past(e.Name()) && d.now().Sub(info.ModTime()) < d.keep {
			return err
		}
		return folder.Rename(e.Name(), gone+rand.Text())
	})
}

// removeTrees removes the trees that tidyTrees renamed. It holds no lock, since it may take long.
func (d *depot) removeTrees(ctx context.Context) error {
	return d.eachTree(func(folder *os.Root, _ string, e fs.DirEntry) error {
		if err := ctx.Err(); err != nil || !strings.HasPrefix(e.Name(), gone) {
			return err
		}
		return folder.RemoveAll(e.Name())
	})
}

// eachTree visits the entries of the folders of namespaces. It removes files beside them.
func (d *depot) eachTree(visit func(folder *os.Root, namespace string, e fs.DirEntry) error) error {
	trees, err := os.OpenRoot(filepath.Join(d.dir, treesName))
	if err != nil {
		return fmt.Errorf("looking for unused code: %w", err)
	}
	defer func() { _ = trees.Close() }()
	return osfile.Each(trees, func(namespace fs.DirEntry) error {
		if !namespace.IsDir() {
			return trees.Remove(namespace.Name())
		}
		folder, err := osfile.OpenFolder(trees, namespace.Name())
		if err != nil {
			return err
		}
		err = osfile.Each(folder, func(e fs.DirEntry) error { return visit(folder, namespace.Name(), e) })
		return errors.Join(err, folder.Close())
	})
}

// forget takes the volumes whose targets are gone out of all.
func (d *depot) forget(all map[string]volume) error {
	for handle, v := range all {
		if _, err := os.Stat(filepath.Dir(v.Target)); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var err error
		if v.Build {
			err = d.finish(handle)
		} else {
			err = os.Remove(d.record(handle))
		}
		if err != nil {
			return fmt.Errorf("forgetting volume %s: %w", handle, err)
		}
		delete(all, handle)
	}
	return nil
}

// past reports whether a tree is of an earlier life of the machine; nothing that
// is being made is called so.
func (d *depot) past(name string) bool {
	parts := trees.FindStringSubmatch(name)
	return parts != nil && parts[1] != d.boot
}

// glob lists what is there, names that begin with a dot included.
func glob(elements ...string) []string {
	found, _ := filepath.Glob(filepath.Join(elements...)) // the pattern is well formed
	hidden, _ := filepath.Glob(filepath.Join(append(elements[:len(elements)-1:len(elements)-1], "."+elements[len(elements)-1])...))
	return append(found, hidden...)
}
