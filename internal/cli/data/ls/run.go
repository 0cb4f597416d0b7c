package ls

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"
	"unicode/utf8"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/data/address"
	"github.com/muster-dev/muster/internal/cli/data/opening"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/output"
	"github.com/muster-dev/muster/internal/cli/terminal"
	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/tree"
	"github.com/muster-dev/muster/internal/pipeline"
)

// Listed is one dataset, as -o json prints it.
type Listed struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	Branches    int    `json:"branches"`
	Tags        int    `json:"tags"`
	// Files and Bytes are of the branch main, Committed is when it moved last.
	Files     int64      `json:"files"`
	Bytes     int64      `json:"bytes"`
	Committed *time.Time `json:"committed,omitempty"`
}

// Entry is one path, as -o json prints it.
type Entry struct {
	Path string `json:"path"`
	// PathBytes are the bytes of a path that is not UTF-8, as base64: JSON cannot hold such text.
	// TargetBytes are those of the target.
	PathBytes   []byte `json:"pathBytes,omitempty"`
	TargetBytes []byte `json:"targetBytes,omitempty"`
	// Kind is file, link or folder.
	Kind string `json:"kind"`
	// Bytes is the size of a file, or of everything below a folder.
	Bytes int64 `json:"bytes"`
	// Files counts what is below a folder.
	Files      int64  `json:"files,omitempty"`
	Executable bool   `json:"executable,omitempty"`
	Target     string `json:"target,omitempty"`
}

// datasets lists those of the namespace.
func (o *options) datasets(ctx context.Context) error {
	server, namespace, err := opening.Server(o.factory)
	if err != nil {
		return err
	}
	list := &v1alpha1.DatasetList{}
	if err := server.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return fmt.Errorf("listing the datasets: %w", err)
	}
	found := []Listed{}
	hidden := 0
	for i := range list.Items {
		if !o.all && *o.format == output.Human && internal(list.Items[i].Name) {
			hidden++
			continue
		}
		found = append(found, listed(&list.Items[i]))
	}
	if *o.format != output.Human {
		return output.Print(o.factory.Streams.Out, *o.format, found)
	}
	if len(found) == 0 && hidden == 0 {
		_, err := fmt.Fprintf(o.factory.Streams.Err, "There are no datasets in namespace %s: make one with `muster data create`.\n", namespace)
		return err
	}
	table := terminal.NewTable("DATASET", "BRANCHES", "TAGS", "FILES", "SIZE", "COMMITTED", "DESCRIPTION")
	for _, one := range found {
		since := "-"
		if one.Committed != nil {
			since = terminal.WholeSpan(max(o.now().Sub(*one.Committed), 0)) + " ago"
		}
		table.Row(one.Name, fmt.Sprint(one.Branches), fmt.Sprint(one.Tags), fmt.Sprint(one.Files), terminal.Size64(one.Bytes), since, one.Description)
	}
	if err := table.Write(o.factory.Streams.Out, o.factory.Streams.OutStyle(), ""); err != nil || hidden == 0 {
		return err
	}
	_, err = fmt.Fprintf(o.factory.Streams.Err, "Pipelines have %d more (results and states): --all lists them.\n", hidden)
	return err
}

// internal reports whether only pipelines read and write a dataset.
func internal(name string) bool {
	return name == pipeline.ResultsDataset || strings.HasPrefix(name, pipeline.StatesPrefix)
}

func listed(object *v1alpha1.Dataset) Listed {
	out := Listed{Name: object.Name, Description: object.Spec.Description, Branches: len(object.Spec.Branches), Tags: len(object.Spec.Tags)}
	for i := range object.Spec.Branches {
		if b := &object.Spec.Branches[i]; b.Name == v1alpha1.DefaultBranch {
			out.Files, out.Bytes = b.Files, b.Bytes
			if b.Moved != nil {
				out.Committed = &b.Moved.Time
			}
		}
	}
	return out
}

// version lists what is in a version.
func (o *options) version(ctx context.Context, a address.Address) error {
	d, err := opening.Open(ctx, o.factory, a.Dataset)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	view, err := d.View(ctx, a)
	if err != nil {
		return err
	}
	entries, err := o.gather(ctx, view, a)
	if errors.Is(err, fs.ErrNotExist) {
		return exit.NotFound("%s: there is no such file or folder", a)
	}
	if err != nil {
		return err
	}
	if *o.format != output.Human {
		return output.Print(o.factory.Streams.Out, *o.format, entries)
	}
	folder := ""
	if !address.IsPattern(a.Path) {
		folder = address.Literal(a.Path)
	}
	return table(entries, folder).Write(o.factory.Streams.Out, o.factory.Streams.OutStyle(), "")
}

// gather finds what is to be listed, in order of paths.
func (o *options) gather(ctx context.Context, view *data.View, a address.Address) ([]Entry, error) {
	entries := []Entry{}
	see := func(e data.Entry) error {
		entries = append(entries, entryOf(e))
		return nil
	}
	if address.IsPattern(a.Path) {
		if err := view.Walk(ctx, a.Path, see); err != nil {
			return nil, err
		}
		if len(entries) == 0 {
			return nil, exit.NotFound("%s: nothing matches", a)
		}
		return entries, nil
	}
	at := address.Literal(a.Path)
	if at != "" {
		found, err := view.Stat(ctx, at)
		if err != nil {
			return nil, err
		}
		if found.Kind != tree.Folder {
			err := see(found)
			return entries, err
		}
	}
	if o.recursive {
		err := view.Walk(ctx, address.Inside(a.Path), see)
		return entries, err
	}
	err := view.List(ctx, at, see)
	return entries, err
}

// entryOf is an entry as it is printed.
func entryOf(e data.Entry) Entry {
	return Entry{
		Path: e.Path, PathBytes: exact(e.Path), Kind: e.Kind.String(), Bytes: e.Size, Files: e.Files, Executable: e.Executable,
		Target: e.Target, TargetBytes: exact(e.Target),
	}
}

// exact returns the bytes of a text that is not UTF-8, else nothing.
func exact(text string) []byte {
	if utf8.ValidString(text) {
		return nil
	}
	return []byte(text)
}

// table has a row for each path, without the folder that was asked for.
func table(entries []Entry, folder string) *terminal.Table {
	rows := terminal.NewTable("SIZE", "FILES", "NAME")
	for _, e := range entries {
		name, files := strings.TrimPrefix(e.Path, folder+"/"), ""
		switch {
		case e.Kind == tree.Folder.String():
			name, files = name+"/", fmt.Sprint(e.Files)
		case e.Kind == tree.Link.String():
			name += " -> " + e.Target
		}
		rows.Row(terminal.Size64(e.Bytes), files, name)
	}
	return rows
}
