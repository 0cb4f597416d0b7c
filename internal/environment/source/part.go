package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
)

// Part is a file or folder of a snapshot, apart from all else in it.
type Part struct {
	// Digest names the content: it is that of a snapshot of this file or folder alone.
	Digest string
	// Folder is true for a folder, and Files are the paths of its files below it.
	Folder bool
	Files  []string
}

// ErrNoPart is wrapped by the error for a path that a snapshot does not hold.
var ErrNoPart = errors.New("it is not in the code; ignored files are left out")

// Part returns the file or folder of a stored snapshot at a path; "." is all of it. A
// link is no part, and a part has no link that leads out of it. The error wraps
// [ErrNotStored] where the store does not hold the snapshot.
func (s *Store) Part(digest, at string) (Part, error) {
	t, err := s.readTree(digest)
	if err != nil {
		return Part{}, err
	}
	return t.describe(at)
}

// Part returns the file or folder of the snapshot at a path, as [Store.Part] does.
func (p *Parcel) Part(at string) (Part, error) { return p.tree.describe(at) }

func (t *tree) describe(at string) (Part, error) {
	part, folder, err := t.part(at)
	if err != nil {
		return Part{}, err
	}
	_, name, err := part.encode()
	if err != nil {
		return Part{}, err
	}
	out := Part{Digest: digestPrefix + name, Folder: folder}
	for i := range part.Entries {
		if e := &part.Entries[i]; e.Type == typeFile {
			out.Files = append(out.Files, e.Path)
		}
	}
	return out, nil
}

// part is the tree of a part, and whether that is a folder.
func (t *tree) part(at string) (*tree, bool, error) {
	if at == "." {
		return t, true, t.closed()
	}
	if !safePath(at) {
		return nil, false, fmt.Errorf("%q is no path within the code", at)
	}
	find := func(at string) *entry {
		if i := slices.IndexFunc(t.Entries, func(e entry) bool { return e.Path == at }); i >= 0 {
			return &t.Entries[i]
		}
		return nil
	}
	for dir := path.Dir(at); dir != "."; dir = path.Dir(dir) {
		if e := find(dir); e != nil && e.Type == typeLink {
			return nil, false, fmt.Errorf("%s is a link; give the path of its target, %s", dir, e.Target)
		}
	}
	found := find(at)
	switch {
	case found == nil:
		return nil, false, ErrNoPart
	case found.Type == typeLink:
		return nil, false, fmt.Errorf("it is a link; give the path of its target, %s", found.Target)
	case found.Type == typeFile:
		file := *found
		file.Path = path.Base(at)
		return &tree{Version: treeVersion, Entries: []entry{file}}, false, nil
	}
	out := &tree{Version: treeVersion}
	for i := range t.Entries {
		if below, ok := strings.CutPrefix(t.Entries[i].Path, at+"/"); ok {
			e := t.Entries[i]
			e.Path = below
			out.Entries = append(out.Entries, e)
		}
	}
	return out, true, out.closed()
}

// closed refuses links that lead out of a part: the part does not have their targets.
func (t *tree) closed() error {
	for i := range t.Entries {
		e := &t.Entries[i]
		if e.Type == typeLink && (path.IsAbs(e.Target) || !inside(path.Join(path.Dir(e.Path), e.Target))) {
			return fmt.Errorf("its link %s leads out of it, to %s; copy its target", e.Path, e.Target)
		}
	}
	return t.checkLinks()
}

// CheckoutPart lays a part of a stored snapshot out as the new folder dst, as
// [Store.Checkout] does a whole one. A file is laid out in dst.
func (s *Store) CheckoutPart(ctx context.Context, digest, at, dst string) error {
	unlock, err := s.share()
	if err != nil {
		return err
	}
	defer unlock()
	t, err := s.readTree(digest)
	if err != nil {
		return err
	}
	part, _, err := t.part(at)
	if err == nil {
		err = wholly(dst, func(temp string) error { return part.layOut(ctx, temp, s.copyBlob) })
	}
	if err != nil {
		return fmt.Errorf("laying out %s of code snapshot %s: %w", at, digest, err)
	}
	return nil
}

// Checkout lays the part of the snapshot at a path out as the new folder dst, as
// [Store.CheckoutPart] does, from contents that open opens; "." is all of it. Several are
// read at once.
func (p *Parcel) Checkout(ctx context.Context, at, dst string, open func(context.Context, Content) (io.ReadCloser, error)) error {
	put := func(ctx context.Context, e *entry, root *os.Root) error {
		in, err := open(ctx, Content{Hash: e.Hash, Size: e.Size})
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("the content of %s is missing: %w", e.Path, ErrDamaged)
		}
		if err != nil {
			return err
		}
		defer func() { _ = in.Close() }()
		same, err := e.write(in, root)
		if errors.Is(err, ErrDamaged) || err == nil && !same {
			err = e.damaged()
		}
		return err
	}
	part := &p.tree
	var err error
	if at != "." { // links of a whole snapshot may be absolute
		part, _, err = part.part(at)
	}
	if err == nil {
		err = wholly(dst, func(temp string) error { return part.layOut(ctx, temp, put) })
	}
	if err != nil {
		return fmt.Errorf("laying out %s of code snapshot %s: %w", at, p.digest, err)
	}
	return nil
}
