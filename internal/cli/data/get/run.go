package get

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/muster-dev/muster/internal/cli/data/address"
	"github.com/muster-dev/muster/internal/cli/data/meter"
	"github.com/muster-dev/muster/internal/cli/data/opening"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/output"
	"github.com/muster-dev/muster/internal/cli/terminal"
	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/tree"
)

// Document is what -o json prints.
type Document struct {
	Dataset string `json:"dataset"`
	Commit  string `json:"commit"`
	// Path is where it is now on this machine.
	Path string `json:"path"`
	// Files and Bytes are what is there now, Kept counts those of the files that
	// were there before, Replaced those that took the place of what was there, and
	// Removed those that --mirror removed.
	Files    int64 `json:"files"`
	Bytes    int64 `json:"bytes"`
	Kept     int64 `json:"kept"`
	Replaced int64 `json:"replaced"`
	Removed  int64 `json:"removed"`
}

func (o *options) run(ctx context.Context, a address.Address, to string) error {
	d, err := opening.Open(ctx, o.factory, a.Dataset)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	view, release, err := d.Hold(ctx, a)
	if err != nil {
		return err
	}
	defer release()
	file, err := o.isFile(ctx, view, a)
	if err != nil {
		return err
	}
	bar := meter.New(o.factory.Streams.Err, "Getting "+a.String())
	defer bar.Stop()
	if !address.IsPattern(a.Path) {
		usage, err := view.Usage(ctx, address.Literal(a.Path))
		if err != nil {
			return err
		}
		bar.Expect(usage.Bytes)
	}
	var document Document
	switch {
	case o.tar:
		pattern := a.Path
		if !file && !address.IsPattern(pattern) {
			pattern = address.Inside(pattern)
		}
		document, err = o.archive(ctx, view, a, pattern, to, bar)
	case file:
		document, err = o.file(ctx, view, a, to, bar)
	default:
		document, err = o.folder(ctx, view, a, to, bar)
	}
	if err != nil {
		return fmt.Errorf("getting %s: %w", a, err)
	}
	bar.Stop()
	document.Dataset, document.Commit = a.Dataset, view.Commit().ID.String()
	return o.report(document)
}

// isFile reports whether one file is wanted, and refuses a path that is not
// there.
func (o *options) isFile(ctx context.Context, view *data.View, a address.Address) (bool, error) {
	if a.Path == "" || address.IsPattern(a.Path) {
		return false, nil
	}
	found, err := view.Stat(ctx, address.Literal(a.Path))
	if errors.Is(err, fs.ErrNotExist) {
		return false, exit.NotFound("%s: there is no such file or folder", a)
	}
	if err != nil {
		return false, err
	}
	return found.Kind != tree.Folder, nil
}

// folder writes a folder's content, or what matches, into a folder.
func (o *options) folder(ctx context.Context, view *data.View, a address.Address, to string, bar *meter.Meter) (Document, error) {
	local, err := place(a, false, to)
	if err != nil {
		return Document{}, err
	}
	pattern, below := address.Inside(a.Path), address.Literal(a.Path)
	if address.IsPattern(a.Path) {
		pattern, below = a.Path, address.Base(a.Path)
	}
	abandon := restore(local)
	result, err := view.Checkout(ctx, local, data.CheckoutOptions{
		Pattern: pattern, Below: below, Delete: o.mirror, Progress: bar.See,
	})
	if err != nil {
		abandon()
		return Document{}, err
	}
	if address.IsPattern(a.Path) && result.Files == 0 {
		abandon()
		return Document{}, exit.NotFound("nothing matches")
	}
	return Document{Path: local, Files: result.Files, Bytes: result.Bytes, Kept: result.Kept, Replaced: result.Replaced, Removed: result.Removed}, nil
}

// restore returns a function that removes the folders of a path that do not exist now, if they
// are empty. A partial copy in them stays for the next try.
func restore(folder string) func() {
	var missing []string
	for at := filepath.Clean(folder); at != filepath.Dir(at); at = filepath.Dir(at) {
		if _, err := os.Lstat(at); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		missing = append(missing, at)
	}
	return func() {
		for _, at := range missing {
			_ = os.Remove(at)
		}
	}
}

// file writes one file. Under another name than its own it comes into a folder
// beside that first: what was broken off goes on there.
func (o *options) file(ctx context.Context, view *data.View, a address.Address, to string, bar *meter.Meter) (Document, error) {
	if o.mirror {
		return Document{}, exit.Usage("--mirror is for folders, and %s is a file", a)
	}
	local, err := place(a, true, to)
	if err != nil {
		return Document{}, err
	}
	at := address.Literal(a.Path)
	into, name := filepath.Dir(local), path.Base(at)
	renamed := filepath.Base(local) != name
	if renamed {
		entry, err := view.Stat(ctx, at)
		if err != nil {
			return Document{}, err
		}
		into = filepath.Join(into, ".muster-"+entry.Content.Short())
	}
	below := path.Dir(at)
	if below == "." {
		below = ""
	}
	abandon := restore(into)
	result, err := view.Checkout(ctx, into, data.CheckoutOptions{Pattern: a.Path, Below: below, Progress: bar.See})
	if err != nil {
		if renamed {
			_ = os.Remove(into) // of an earlier try
		}
		abandon()
		return Document{}, err
	}
	if renamed {
		result.Kept = 0 // of the folder beside it
		if _, err := os.Lstat(local); err == nil {
			result.Replaced++
		}
		if err := os.Rename(filepath.Join(into, name), local); err != nil {
			return Document{}, err
		}
		if err := os.Remove(into); err != nil {
			return Document{}, err
		}
	}
	return Document{Path: local, Files: result.Files, Bytes: result.Bytes, Kept: result.Kept, Replaced: result.Replaced}, nil
}

func (o *options) report(document Document) error {
	if *o.format != output.Human {
		return output.Print(o.factory.Streams.Out, *o.format, document)
	}
	if document.Path == stdout {
		return nil
	}
	sentence := fmt.Sprintf("%s: %s, %s", document.Path, terminal.Count(document.Files, "file"), terminal.Size64(document.Bytes))
	if document.Kept > 0 {
		sentence += fmt.Sprintf("; %d of them were there already", document.Kept)
	}
	if document.Replaced > 0 {
		sentence += fmt.Sprintf("; %d took the place of what was there", document.Replaced)
	}
	if document.Removed > 0 {
		sentence += fmt.Sprintf("; %d removed", document.Removed)
	}
	_, err := fmt.Fprintln(o.factory.Streams.Out, sentence)
	return err
}
