package get

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/muster-dev/muster/internal/cli/data/address"
	"github.com/muster-dev/muster/internal/cli/data/meter"
	"github.com/muster-dev/muster/internal/cli/data/whole"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/terminal"
	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/tree"
)

// archive writes a tar to standard output, or to a file, which has its name only
// once it is whole.
func (o *options) archive(ctx context.Context, view *data.View, a address.Address, pattern, to string, bar *meter.Meter) (document Document, err error) {
	if o.mirror {
		return document, exit.Usage("--mirror is for folders: an archive is written anew")
	}
	if to == "" {
		to = a.Dataset + ".tar"
	}
	document.Path = to
	if to == stdout {
		err = pack(ctx, terminal.Data(o.factory.Streams.Out), view, a, pattern, bar, &document)
		return document, err
	}
	err = whole.File(to, func(out io.Writer) error { return pack(ctx, out, view, a, pattern, bar, &document) })
	return document, err
}

// packer writes one archive.
type packer struct {
	view *data.View
	out  *tar.Writer
	// below is the folder that names are relative to, made when they are.
	below string
	made  time.Time
	bar   *meter.Meter
	done  data.Progress
	// links are the links of the archive: programs that unpack it may follow them.
	links tree.Links
}

// pack writes what is wanted, in order of paths; the same version gives the same
// archive, byte for byte.
func pack(ctx context.Context, out io.Writer, view *data.View, a address.Address, pattern string, bar *meter.Meter, document *Document) error {
	p := &packer{view: view, out: tar.NewWriter(out), below: address.Literal(a.Path), made: view.Commit().Time.Truncate(time.Second), bar: bar, links: tree.Links{}}
	if address.IsPattern(a.Path) {
		p.below = address.Base(a.Path)
	}
	// The links are checked before the first byte, which a program may unpack at once.
	if err := view.Walk(ctx, pattern, p.link); err != nil {
		return err
	}
	if err := p.links.Check(); err != nil {
		return err
	}
	if err := view.Walk(ctx, pattern, func(e tree.Entry) error { return p.add(ctx, e) }); err != nil {
		return err
	}
	if p.done.Files == 0 && a.Path != "" {
		return exit.NotFound("nothing matches")
	}
	document.Files, document.Bytes = p.done.Files, p.done.Bytes
	if err := p.out.Close(); err != nil {
		return fmt.Errorf("writing the archive: %w", err)
	}
	return nil
}

// link notes an entry that is a link, for the check of all of them.
func (p *packer) link(e tree.Entry) error {
	if e.Kind != tree.Link {
		return nil
	}
	name := p.name(e.Path)
	p.links[name] = e.Target
	return tree.CheckTarget(name, e.Target)
}

// add writes one entry.
func (p *packer) add(ctx context.Context, e tree.Entry) (err error) {
	header := &tar.Header{Name: p.name(e.Path), Mode: 0o644, ModTime: p.made, Format: tar.FormatPAX}
	switch {
	case e.Kind == tree.Link:
		header.Typeflag, header.Linkname, header.Mode = tar.TypeSymlink, e.Target, 0o777
	case e.Kind != tree.File:
		return nil
	default:
		header.Typeflag, header.Size = tar.TypeReg, e.Size
	}
	if e.Executable {
		header.Mode = 0o755
	}
	if err := p.out.WriteHeader(header); err != nil {
		return fmt.Errorf("writing %s to the archive: %w", e.Path, err)
	}
	if header.Typeflag == tar.TypeReg && e.Size > 0 {
		if err := p.content(ctx, e); err != nil {
			return err
		}
	}
	p.done.Files++
	p.bar.See(p.done)
	return nil
}

func (p *packer) content(ctx context.Context, e tree.Entry) (err error) {
	file, err := p.view.Open(ctx, e.Path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if _, err := io.Copy(io.MultiWriter(p.out, counted{p}), file); err != nil {
		return fmt.Errorf("writing %s to the archive: %w", e.Path, err)
	}
	return nil
}

// counted shows what has gone through.
type counted struct{ p *packer }

// Write implements [io.Writer].
func (c counted) Write(bytes []byte) (int, error) {
	c.p.done.Bytes += int64(len(bytes))
	c.p.bar.See(c.p.done)
	return len(bytes), nil
}

// name is a path relative to the folder that was asked for; of a file that was
// asked for, its own name.
func (p *packer) name(full string) string {
	if full == p.below {
		return full[strings.LastIndexByte(full, '/')+1:]
	}
	if p.below == "" {
		return full
	}
	return strings.TrimPrefix(full, p.below+"/")
}
