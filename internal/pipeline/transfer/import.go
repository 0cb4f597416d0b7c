package transfer

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/tree"
	"github.com/muster-dev/muster/internal/pipeline"
)

// Importing says where an archive goes.
type Importing struct {
	// Results is a dataset of results, at its branch Branch.
	Results *data.Dataset
	Branch  string
	// Trees reads all trees.
	Trees *tree.Tree
	// Author is who brings them, At when.
	Author string
	At     time.Time
	// Progress hears how much was taken. Default: nobody does.
	Progress func(data.Progress)
}

// Import takes the results of an archive that are not there yet, all by one commit: of an
// archive that is not whole, or not as it was written, nothing is taken. A result says by
// itself for which recipe and files it stands; that it came of them is believed of who
// brings it, as it is of whose programs run here.
func Import(ctx context.Context, from io.Reader, o Importing) (m Manifest, count Count, err error) {
	session, err := o.Results.Begin(ctx, o.Branch, data.SessionOptions{})
	if err != nil {
		return m, count, fmt.Errorf("importing results: %w", err)
	}
	defer func() { err = errors.Join(err, session.Close(context.WithoutCancel(ctx))) }()
	i := &importer{Importing: o, in: tar.NewReader(from), sum: newSummed(), recipes: map[digest.ID]bool{}}
	if base := session.Base(); base != nil {
		i.held = pipeline.Results{Trees: o.Trees, Root: base.Commit().Tree}
	}
	err = session.AddTar(ctx, data.AddOptions{}, func(to io.Writer) error {
		i.out = tar.NewWriter(to)
		return i.all(ctx)
	})
	if err != nil {
		return m, count, fmt.Errorf("importing results: %w", err)
	}
	message := fmt.Sprintf("%d results of pipeline %s were brought", i.count.Results, i.manifest.Pipeline)
	if _, err := session.Commit(ctx, data.CommitOptions{Author: o.Author, Message: message, Orphan: true}); err != nil {
		return m, count, fmt.Errorf("importing results: %w", err)
	}
	return i.manifest, i.count, nil
}

type importer struct {
	Importing
	in  *tar.Reader
	out *tar.Writer
	sum summed
	// held are the results that are there already.
	held pipeline.Results

	manifest Manifest
	// recipes are those that came before.
	recipes map[digest.ID]bool
	// key is the result whose files come now, skip says that it is there already.
	key  digest.ID
	skip bool
	// seen is how many results were in the archive, ended that its end was.
	seen  int
	ended bool
	count Count
}

func (i *importer) all(ctx context.Context) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		h, err := i.in.Next()
		switch {
		case errors.Is(err, io.EOF) && i.ended:
			return i.out.Close()
		case i.manifest.Version == 0 && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)):
			return errNone
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return errBroken
		case errors.Is(err, tar.ErrHeader):
			return notOurs("what comes is no tar")
		case err != nil:
			return fmt.Errorf("reading the archive: %w", err)
		case i.ended:
			return notOurs("it has %q after its end", h.Name)
		}
		if err := i.member(ctx, h); errors.Is(err, io.ErrUnexpectedEOF) {
			return errBroken
		} else if err != nil {
			return err
		}
	}
}

// member takes one member of the archive.
func (i *importer) member(ctx context.Context, h *tar.Header) error {
	if h.Name == endFile {
		return i.end(h)
	}
	if err := i.sum.member(h); err != nil {
		return err
	}
	in := io.TeeReader(i.in, i.sum.hash)
	if i.manifest.Version == 0 {
		return i.begin(in, h)
	}
	if name, ok := strings.CutPrefix(h.Name, "recipes/"); ok {
		return i.recipe(in, h, strings.TrimSuffix(name, ".json"))
	}
	key, inside, err := parsePath(h.Name)
	switch {
	case err != nil:
		return err
	case inside == pipeline.RecordFile:
		return i.record(ctx, in, h, key)
	case tree.CheckPath(h.Name) != nil, key != i.key || inside != pipeline.LogFile && !strings.HasPrefix(inside, pipeline.OutFolder+"/"):
		return notOurs("it has %q", h.Name)
	case h.Typeflag != tar.TypeReg && h.Typeflag != tar.TypeSymlink:
		return notOurs("%s is neither a file nor a symbolic link", h.Name)
	}
	return i.file(in, h)
}

