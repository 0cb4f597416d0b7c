package depot

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"sync"
	"time"

	"github.com/muster-dev/muster/internal/door/shelf"
	"github.com/muster-dev/muster/internal/environment/source"
)

// The defaults of a depot.
const (
	DefaultQuota     = 20 << 30
	DefaultRetention = 14 * 24 * time.Hour
	// Forever is a retention after which nothing goes.
	Forever = 100 * 365 * 24 * time.Hour
)

// ErrNotStored is returned, wrapped, for a snapshot that the namespace does not
// have.
var ErrNotStored = source.ErrNotStored

// ErrQuota is returned, wrapped, where a namespace has used up its quota.
var ErrQuota = errors.New("the quota is used up")

// ErrInvalid is returned, wrapped, for what was sent and is not what it claims
// to be.
var ErrInvalid = errors.New("not a snapshot")

// Options are what a Depot is made of. Shelf is required.
type Options struct {
	Shelf shelf.Shelf
	// Limits bound one snapshot.
	Limits source.Limits
	// Quota is how many bytes a namespace may keep. Default: [DefaultQuota].
	Quota int64
	// Retention is for how long something is kept that nobody uses. Default:
	// [DefaultRetention].
	Retention time.Duration
	// Room refuses so many bytes more where the disk has no room. Default: the disk is
	// asked when they are written.
	Room func(more int64) error
	// Now is the clock. Default: [time.Now].
	Now func() time.Time
}

// Depot keeps the code of jobs. Its methods may be called from several
// goroutines.
type Depot struct {
	opts Options

	mu    sync.Mutex
	known map[string]known
	used  map[string]usage
}

// known is a snapshot that was there a moment ago.
type known struct {
	parcel *source.Parcel
	seen   time.Time
	// noted is when its use was last written down.
	noted time.Time
}

// usage is how much a namespace keeps.
type usage struct {
	bytes   int64
	counted time.Time
}

const (
	// believe is for how long what was seen on the shelf is taken to be so.
	believe = time.Minute
	// noteEvery is how often the use of a snapshot is written down.
	noteEvery = time.Hour
	// remembered is how many snapshots are remembered, and how many bytes their
	// lists may have.
	remembered      = 64
	rememberedBytes = 256 << 10
)

// New returns a depot on a shelf.
func New(o Options) *Depot {
	if o.Quota == 0 {
		o.Quota = DefaultQuota
	}
	if o.Retention == 0 {
		o.Retention = DefaultRetention
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Depot{opts: o, known: map[string]known{}, used: map[string]usage{}}
}

// The parts of a namespace's code.
const (
	trees = "trees"
	blobs = "blobs"
	uses  = "uses"
)

func key(namespace, part, hash string) string {
	if part == blobs {
		return "code/" + namespace + "/" + part + "/" + hash[:2] + "/" + hash
	}
	return "code/" + namespace + "/" + part + "/" + hash
}

func hashOf(digest string) string { return strings.TrimPrefix(digest, "sha256:") }

// Has reports whether a namespace has a snapshot, and counts as use of it: what
// was found stays for the retention.
func (d *Depot) Has(ctx context.Context, namespace, digest string) (bool, error) {
	_, err := d.Parcel(ctx, namespace, digest)
	if errors.Is(err, ErrNotStored) {
		return false, nil
	}
	return err == nil, err
}

// Parcel returns the list of a snapshot's contents, and counts as use of it.
func (d *Depot) Parcel(ctx context.Context, namespace, digest string) (*source.Parcel, error) {
	if err := source.CheckDigest(digest); err != nil {
		return nil, errors.Join(ErrInvalid, err)
	}
	now, id := d.opts.Now(), namespace+"/"+digest
	d.mu.Lock()
	k, there := d.known[id]
	d.mu.Unlock()
	if !there || now.Sub(k.seen) > believe || now.Before(k.seen) {
		parcel, err := d.read(ctx, namespace, digest)
		if err != nil {
			d.forget(id)
			return nil, err
		}
		k.parcel, k.seen = parcel, now
	}
	if now.Sub(k.noted) > noteEvery {
		if err := d.note(ctx, namespace, digest); err != nil {
			return nil, err
		}
		k.noted = now
	}
	d.remember(id, k)
	return k.parcel, nil
}

// recent is the list of a snapshot that was there a moment ago and whose use is
// written down; nil where the shelf has to be asked.
func (d *Depot) recent(namespace, digest string) *source.Parcel {
	now := d.opts.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	k, there := d.known[namespace+"/"+digest]
	if !there || now.Sub(k.seen) > believe || now.Before(k.seen) || now.Sub(k.noted) > noteEvery {
		return nil
	}
	return k.parcel
}

func (d *Depot) forget(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.known, id)
}

func (d *Depot) remember(id string, k known) {
	if len(k.parcel.Encoded()) > rememberedBytes {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.known) >= remembered {
		clear(d.known)
	}
	d.known[id] = k
}

// read reads a list from the shelf. One that is not what its name says is
// removed.
func (d *Depot) read(ctx context.Context, namespace, digest string) (*source.Parcel, error) {
	in, err := d.opts.Shelf.Get(ctx, key(namespace, trees, hashOf(digest)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("code snapshot %s: %w", digest, ErrNotStored)
	}
	if err != nil {
		return nil, fmt.Errorf("reading code snapshot %s: %w", digest, err)
	}
	defer func() { _ = in.Close() }()
	data, err := io.ReadAll(io.LimitReader(in, source.MaxListBytes))
	if err != nil {
		return nil, fmt.Errorf("reading code snapshot %s: %w", digest, err)
	}
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != hashOf(digest) {
		// Out of the way, so that the next run of the same code mends it.
		_ = d.opts.Shelf.Delete(ctx, key(namespace, trees, hashOf(digest)))
		return nil, fmt.Errorf("code snapshot %s: its list of files is %w", digest, source.ErrDamaged)
	}
	p, err := source.ReadParcel(digest, data, d.opts.Limits)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", source.ErrDamaged, err)
	}
	return p, nil
}

// note writes down that a snapshot is used.
func (d *Depot) note(ctx context.Context, namespace, digest string) error {
	if err := d.opts.Shelf.Put(ctx, key(namespace, uses, hashOf(digest)), 0, strings.NewReader("")); err != nil {
		return fmt.Errorf("noting the use of %s: %w", digest, err)
	}
	return nil
}

// Write writes a snapshot as one tar. One that turns out to be damaged is
// removed, so that whoever submits the same code again mends it.
func (d *Depot) Write(ctx context.Context, namespace string, p *source.Parcel, out io.Writer) error {
	contents := readAhead(ctx, p.Sequence(), func(ctx context.Context, c source.Content) (io.ReadCloser, error) {
		return d.open(ctx, namespace, c)
	})
	defer contents.stop()
	err := p.WriteTar(ctx, out, contents.open)
	if errors.Is(err, source.ErrDamaged) {
		d.drop(ctx, namespace, p)
	}
	return err
}

// checked is a stored content that is removed if it is no longer what it was.
type checked struct {
	*verified
	io.Closer
	wrong func()
}

func (c *checked) Read(p []byte) (int, error) {
	n, err := c.verified.Read(p)
	if errors.Is(err, ErrInvalid) {
		c.wrong()
		err = source.ErrDamaged
	}
	return n, err
}
