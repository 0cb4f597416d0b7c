package depot

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/muster-dev/muster/internal/door/shelf"
	"github.com/muster-dev/muster/internal/environment/source"
)

const (
	// atOnce is how many contents of one snapshot are looked for, or put, at
	// once.
	atOnce = 16
	// small is up to which size a content is held in memory while it is put.
	small = 1 << 20
)

// Receive takes a snapshot that is sent: a tar of its list and any of its
// contents. It returns the hashes of contents that are missing, sorted; what was
// sent is kept. Where none is missing the snapshot is stored. The error wraps
// [ErrInvalid], [source.ErrTooLarge] or [ErrQuota] where that is so.
func (d *Depot) Receive(ctx context.Context, namespace, digest string, in io.Reader) ([]string, error) {
	archive := tar.NewReader(in)
	// 1. The list, which says what may come.
	p, err := d.list(archive, digest)
	if err != nil {
		return nil, err
	}
	// 2. What is there already.
	missing, err := d.lacks(ctx, namespace, p)
	if err != nil {
		return nil, err
	}
	// 3. What comes.
	if err := d.contents(ctx, namespace, archive, missing); err != nil {
		return nil, err
	}
	if len(missing) > 0 {
		return names(p, missing), nil
	}
	// 4. It is whole: the list names it.
	return nil, d.conclude(ctx, namespace, p)
}

// conclude puts the list of a snapshot once all of its contents are there.
func (d *Depot) conclude(ctx context.Context, namespace string, p *source.Parcel) error {
	data := p.Encoded()
	if err := d.opts.Shelf.Put(ctx, key(namespace, trees, hashOf(p.Digest())), int64(len(data)), bytes.NewReader(data)); err != nil {
		return fmt.Errorf("storing code snapshot %s: %w", p.Digest(), err)
	}
	if err := d.note(ctx, namespace, p.Digest()); err != nil {
		return err
	}
	now := d.opts.Now()
	d.remember(namespace+"/"+p.Digest(), known{parcel: p, seen: now, noted: now})
	return nil
}

