package depot

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/muster-dev/muster/internal/door/shelf"
	"github.com/muster-dev/muster/internal/environment/bundle"
	"github.com/muster-dev/muster/internal/environment/source"
)

// The parts of a namespace's environments, beside uses: an environment is there
// once something is said of it.
const (
	bundles = "bundles"
	notes   = "notes"
)

func environmentKey(namespace, part, key string) string {
	return "environments/" + namespace + "/" + part + "/" + key
}

// Environment says what is known of a namespace's environment, and counts as use
// of it. The error wraps [ErrNotStored] where there is none.
func (d *Depot) Environment(ctx context.Context, namespace, key string) (bundle.Packed, error) {
	if err := bundle.CheckKey(key); err != nil {
		return bundle.Packed{}, errors.Join(ErrInvalid, err)
	}
	in, err := d.opts.Shelf.Get(ctx, environmentKey(namespace, notes, key))
	if errors.Is(err, fs.ErrNotExist) {
		return bundle.Packed{}, fmt.Errorf("environment %s: %w", key, ErrNotStored)
	}
	if err != nil {
		return bundle.Packed{}, fmt.Errorf("reading environment %s: %w", key, err)
	}
	defer func() { _ = in.Close() }()
	text, err := io.ReadAll(io.LimitReader(in, bundle.MaxNoteBytes))
	if err != nil {
		return bundle.Packed{}, fmt.Errorf("reading environment %s: %w", key, err)
	}
	packed, err := bundle.ReadPacked(text)
	if err != nil {
		_ = d.forgetEnvironment(ctx, namespace, key)
		return bundle.Packed{}, fmt.Errorf("environment %s: %w: what is said of it was damaged: %w", key, ErrNotStored, err)
	}
	return packed, d.noteEnvironment(ctx, namespace, key)
}

// noteEnvironment writes down that an environment is used.
func (d *Depot) noteEnvironment(ctx context.Context, namespace, key string) error {
	at := environmentKey(namespace, uses, key)
	if info, err := d.opts.Shelf.Stat(ctx, at); err == nil && d.opts.Now().Sub(info.Stored) < noteEvery {
		return nil
	}
	if err := d.opts.Shelf.Put(ctx, at, 0, strings.NewReader("")); err != nil {
		return fmt.Errorf("noting the use of environment %s: %w", key, err)
	}
	return nil
}

// OpenEnvironment opens the tar of an environment. Where it turns out not to be
// what it was, reading it ends in an error that wraps [source.ErrDamaged], and the
// environment is forgotten, so that it is built anew.
func (d *Depot) OpenEnvironment(ctx context.Context, namespace, key string, p bundle.Packed) (io.ReadCloser, error) {
	in, err := d.opts.Shelf.Get(ctx, environmentKey(namespace, bundles, key))
	forget := func() { _ = d.forgetEnvironment(ctx, namespace, key) }
	if errors.Is(err, fs.ErrNotExist) {
		forget()
		return nil, fmt.Errorf("environment %s: %w", key, ErrNotStored)
	}
	if err != nil {
		return nil, fmt.Errorf("reading environment %s: %w", key, err)
	}
	return &checked{verified: newVerified(in, source.Content{Hash: p.Hash, Size: p.Size}), Closer: in, wrong: forget}, nil
}

// forgetEnvironment removes what is said of an environment, and then all of it.
func (d *Depot) forgetEnvironment(ctx context.Context, namespace, key string) error {
	for _, part := range []string{notes, uses, bundles} {
		if err := d.opts.Shelf.Delete(ctx, environmentKey(namespace, part, key)); err != nil {
			return fmt.Errorf("removing environment %s: %w", key, err)
		}
	}
	return nil
}

// ReceiveEnvironment takes an environment that is sent: a tar of what is said of
// it and of its own tar. The error wraps [ErrInvalid] or [ErrQuota] where that is
// so.
func (d *Depot) ReceiveEnvironment(ctx context.Context, namespace, key string, in io.Reader) error {
	if err := bundle.CheckKey(key); err != nil {
		return errors.Join(ErrInvalid, err)
	}
	archive := tar.NewReader(in)
	// 1. What it is.
	packed, text, err := readPacked(archive)
	if err != nil {
		return err
	}
	// 2. The environment itself.
	h, err := archive.Next()
	if err != nil || h.Name != bundle.TarName || h.Typeflag != tar.TypeReg || h.Size != packed.Size {
		return fmt.Errorf("%w: a bundle of %d bytes has to follow: %w", ErrInvalid, packed.Size, err)
	}
	if err := d.charge(ctx, namespace, packed.Size); err != nil {
		return err
	}
	content := newVerified(incoming{archive}, source.Content{Hash: packed.Hash, Size: packed.Size})
	if err := d.opts.Shelf.Put(ctx, environmentKey(namespace, bundles, key), packed.Size, content); err != nil {
		d.recount(namespace)
		return fmt.Errorf("storing environment %s: %w", key, err)
	}
	// 3. It is there.
	if err := d.opts.Shelf.Put(ctx, environmentKey(namespace, notes, key), int64(len(text)), bytes.NewReader(text)); err != nil {
		return fmt.Errorf("storing environment %s: %w", key, err)
	}
	return d.noteEnvironment(ctx, namespace, key)
}

func readPacked(archive *tar.Reader) (bundle.Packed, []byte, error) {
	h, err := archive.Next()
	if err != nil {
		return bundle.Packed{}, nil, fmt.Errorf("reading what was sent: %w: %w", ErrInvalid, err)
	}
	if h.Name != bundle.PackedName || h.Typeflag != tar.TypeReg || h.Size > bundle.MaxNoteBytes {
		return bundle.Packed{}, nil, fmt.Errorf("%w: it begins with %q and has to begin with what is said of it, %q", ErrInvalid, h.Name, bundle.PackedName)
	}
	sent, err := io.ReadAll(archive)
	if err != nil {
		return bundle.Packed{}, nil, fmt.Errorf("reading what is said of it: %w: %w", ErrInvalid, err)
	}
	packed, err := bundle.ReadPacked(sent)
	if err != nil {
		return bundle.Packed{}, nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	text, err := json.Marshal(packed) // and nothing else of what was sent
	return packed, text, err
}

// pruneEnvironments removes the environments of all namespaces that nobody needs.
func (d *Depot) pruneEnvironments(ctx context.Context, refers func(namespace, key string) bool, sum *Pruned) error {
	type place struct{ namespace, key string }
	last, size := map[place]shelf.Info{}, map[place]int64{}
	err := d.opts.Shelf.List(ctx, "environments/", func(i shelf.Info) error {
		parts := strings.Split(i.Key, "/")
		if len(parts) != 4 {
			return nil // nothing of ours
		}
		at := place{parts[1], parts[3]}
		if known, there := last[at]; !there || i.Stored.After(known.Stored) {
			last[at] = i
		}
		if parts[2] == bundles {
			size[at] = i.Size
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("listing the environments that are kept: %w", err)
	}
	old := d.opts.Now().Add(-d.opts.Retention)
	for at, info := range last {
		if refers(at.namespace, at.key) {
			if err := d.noteEnvironment(ctx, at.namespace, at.key); err != nil {
				return err
			}
			continue
		}
		if info.Stored.After(old) {
			continue
		}
		if now, err := d.opts.Shelf.Stat(ctx, environmentKey(at.namespace, uses, at.key)); err == nil && now.Stored.After(old) {
			continue // used since it was listed
		}
		if err := d.forgetEnvironment(ctx, at.namespace, at.key); err != nil {
			return err
		}
		sum.Environments++
		sum.Bytes += size[at]
	}
	return nil
}
