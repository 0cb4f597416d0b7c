package depot

import (
	"context"
	"errors"
	"io"

	"github.com/muster-dev/muster/internal/environment/source"
)

// Checkout lays a snapshot of a namespace out as the new folder dst, as
// [source.Store.Checkout] does. It counts as use of it.
func (d *Depot) Checkout(ctx context.Context, namespace, digest, dst string) error {
	return d.CheckoutPart(ctx, namespace, digest, ".", dst)
}

// CheckoutPart does so with a file or folder of the snapshot.
func (d *Depot) CheckoutPart(ctx context.Context, namespace, digest, path, dst string) error {
	p, err := d.Parcel(ctx, namespace, digest)
	if err != nil {
		return err
	}
	err = p.Checkout(ctx, path, dst, func(ctx context.Context, c source.Content) (io.ReadCloser, error) {
		return d.open(ctx, namespace, c)
	})
	if errors.Is(err, source.ErrDamaged) {
		d.drop(ctx, namespace, p)
	}
	return err
}

// open opens a content. One that turns out to be damaged is removed.
func (d *Depot) open(ctx context.Context, namespace string, c source.Content) (io.ReadCloser, error) {
	at := key(namespace, blobs, c.Hash)
	in, err := d.opts.Shelf.Get(ctx, at)
	if err != nil {
		return nil, err
	}
	return &checked{verified: newVerified(in, c), Closer: in, wrong: func() { _ = d.opts.Shelf.Delete(ctx, at) }}, nil
}

// drop removes the list of a damaged snapshot: the next submission of the same code
// stores it again.
func (d *Depot) drop(ctx context.Context, namespace string, p *source.Parcel) {
	d.forget(namespace + "/" + p.Digest())
	_ = d.opts.Shelf.Delete(ctx, key(namespace, trees, hashOf(p.Digest())))
}

// Keep stores a snapshot of which all contents are at hand. The error wraps [ErrQuota]
// if the namespace may not keep as much.
func (d *Depot) Keep(ctx context.Context, namespace string, p *source.Parcel, open func(source.Content) (io.ReadCloser, error)) error {
	missing, err := d.lacks(ctx, namespace, p)
	if err != nil {
		return err
	}
	for _, c := range p.Contents() {
		if _, lacks := missing[c.Hash]; !lacks {
			continue
		}
		if err := d.keep(ctx, namespace, c, open); err != nil {
			d.recount(namespace)
			return err
		}
	}
	return d.conclude(ctx, namespace, p)
}

func (d *Depot) keep(ctx context.Context, namespace string, c source.Content, open func(source.Content) (io.ReadCloser, error)) error {
	if err := d.charge(ctx, namespace, c.Size); err != nil {
		return err
	}
	in, err := open(c)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	return d.opts.Shelf.Put(ctx, key(namespace, blobs, c.Hash), c.Size, newVerified(in, c))
}
