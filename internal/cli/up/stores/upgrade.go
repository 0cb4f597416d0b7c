package stores

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/muster-dev/muster/internal/cli/data/opening"
	"github.com/muster-dev/muster/internal/data/warehouse"
	"github.com/muster-dev/muster/internal/node/shim/contract"
	"github.com/muster-dev/muster/internal/node/shim/lineage"
	"github.com/muster-dev/muster/internal/osfile"
)

// The parts of the data folder of a Muster of one user that an upgrade moves.
const (
	ownCode         = "code"
	ownFetched      = "fetched"
	ownEnvironments = "environments"
	ownPods         = "pods"
	treesFolder     = "trees"
)

// recordFile is the record of an upgrade, in the folder of all stores.
const recordFile = "upgrade.json"

// phase is how far an upgrade is.
type phase string

// The phases.
const (
	// moving: the stores are being moved.
	moving phase = "moving"
	// objects: the stores are moved, the objects of the API are not.
	objects phase = "objects"
	// done: all is moved.
	done phase = "done"
)

// record is written before an upgrade begins: one that was interrupted goes on with it.
type record struct {
	// Namespace is that of the owner.
	Namespace string `json:"namespace"`
	Phase     phase  `json:"phase"`
}

func recordPath(home string) string { return filepath.Join(home, Folder, recordFile) }

func readRecord(home string) (record, error) {
	var r record
	text, err := os.ReadFile(recordPath(home))
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		return r, fmt.Errorf("reading how far the upgrade of %s is: %w", home, err)
	}
	return r, nil
}

func (r record) write(home string) error {
	text, err := json.Marshal(r)
	if err == nil {
		err = osfile.Replace(recordPath(home), text, 0o600)
	}
	if err != nil {
		return fmt.Errorf("noting how far the upgrade of %s is: %w", home, err)
	}
	return nil
}

// Pending is the namespace whose objects an upgrade has not moved yet; empty: there is none.
func Pending(home string) (namespace string, err error) {
	r, err := readRecord(home)
	if r.Phase == done {
		return "", err
	}
	return r.Namespace, err
}

// ErrOneUser is wrapped by the error of [Open] for the data folder of a Muster of one user.
var ErrOneUser = errors.New("it is the data folder of a Muster of one user")

// ErrShared is the error of [CheckSingle], wrapped.
var ErrShared = errors.New("it is the data folder of a Muster that several users share")

// CheckSingle refuses a data folder whose stores are by namespace: a Muster of one user would
// not find what is there.
func CheckSingle(home string) error {
	there, err := os.ReadDir(filepath.Join(home, Folder))
	switch {
	case len(there) > 0: // an upgrade begins with its record
		return fmt.Errorf("%s: %w: start it with --system, or give another folder with --home", home, ErrShared)
	case err == nil:
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("looking at the data folder: %w", err)
	}
	return nil
}

// upgraded refuses a data folder whose stores are, at least in part, those of one user.
func upgraded(home string) error {
	r, err := readRecord(home)
	if err != nil {
		return err
	}
	if r.Phase == moving {
		return fmt.Errorf("%s: %w: its upgrade for namespace %s is not complete: name its user again (--owner)", home, ErrOneUser, r.Namespace)
	}
	for _, name := range []string{ownCode, opening.Folder} {
		_, err := os.Lstat(filepath.Join(home, name))
		switch {
		case err == nil:
			return fmt.Errorf("%s: %w: name the user to whom its code and data go (--owner LOGIN), or give another folder (--home)", home, ErrOneUser)
		case !errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("looking at the data folder: %w", err)
		}
	}
	return nil
}

// Upgrade makes the stores of a Muster of one user those of the namespace of an owner, such
// as u-1000. Nothing else may use the data folder. It refuses while a container of a job
// runs. After an interruption, call it again with the same namespace: every step may be
// repeated, and nothing is in two places. The objects of the API are left to [Pending] and
// [MoveObjects].
//
// 1. Write the record.
// 2. Rename the store of code, and flatten its lists: a depot has no shards of them.
// 3. Rename the store of data, and the uploads that S3 clients have begun.
// 4. Grant the environments that are there.
// 5. Remove copies of data that jobs read: they are fetched again.
// 6. Write that the stores are moved.
func Upgrade(home, namespace string) error {
	return upgrade{home: home, namespace: namespace, disk: osDisk{}}.run()
}

