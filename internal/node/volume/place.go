package volume

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/muster-dev/muster/internal/node/admission"
	"github.com/muster-dev/muster/internal/osfile"
)

// laid is a mount of the plain tier: a link at a path, which leads to a path below a folder.
type laid struct {
	at        string
	volume    Volume
	base, sub string
}

// place makes target a link to source. A link that is there already and leads
// to the same place is left, since the members of a job share their code
// folder.
//
// The node may be root, and programs of the pod write to the folders above the link. So the link is
// made below the pod's root, or in a folder of the pod that is mounted there, and no link of a
// program is followed.
func (r *Request) place(source, target string) error {
	base, rel, err := r.outer(target)
	if err != nil {
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

// outer returns the folder in which the link for a target is made, and the target's path below it.
func (r *Request) outer(target string) (base, rel string, err error) {
	if target == r.Root || !admission.Below(target, r.Root) {
		return "", "", fmt.Errorf("%s is not below the pod's root; choose a mountPath below it", target)
	}
	base, rel = r.Root, strings.TrimPrefix(target, r.Root+"/")
	within := r.Root
	for i := range r.laid {
		m := &r.laid[i]
		if m.at == target || !admission.Below(target, m.at) || !admission.Below(m.at, within) {
			continue
		}
		if !m.volume.Own {
			return "", "", fmt.Errorf("%s lies in a volume that is not the pod's own; choose another mountPath", target)
		}
		within, base, rel = m.at, m.base, path.Join(m.sub, strings.TrimPrefix(target, m.at+"/"))
	}
	return base, rel, nil
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
