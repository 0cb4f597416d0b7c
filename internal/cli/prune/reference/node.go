package reference

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/muster-dev/muster/internal/environment/retention"
	"github.com/muster-dev/muster/internal/node/shim/contract"
)

// readNode reads what the node of this machine keeps of pods and jobs. A pod
// may end while it is looked at: what is gone by then refers to nothing.
func readNode(home string, found *retention.References) error {
	// 1. Code that is laid out, by its digest, for as long as a member of the
	// job may come to need it.
	checkouts, err := folders(filepath.Join(home, "jobs"))
	if err != nil {
		return err
	}
	for _, job := range checkouts {
		entries, err := entriesOf(filepath.Join(job, "code"))
		if err != nil {
			return err
		}
		for _, e := range entries {
			found.Mention(e.Name())
		}
	}
	// 2. Pods, also those that no API knows any more.
	pods, err := folders(filepath.Join(home, "pods"))
	if err != nil {
		return err
	}
	for _, pod := range pods {
		if err := readContainers(pod, found); err != nil {
			return err
		}
		if err := readLinks(filepath.Join(pod, "root"), found); err != nil {
			return err
		}
	}
	return nil
}

// readContainers reads what a pod's containers were started with: mounts, and
// variables such as PATH.
func readContainers(pod string, found *retention.References) error {
	containers, err := folders(filepath.Join(pod, "containers"))
	if err != nil {
		return err
	}
	for _, container := range containers {
		attempts, err := folders(container)
		if err != nil {
			return err
		}
		for _, attempt := range attempts {
			spec, err := os.ReadFile(filepath.Join(attempt, contract.SpecFile))
			switch {
			case err == nil:
				found.Mention(string(spec))
			case !errors.Is(err, fs.ErrNotExist):
				return fmt.Errorf("reading what a container runs: %w", err)
			case exists(filepath.Join(attempt, contract.IdentityFile)):
				return fmt.Errorf("reading what a container runs: %s has no %s, and its process may be alive; if it is not, remove that folder", attempt, contract.SpecFile)
			}
		}
	}
	return nil
}

// readLinks reads where the links in a pod's folder lead: the plain tier's
// mounts. Links are not followed.
func readLinks(root string, found *retention.References) error {
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case errors.Is(err, fs.ErrPermission) && e != nil && e.IsDir() && path != root:
			return fs.SkipDir // a pod's own, which Muster has put nothing into
		case err != nil:
			return err
		case e.Type() != fs.ModeSymlink:
			return nil
		}
		target, err := os.Readlink(path)
		if err == nil {
			found.Mention(target)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("reading the mounts of a pod: %w", err)
	}
	return nil
}

// folders lists the folders in a folder, which need not exist.
func folders(dir string) ([]string, error) {
	entries, err := entriesOf(dir)
	var paths []string
	for _, e := range entries {
		if e.IsDir() {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	return paths, err
}

func entriesOf(dir string) ([]fs.DirEntry, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading what the node keeps: %w", err)
	}
	return entries, nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