// disk is every way in which an upgrade changes the disk, so that tests can stop at each.
type disk interface {
	record(home string, r record) error
	makeFolder(path string) error
	rename(from, to string) error
	removeAll(path string) error
	give(g *Grants, namespace, key string) error
}

// osDisk is the real disk. What it did survives a loss of power.
type osDisk struct{}

func (osDisk) record(home string, r record) error { return r.write(home) }

func (osDisk) makeFolder(path string) error { return osfile.MakeFolder(path, 0o700) }

func (osDisk) rename(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	// The new name first: after a loss of power a file may have both names, never none.
	return errors.Join(osfile.SyncFolder(filepath.Dir(to)), osfile.SyncFolder(filepath.Dir(from)))
}

func (osDisk) removeAll(path string) error {
	if err := os.RemoveAll(path); err != nil {
		return err
	}
	return osfile.SyncFolder(filepath.Dir(path))
}

func (osDisk) give(g *Grants, namespace, key string) error { return g.Give(namespace, key) }

type upgrade struct {
	home, namespace string
	disk            disk
}

func (u upgrade) path(parts ...string) string {
	return filepath.Join(append([]string{u.home}, parts...)...)
}

func (u upgrade) run() error {
	r, err := u.admit()
	if err != nil || r.Phase == objects || r.Phase == done {
		return err
	}
	if err := u.disk.makeFolder(u.path(Folder)); err != nil {
		return fmt.Errorf("making the folder of all stores: %w", err)
	}
	if r.Phase == "" {
		if err := u.disk.record(u.home, record{u.namespace, moving}); err != nil {
			return err
		}
	}
	for _, step := range []struct {
		what string
		do   func() error
	}{{"code", u.code}, {"data", u.data}, {"environments", u.environments}} {
		if err := step.do(); err != nil {
			return fmt.Errorf("moving the %s of %s to namespace %s: %w", step.what, u.home, u.namespace, err)
		}
	}
	if err := u.disk.removeAll(u.path(ownFetched)); err != nil {
		return fmt.Errorf("removing copies of data: %w", err)
	}
	return u.disk.record(u.home, record{u.namespace, objects})
}

// admit refuses an upgrade that cannot be, and returns how far an earlier one is.
func (u upgrade) admit() (record, error) {
	if !strings.HasPrefix(u.namespace, "u-") || (grant{u.namespace, "x"}).check() != nil {
		return record{}, fmt.Errorf("%s is the data folder of a Muster of one user: name the user who owns what is there, whose namespace is u-<uid>, and not %q", u.home, u.namespace)
	}
	r, err := readRecord(u.home)
	if err != nil {
		return r, err
	}
	if r.Namespace != "" && r.Namespace != u.namespace {
		return r, fmt.Errorf("the upgrade of %s for namespace %s has begun: name that owner, and not the one of %s", u.home, r.Namespace, u.namespace)
	}
	running, err := running(u.path(ownPods))
	if err != nil {
		return r, err
	}
	if running > 0 && r.Phase != objects && r.Phase != done {
		return r, fmt.Errorf("%d containers of jobs still run in %s: stop them with `muster down --stop-jobs`, then upgrade", running, u.home)
	}
	return r, nil
}