func (d *Depot) list(archive *tar.Reader, digest string) (*source.Parcel, error) {
	h, err := archive.Next()
	if err != nil {
		return nil, fmt.Errorf("reading what was sent: %w: %w", ErrInvalid, err)
	}
	if h.Name != source.ListName || h.Typeflag != tar.TypeReg {
		return nil, fmt.Errorf("%w: it begins with %q and has to begin with its list, %q", ErrInvalid, h.Name, source.ListName)
	}
	if h.Size > source.MaxListBytes {
		return nil, fmt.Errorf("its list has %s, and %s are allowed: %w", source.FormatBytes(h.Size), source.FormatBytes(source.MaxListBytes), source.ErrTooLarge)
	}
	data, err := io.ReadAll(archive)
	if err != nil {
		return nil, fmt.Errorf("reading its list: %w: %w", ErrInvalid, err)
	}
	p, err := source.ReadParcel(digest, data, d.opts.Limits)
	if err != nil && !errors.Is(err, source.ErrTooLarge) {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return p, err
}

// lacks are the contents that the namespace does not have, or not for long
// enough to count on them, with their sizes.
func (d *Depot) lacks(ctx context.Context, namespace string, p *source.Parcel) (map[string]int64, error) {
	var mu sync.Mutex
	missing := map[string]int64{}
	fresh := d.opts.Now().Add(-d.opts.Retention / 2)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for _, c := range p.Contents() {
		group.Go(func() error {
			info, err := d.opts.Shelf.Stat(ctx, key(namespace, blobs, c.Hash))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			if err != nil || info.Size != c.Size || info.Stored.Before(fresh) {
				mu.Lock()
				missing[c.Hash] = c.Size
				mu.Unlock()
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, fmt.Errorf("looking for what is stored of %s: %w", p.Digest(), err)
	}
	return missing, nil
}

// contents puts what comes, and takes it off what is missing.
func (d *Depot) contents(ctx context.Context, namespace string, archive *tar.Reader, missing map[string]int64) error {
	group, within := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	err := func() error {
		for {
			h, err := archive.Next()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return fmt.Errorf("reading what was sent: %w: %w", ErrInvalid, err)
			}
			if err := within.Err(); err != nil {
				return err // a put failed: its error comes first
			}
			name := strings.TrimPrefix(h.Name, source.ContentPrefix)
			size, wanted := missing[name]
			if !wanted {
				continue // there already, or none of this snapshot's
			}
			if h.Typeflag != tar.TypeReg || h.Size != size {
				return fmt.Errorf("%w: the content %s has %d bytes and its list says %d", ErrInvalid, name, h.Size, size)
			}
			if err := d.charge(within, namespace, size); err != nil {
				return err
			}
			delete(missing, name)
			if err := d.put(within, group, namespace, source.Content{Hash: name, Size: size}, archive); err != nil {
				return err
			}
		}
	}()
	// What goes wrong while something is being put comes first: it is why.
	if failed := group.Wait(); failed != nil {
		err = failed
	}
	if err != nil {
		d.recount(namespace)
	}
	return err
}

// put puts one content: a small one while the next is read.
func (d *Depot) put(ctx context.Context, group *errgroup.Group, namespace string, c source.Content, in io.Reader) error {
	at, content := key(namespace, blobs, c.Hash), newVerified(incoming{in}, c)
	if c.Size > small {
		return d.opts.Shelf.Put(ctx, at, c.Size, content)
	}
	data, err := io.ReadAll(content)
	if err != nil {
		return fmt.Errorf("reading the content %s: %w", c.Hash, err)
	}
	group.Go(func() error { return d.opts.Shelf.Put(ctx, at, c.Size, bytes.NewReader(data)) })
	return nil
}

// charge counts bytes against the namespace's quota, before they are put.
func (d *Depot) charge(ctx context.Context, namespace string, size int64) error {
	if d.opts.Room != nil {
		if err := d.opts.Room(size); err != nil {
			return err
		}
	}
	now := d.opts.Now()
	d.mu.Lock()
	u, counted := d.used[namespace]
	d.mu.Unlock()
	if !counted || now.Sub(u.counted) > believe {
		u = usage{counted: now}
		for _, prefix := range []string{"code/" + namespace + "/" + blobs + "/", environmentKey(namespace, bundles, "")} {
			err := d.opts.Shelf.List(ctx, prefix, func(i shelf.Info) error {
				u.bytes += i.Size
				return nil
			})
			if err != nil {
				return fmt.Errorf("counting what namespace %s keeps: %w", namespace, err)
			}
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if other := d.used[namespace]; other.counted.After(u.counted) || other.counted.Equal(u.counted) && other.bytes > u.bytes {
		u = other // counted, or charged, by another upload meanwhile
	}
	if u.bytes+size > d.opts.Quota {
		d.used[namespace] = u
		advice := fmt.Sprintf("what no job names goes by itself after %d days", int(d.opts.Retention.Hours()/24))
		if d.opts.Retention >= Forever {
			advice = "nothing goes by itself: ask an administrator for a larger quota or a retention"
		}
		return fmt.Errorf("namespace %s keeps %s of code and environments, and %s are allowed: %w; %s",
			namespace, source.FormatBytes(u.bytes), source.FormatBytes(d.opts.Quota), ErrQuota, advice)
	}
	u.bytes += size
	d.used[namespace] = u
	return nil
}

// recount has a namespace counted anew, after something that was charged did not
// come to be stored.
func (d *Depot) recount(namespace string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.used, namespace)
}

// names are the missing ones, in the list's order.
func names(p *source.Parcel, missing map[string]int64) []string {
	out := make([]string, 0, len(missing))
	for _, c := range p.Contents() {
		if _, is := missing[c.Hash]; is {
			out = append(out, c.Hash)
		}
	}
	return out
}

// incoming is what is sent: where it breaks off, that is the sender's.
type incoming struct{ in io.Reader }

func (i incoming) Read(p []byte) (int, error) {
	n, err := i.in.Read(p)
	if err != nil && !errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = fmt.Errorf("%w: it broke off: %w", ErrInvalid, err)
	}
	return n, err
}

// verified is a content that is read: its last bytes come only if all of it is
// what its hash says.
type verified struct {
	in     io.Reader
	want   source.Content
	hasher hash.Hash
	read   int64
}

func newVerified(in io.Reader, c source.Content) *verified {
	return &verified{in: in, want: c, hasher: sha256.New()}
}

func (v *verified) Read(p []byte) (int, error) {
	n, err := v.in.Read(p)
	v.hasher.Write(p[:n])
	v.read += int64(n)
	wrong := v.read > v.want.Size || errors.Is(err, io.EOF) && v.read < v.want.Size ||
		v.read == v.want.Size && hex.EncodeToString(v.hasher.Sum(nil)) != v.want.Hash
	if wrong {
		return 0, fmt.Errorf("the content %s is not what its hash says: %w", v.want.Hash, ErrInvalid)
	}
	return n, err
}
