package footprint

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-dev/muster/internal/node/scratch"
	"github.com/muster-dev/muster/internal/node/userfiles"
	"github.com/muster-dev/muster/internal/people/owner"
)

// Folders are the folders of a user in a home.
type Folders struct {
	// Home is the user's home.
	Home userfiles.Home
	// Temporary returns the name of a pod's temporary folder in tmp.
	Temporary func(pod string) string
	// Claims is the folder of root's with the folders of the user's claims; empty: there is none.
	Claims string
	// Environments is the folder of root's with all environments. Those of the user, UID, count.
	Environments string
	UID          uint32
}

// Measurer returns the Measure of [Options] for users with homes. Volumes has a folder of claims for each
// namespace, and environments a folder for each environment; both are root's.
func Measurer(homes *userfiles.Homes, volumes, environments string) func(ctx context.Context, uid uint32) (Usage, error) {
	return func(ctx context.Context, uid uint32) (Usage, error) {
		return Measure(ctx, Folders{
			Home: homes.Kept(uid), Claims: filepath.Join(volumes, owner.Namespace(uid)),
			Environments: environments, UID: uid,
			Temporary: func(pod string) string { return scratch.Name(types.UID(pod)) },
		})
	}
}

// Measure measures the folders, as the user.
func Measure(ctx context.Context, f Folders) (Usage, error) {
	var u Usage
	// Pods come first: their temporary folders have other names.
	pods, err := f.each(ctx, &u, "pods", func(name string) string { return name })
	if err != nil {
		return u, err
	}
	owners := map[string]string{}
	for _, pod := range pods {
		owners[f.Temporary(pod)] = pod
	}
	if _, err := f.each(ctx, &u, "tmp", func(name string) string { return owners[name] }); err != nil {
		return u, err
	}
	if _, err := f.each(ctx, &u, "", func(string) string { return "" }); err != nil {
		return u, err
	}
	return u, errors.Join(f.claims(ctx, &u), f.environments(ctx, &u))
}

// each measures the entries of a folder of the home, and returns their names.
func (f Folders) each(ctx context.Context, u *Usage, folder string, pod func(name string) string) ([]string, error) {
	var names []string
	err := f.Home.List(ctx, f.Home.Place(folder), func(e userfiles.Entry) error {
		if folder != "" || e.Name != "pods" && e.Name != "tmp" {
			names = append(names, e.Name)
		}
		return nil
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, name := range names {
		if err := f.measure(ctx, u, f.Home.Place(folder, name), pod(name)); err != nil {
			return nil, err
		}
	}
	return names, nil
}

func (f Folders) measure(ctx context.Context, u *Usage, at userfiles.Place, pod string) error {
	tree, err := f.Home.Measure(ctx, at)
	switch {
	case errors.Is(err, fs.ErrNotExist): // removed meanwhile
		return nil
	case err != nil:
		return err
	}
	u.add(Tree{Bytes: tree.Bytes, Files: tree.Files, Partial: tree.Partial}, pod)
	return nil
}

// claims measures the claims of the user. The folder that they are in is root's.
func (f Folders) claims(ctx context.Context, u *Usage) error {
	if f.Claims == "" {
		return nil
	}
	list, err := os.ReadDir(f.Claims)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range list {
		at := userfiles.Place{Base: filepath.Join(f.Claims, e.Name()), NoLinks: true, OneMount: true}
		if err := f.measure(ctx, u, at, ""); err != nil && !errors.Is(err, fs.ErrPermission) { // an earlier owner's
			return err
		}
	}
	return nil
}

// environments measures those that were built as the user. Each is a folder of root's, with folders that are
// the user's. Those that users share belong to no user.
func (f Folders) environments(ctx context.Context, u *Usage) error {
	paths, err := filepath.Glob(filepath.Join(f.Environments, "*", "*"))
	if err != nil || f.Environments == "" {
		return err
	}
	for _, path := range paths {
		info, err := os.Lstat(path)
		if err != nil { // removed meanwhile
			continue
		}
		if stat, ok := info.Sys().(*syscall.Stat_t); !ok || stat.Uid != f.UID || !info.IsDir() {
			continue
		}
		// While Muster writes, the user may not enter.
		if err := f.measure(ctx, u, userfiles.Place{Base: path, NoLinks: true, OneMount: true}, ""); err != nil && !errors.Is(err, fs.ErrPermission) {
			return err
		}
	}
	return nil
}