// begin reads what the archive says of itself.
func (i *importer) begin(in io.Reader, h *tar.Header) error {
	if h.Name != beginFile {
		return notOurs("it begins with %q", h.Name)
	}
	content, err := text(in, h)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(content, &i.manifest); err != nil {
		return notOurs("%s: %v", beginFile, err)
	}
	if i.manifest.Version != version {
		return fmt.Errorf("the archive is of version %d of how archives are made, and this Muster reads %d: use the same release on both sides", i.manifest.Version, version)
	}
	if i.manifest.Pipeline == "" || strings.Contains(i.manifest.Pipeline, "/") {
		return notOurs("its pipeline is %q", i.manifest.Pipeline)
	}
	for stage, recipe := range i.manifest.Stages {
		if err := i.write(pipeline.BroughtPath(i.manifest.Pipeline, stage), []byte(recipe.String())); err != nil {
			return err
		}
	}
	return nil
}

// recipe takes one that is what its name says.
func (i *importer) recipe(in io.Reader, h *tar.Header, name string) error {
	content, err := text(in, h)
	if err != nil {
		return err
	}
	r, err := pipeline.DecodeRecipe(content)
	if err != nil || r.ID.String() != name {
		return notOurs("%s is another recipe than its name says (%v)", h.Name, err)
	}
	i.recipes[r.ID] = true
	return i.write(h.Name, content)
}

// record takes that of a result, whose files follow, unless it is there already.
func (i *importer) record(ctx context.Context, in io.Reader, h *tar.Header, key digest.ID) error {
	content, err := text(in, h)
	if err != nil {
		return err
	}
	r, err := pipeline.DecodeRecord(content)
	switch {
	case err != nil:
		return notOurs("%s: %v", h.Name, err)
	case r.Key != key || pipeline.Key(r.Recipe, r.Files) != key:
		return notOurs("%s is of another result than its name says", h.Name)
	case r.Exit != 0 || r.Error != "":
		return notOurs("%s is of a datum that failed", h.Name)
	case !i.recipes[r.Recipe]:
		return notOurs("%s is by recipe %s, which is not in it", h.Name, r.Recipe.Short())
	}
	i.seen++
	i.key = key
	if i.skip, err = i.has(ctx, key); err != nil {
		return err
	}
	if i.skip {
		i.count.There++
		return nil
	}
	i.count.Results++
	if err := i.write(pipeline.UsedPath(i.At, key), nil); err != nil {
		return err
	}
	return i.write(h.Name, content)
}

// has says whether a result is there already.
func (i *importer) has(ctx context.Context, key digest.ID) (bool, error) {
	found, err := i.held.Find(ctx, []digest.ID{key})
	return err == nil && !found[0].IsZero(), err
}

// file takes one of a result.
func (i *importer) file(in io.Reader, h *tar.Header) error {
	if i.skip {
		_, err := io.CopyN(io.Discard, in, h.Size)
		return short(err)
	}
	if err := i.out.WriteHeader(&tar.Header{Typeflag: h.Typeflag, Name: h.Name, Linkname: h.Linkname, Size: h.Size, Mode: h.Mode}); err != nil {
		return err
	}
	if _, err := io.CopyN(i.out, in, h.Size); err != nil {
		return short(err)
	}
	i.count.Files++
	i.count.Bytes += h.Size
	if i.Progress != nil {
		i.Progress(data.Progress{Files: i.count.Files, Bytes: i.count.Bytes})
	}
	return nil
}

// short is the error of a member that has less than it says.
func short(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// end compares what came with what was written.
func (i *importer) end(h *tar.Header) error {
	content, err := text(i.in, h)
	if err != nil {
		return err
	}
	var e ending
	if err := json.Unmarshal(content, &e); err != nil {
		return notOurs("%s: %v", endFile, err)
	}
	if e.Results != i.seen || e.Sum != i.sum.String() {
		return errors.New("the archive is damaged: something in it is not what was written; make it, or send it, again")
	}
	i.ended = true
	return nil
}

// write writes what Muster writes itself.
func (i *importer) write(name string, content []byte) error {
	if err := i.out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(content)), Mode: 0o644}); err != nil {
		return err
	}
	_, err := i.out.Write(content)
	return err
}
