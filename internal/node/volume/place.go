package volume

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/muster-dev/muster/internal/node/admission"
	"github.com/muster-dev/muster/internal/node/userfiles"
	"github.com/muster-dev/muster/internal/osfile"
)

// place makes target a link to source. A link that is there already and leads
// to the same place is left, since the members of a job share their code
// folder.
//
// The node may be root, and programs of the pod write to the folders above the link. So the link is
// made below the pod's root, or in a folder of the pod that is mounted there, and no link of a
// program is followed.
func (v *View) place(ctx context.Context, source, target string) error {
	base, rel, own, err := v.outer(target)
	if err != nil {
		return err
	}
	if !own {
		return fmt.Errorf("%s lies in a volume that is not the pod's own; choose another mountPath", target)
	}
	if v.owner != nil {
		err := v.owner.Link(ctx, userfiles.Place{Base: base, Below: rel}, source)
		if errors.Is(err, os.ErrExist) {
			return fmt.Errorf("%s exists already; choose another mountPath", target)
		}
		return err
	}
	folder, err := makeBelow(base, path.Dir(rel))
	if err != nil {
		return err
	}
	defer func() { _ = folder.Close() }()
	name := path.Base(rel)
	err = folder.Symlink(source, name)
	if !errors.Is(err, os.ErrExist) {
		return err
	}
	if existing, err := folder.Readlink(name); err == nil && existing == source {
		return nil
	}
	return fmt.Errorf("%s exists already; choose another mountPath", target)
}

// outer returns the folder of the pod's root, or of the innermost volume, that a path lies in, the rest
// of the path, and whether the folder is the pod's own. The rest may have links that programs made.
func (v *View) outer(target string) (base, rel string, own bool, err error) {
	if target == v.Root || !admission.Below(target, v.Root) {
		return "", "", false, fmt.Errorf("%s is not below the pod's root; choose a path below it", target)
	}
	base, rel, own = within(v.Links, v.Root, v.Root, target)
	return base, rel, own, nil
}

// within finds the innermost of these mounts that a path lies in: the folder, the rest of the path in it,
// and whether it is the pod's own. Root is the pod's root as the path names it, and folder the real one.
func within(mounts []Link, root, folder, target string) (base, rel string, own bool) {
	base, rel, own = folder, strings.TrimPrefix(target, root+"/"), true
	for i, inner := 0, root; i < len(mounts); i++ {
		l := &mounts[i]
		if l.At == target || !admission.Below(target, l.At) || !admission.Below(l.At, inner) {
			continue
		}
		inner, base, own = l.At, strings.TrimSuffix(l.To, "/"+l.Sub), l.Own
		rel = path.Join(l.Sub, strings.TrimPrefix(target, l.At+"/"))
	}
	return base, rel, own
}

// makeBelow makes the folders of a path below a folder where they are missing, and opens the last one.
// It follows links in the path of the folder, but none below it.
func makeBelow(base, rel string) (*os.Root, error) {
	at, err := os.OpenRoot(base + "/.") // a pipe is not waited for
	if err != nil {
		return nil, err
	}
	for _, name := range strings.Split(filepath.Clean(rel), "/") {
		if name == "." {
			continue
		}
		next, err := enter(at, name)
		_ = at.Close() // it was never read or written
		if err != nil {
			return nil, fmt.Errorf("making %s in %s: %w", rel, base, err)
		}
		at = next
	}
	return at, nil
}

// enter opens a folder in a folder, and makes it if it is not there.
func enter(in *os.Root, name string) (*os.Root, error) {
	if err := in.Mkdir(name, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	return osfile.OpenFolder(in, name)
}