// move renames a file or folder. Either of the two is there, or none.
func (u upgrade) move(from, to string) error {
	_, err := os.Lstat(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := os.Lstat(to); err == nil {
		return fmt.Errorf("%s and %s are both there: keep the one with your files, and move the other away", from, to)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := u.disk.makeFolder(filepath.Dir(to)); err != nil {
		return err
	}
	err = u.disk.rename(from, to)
	if errors.Is(err, syscall.EXDEV) {
		return fmt.Errorf("%s is on another disk than %s: move it there under the name %s, then upgrade again: %w", from, u.home, to, err)
	}
	return err
}

// code moves the store of code.
func (u upgrade) code() error {
	to := u.path(Folder, codeFolder, u.namespace)
	if err := u.move(u.path(ownCode), to); err != nil {
		return err
	}
	// What a depot does not have: indexes of folders and unfinished files.
	for _, name := range []string{"index", "tmp", "lock"} {
		if _, err := os.Lstat(filepath.Join(to, name)); err != nil {
			continue
		}
		if err := u.disk.removeAll(filepath.Join(to, name)); err != nil {
			return err
		}
	}
	trees := filepath.Join(to, treesFolder)
	shards, err := os.ReadDir(trees)
	if err != nil {
		return ignoreMissing(err)
	}
	for _, shard := range shards {
		if !shard.IsDir() {
			continue // a list that was moved before
		}
		if err := u.flatten(trees, shard.Name()); err != nil {
			return err
		}
	}
	return nil
}

// flatten moves the lists of a shard up.
func (u upgrade) flatten(trees, shard string) error {
	lists, err := os.ReadDir(filepath.Join(trees, shard))
	if err != nil {
		return err
	}
	for _, list := range lists {
		// Both names have the same content: the name is its hash.
		if err := u.disk.rename(filepath.Join(trees, shard, list.Name()), filepath.Join(trees, list.Name())); err != nil {
			return err
		}
	}
	return u.disk.removeAll(filepath.Join(trees, shard))
}

// data moves the store of data.
func (u upgrade) data() error {
	own, to := u.path(opening.Folder), filepath.Join(opening.SharedData(u.home), u.namespace)
	if err := u.move(filepath.Join(own, opening.StoreFolder), to); err != nil {
		return err
	}
	// Parts of files that S3 clients have begun are beside the store there, and in it here.
	uploads := strings.TrimSuffix(warehouse.Uploads, "/")
	if err := u.move(filepath.Join(own, uploads), filepath.Join(to, uploads)); err != nil {
		return err
	}
	left, err := os.ReadDir(own)
	if err != nil {
		return ignoreMissing(err)
	}
	for _, e := range left {
		if !slices.Contains([]string{opening.CacheFolder, ".incoming"}, e.Name()) {
			return fmt.Errorf("%s is nothing of Muster's: move it out of the data folder", filepath.Join(own, e.Name()))
		}
	}
	return u.disk.removeAll(own)
}

// environments grants the namespace those that are built.
func (u upgrade) environments() error {
	built, err := os.ReadDir(u.path(ownEnvironments))
	if err != nil {
		return ignoreMissing(err)
	}
	grants, err := openGrants(u.path(Folder, grantsFolder))
	if err != nil {
		return err
	}
	for _, e := range built {
		if !e.IsDir() || (grant{u.namespace, e.Name()}).check() != nil {
			continue
		}
		if err := u.disk.give(grants, u.namespace, e.Name()); err != nil {
			return err
		}
	}
	return nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// running counts the containers that run, with or without a Muster.
func running(pods string) (n int, err error) {
	err = filepath.WalkDir(pods, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.IsDir() {
			return ignoreMissing(err)
		}
		below, err := filepath.Rel(pods, path)
		if err != nil {
			return err
		}
		parts := strings.Split(below, string(filepath.Separator))
		switch {
		case len(parts) == 2 && parts[1] != "containers":
			return fs.SkipDir // what a pod wrote
		case len(parts) < 4:
			return nil
		}
		alive, err := lives(path)
		if alive {
			n++
		}
		if err != nil {
			return fmt.Errorf("finding out whether a container of a job runs: %w", err)
		}
		return fs.SkipDir
	})
	return n, err
}

// lives says whether the shim of a container lives.
func lives(dir string) (bool, error) {
	text, err := os.ReadFile(filepath.Join(dir, contract.IdentityFile))
	if err != nil {
		return false, ignoreMissing(err)
	}
	var id contract.Identity
	if err := json.Unmarshal(text, &id); err != nil {
		return false, err
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return false, err
	}
	if strings.TrimSpace(string(boot)) != id.Boot {
		return false, nil
	}
	stat, err := lineage.Read(id.PID)
	if err != nil {
		return false, ignoreMissing(err)
	}
	return stat.StartTicks == id.StartTicks && stat.State != 'Z', nil
}
