package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"github.com/muster-dev/muster/internal/data/commit"
	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/tree"
)

// Origin is a path of a commit of a dataset, how it came to be, and where what it was made
// of has its own origin.
type Origin struct {
	Dataset string
	Commit  commit.Commit
	// Path is a file, or a folder; empty: all of it.
	Path string
	Kind tree.Kind
	// Files and Bytes are how much it is.
	Files, Bytes int64
	// Made is how a stage of a pipeline made it; nil: none did, somebody put it there. Its
	// datum is empty where more than a file is meant, or it is not known which it was.
	Made *Trace
	// From are the origins of what it was given.
	From []*Origin
	// Told says that its own origin is told elsewhere in this one.
	Told bool
}

// Origin is that of a path of a commit, down to what nobody's pipeline made. An empty path
// is all of it. The error wraps [fs.ErrNotExist] where the commit has no such path. It
// costs all datums of each stage that it leads through.
func (t *Tracer) Origin(ctx context.Context, dataset string, c commit.Commit, path string) (*Origin, error) {
	return t.origin(ctx, map[spot]bool{}, dataset, c, path)
}

// spot is a path of a commit.
type spot struct {
	commit digest.ID
	path   string
}

func (t *Tracer) origin(ctx context.Context, told map[spot]bool, dataset string, c commit.Commit, path string) (*Origin, error) {
	o := &Origin{Dataset: dataset, Commit: c, Path: path}
	if err := t.measure(ctx, o); err != nil {
		return nil, err
	}
	at := spot{c.ID, path}
	if o.Told = told[at]; o.Told {
		return o, nil
	}
	told[at] = true
	var err error
	if o.Made, err = t.made(ctx, o); err != nil || o.Made == nil {
		return o, err
	}
	says := o.Made.Provenance
	given := o.Made.Given
	if o.Made.Datum == "" {
		for i, used := range says.Inputs {
			given = append(given, Given{Source: i, Input: used.Input})
		}
	}
	for _, g := range given {
		used := says.Inputs[g.Source]
		if used.Commit.IsZero() {
			continue // a time, or nothing that was there
		}
		in, err := t.States.Resolve(ctx, used.Commit.String())
		if err != nil {
			return nil, fmt.Errorf("reading what %s of commit %s was made of: %w", dataset, c.ID.Short(), err)
		}
		from, err := t.origin(ctx, told, used.Dataset, in, g.Path)
		if err != nil {
			return nil, err
		}
		o.From = append(o.From, from)
	}
	return o, nil
}

// measure finds out what is at the path.
func (t *Tracer) measure(ctx context.Context, o *Origin) error {
	if o.Path == "" {
		o.Kind, o.Files, o.Bytes = tree.Folder, o.Commit.Tree.Files, o.Commit.Tree.Bytes
		return nil
	}
	e, err := t.Trees.Get(ctx, o.Commit.Tree, o.Path)
	if err == nil {
		o.Kind, o.Files, o.Bytes = e.Kind, 1, e.Size
		return nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	o.Kind = tree.Folder
	if o.Files, o.Bytes, err = t.Trees.Sum(ctx, o.Commit.Tree, o.Path+"/", o.Path+"0"); err == nil && o.Files == 0 {
		err = fmt.Errorf("%q: %w", o.Path, fs.ErrNotExist)
	}
	return err
}

// made is how a stage made what is at the path; nil where none did.
func (t *Tracer) made(ctx context.Context, o *Origin) (*Trace, error) {
	says := ProvenanceOf(&o.Commit)
	if says == nil {
		return nil, nil
	}
	if o.Kind != tree.Folder {
		trace, err := t.From(ctx, &o.Commit, o.Path)
		if !errors.Is(err, fs.ErrNotExist) {
			return trace, err
		}
	}
	return &Trace{Provenance: says}, nil
}

// Head is a commit of a dataset.
type Head struct {
	Dataset string
	Commit  commit.Commit
}

// Descendant is what a datum made of what was asked for, or of what was made of that.
type Descendant struct {
	Head
	Trace
	// Of is the dataset of which it was given something.
	Of string
}

// Descendants shows what commits have that was made of files of a dataset, whose paths
// are given with their contents: directly, and by stages behind those. A file counts
// wherever it is at its path with its content. It costs all datums of the stages that it
// leads through.
func (t *Tracer) Descendants(ctx context.Context, among []Head, dataset string, files map[string]digest.ID, see func(Descendant) error) error {
	d := &descent{Tracer: t, files: map[string]map[string]digest.ID{dataset: maps.Clone(files)}, seen: map[string]bool{}, see: see}
	for more := true; more; {
		more = false
		for _, head := range among {
			found, err := d.step(ctx, head)
			if err != nil {
				return err
			}
			more = more || found
		}
	}
	return nil
}

// descent is the files that are known to be made of others, by dataset and path.
type descent struct {
	*Tracer
	files map[string]map[string]digest.ID
	seen  map[string]bool
	see   func(Descendant) error
}

// step shows what a commit has that is not seen yet; found says that there was something.
func (d *descent) step(ctx context.Context, head Head) (found bool, err error) {
	says := ProvenanceOf(&head.Commit)
	if says == nil {
		return false, nil
	}
	for _, used := range says.Inputs {
		if used.Commit.IsZero() || len(d.files[used.Dataset]) == 0 {
			continue
		}
		paths, err := d.there(ctx, used)
		if err != nil {
			return found, err
		}
		err = d.To(ctx, &head.Commit, used.Commit, paths, func(trace Trace) error {
			name := head.Commit.ID.String() + trace.Datum
			if d.seen[name] {
				return nil
			}
			d.seen[name], found = true, true
			if err := d.note(ctx, head, trace.Paths); err != nil {
				return err
			}
			return d.see(Descendant{Head: head, Trace: trace, Of: used.Dataset})
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // that was collected
			return found, err
		}
	}
	return found, nil
}

// there are the files of an input that are looked for and are in it, in order.
func (d *descent) there(ctx context.Context, used Used) ([]string, error) {
	in, err := d.States.Resolve(ctx, used.Commit.String())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s as a stage was given it: %w", used.Dataset, err)
	}
	var paths []string
	for path, content := range d.files[used.Dataset] {
		e, err := d.Trees.Get(ctx, in.Tree, path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return nil, err
		case e.Content == content:
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths, nil
}

// note has files that were made be looked for, too.
func (d *descent) note(ctx context.Context, head Head, paths []string) error {
	files := d.files[head.Dataset]
	if files == nil {
		files = map[string]digest.ID{}
		d.files[head.Dataset] = files
	}
	for _, path := range paths {
		e, err := d.Trees.Get(ctx, head.Commit.Tree, path)
		switch {
		case errors.Is(err, fs.ErrNotExist): // another one made it anew, or removed it
		case err != nil:
			return err
		default:
			files[path] = e.Content
		}
	}
	return nil
}
