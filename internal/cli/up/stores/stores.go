package stores

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/muster-dev/muster/internal/cli/data/opening"
	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/warehouse"
	"github.com/muster-dev/muster/internal/door/depot"
	"github.com/muster-dev/muster/internal/door/shelf"
	"github.com/muster-dev/muster/internal/environment/retention"
	"github.com/muster-dev/muster/internal/environment/source"
	"github.com/muster-dev/muster/internal/osfile"
	"github.com/muster-dev/muster/internal/room"
)

// Folder is the name of the folder of all stores in the data folder.
const Folder = opening.SharedFolder

// The folders in it, beside that of data. Those of code and environments are the depot's.
const (
	codeFolder     = "code"
	grantsFolder   = "grants"
	incomingFolder = ".fetched"
)

// Options say where the stores are, and what bounds them. Home is required.
type Options struct {
	// Home is the data folder.
	Home string
	// CodeQuota and DataQuota are the bytes that a namespace may keep. Default:
	// [depot.DefaultQuota], and a quarter of the disk of the data folder.
	CodeQuota, DataQuota int64
	// KeepCode is how long after its last use code stays that no object of its
	// namespace names. 0: for ever.
	KeepCode time.Duration
	// Transport carries the requests for scripts. Default: one that refuses addresses of
	// this machine.
	Transport http.RoundTripper
	// Now is the clock. Default: [time.Now].
	Now func() time.Time
	// Log hears of what no caller can be told. Default: nobody.
	Log *slog.Logger
}

// Stores are the stores of all namespaces of a machine. All methods may be called
// concurrently.
type Stores struct {
	opts    Options
	depot   *depot.Depot
	library *Library
	data    *warehouse.Warehouse
	grants  *Grants
}

// Open opens the stores in a data folder, which belongs to this process alone. It refuses
// the data folder of a Muster of one user: see [Upgrade].
func Open(o Options) (*Stores, error) {
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	if err := upgraded(o.Home); err != nil {
		return nil, err
	}
	dir := filepath.Join(o.Home, Folder)
	if err := osfile.MakeFolder(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the folder of all stores: %w", err)
	}
	objects, err := shelf.OpenFolder(dir)
	if err != nil {
		return nil, err
	}
	full := func(more int64) error { return room.Check(o.Home, more) }
	s := &Stores{opts: o, depot: depot.New(depot.Options{Shelf: objects, Quota: o.CodeQuota, Retention: o.KeepCode, Room: full, Now: o.Now})}
	s.data, err = warehouse.Open(warehouse.Options{Folder: opening.SharedData(o.Home), Quota: o.DataQuota, Room: full, Now: o.Now})
	if err != nil {
		return nil, err
	}
	if s.grants, err = openGrants(filepath.Join(dir, grantsFolder)); err != nil {
		return nil, err
	}
	s.library, err = s.openLibrary(filepath.Join(dir, incomingFolder))
	return s, err
}

// complete fills in the defaults.
func (o Options) complete() (Options, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	// Between an upload and the job that names it nothing does.
	if o.KeepCode > 0 {
		o.KeepCode = max(o.KeepCode, 2*retention.Grace)
	} else {
		o.KeepCode = depot.Forever
	}
	if o.DataQuota == 0 {
		size, _, err := osfile.Space(o.Home)
		if err != nil {
			return o, fmt.Errorf("measuring the disk of %s: %w", o.Home, err)
		}
		o.DataQuota = size / 4
	}
	return o, nil
}

// Library is the code of all namespaces as the controllers see it: an owner is
// "<namespace>/<name>".
func (s *Stores) Library() *Library { return s.library }

// Code is the code of all namespaces as the node and builds see it.
func (s *Stores) Code() Code { return Code{s.depot} }

// Grants say which namespace may use which environment.
func (s *Stores) Grants() *Grants { return s.grants }

// Data has the store of data of each namespace, as the S3 gateway sees it.
func (s *Stores) Data() *warehouse.Warehouse { return s.data }

// Store is the store of data of a namespace, for readers. Do not close it.
func (s *Stores) Store(ctx context.Context, namespace string) (*data.Store, error) {
	return s.data.Store(ctx, namespace)
}

// Results is the same store for results of pipelines, which the quota of the namespace
// bounds as they are written.
func (s *Stores) Results(ctx context.Context, namespace string) (*data.Store, error) {
	return s.data.Bounded(ctx, namespace)
}

// Code is code as the node and builds of environments see it.
type Code struct{ depot *depot.Depot }

// lookTimeout bounds a look at what is stored.
const lookTimeout = 30 * time.Second

// Checkout implements volume.Code.
func (c Code) Checkout(ctx context.Context, namespace, digest, dir string) error {
	return c.depot.Checkout(ctx, namespace, digest, dir)
}

// CheckoutPart implements environment.Code.
func (c Code) CheckoutPart(ctx context.Context, namespace, digest, path, dst string) error {
	return c.depot.CheckoutPart(ctx, namespace, digest, path, dst)
}

// Part implements environment.Code.
func (c Code) Part(namespace, digest, path string) (source.Part, error) {
	ctx, cancel := context.WithTimeout(context.Background(), lookTimeout)
	defer cancel()
	p, err := c.depot.Parcel(ctx, namespace, digest)
	if err != nil {
		return source.Part{}, err
	}
	return p.Part(path)
}

// Library answers controllers, and fetches scripts for the namespaces that ask.
type Library struct {
	*depot.Sources
	fetcher *source.Fetcher
	news    chan string
}

func (s *Stores) openLibrary(temp string) (*Library, error) {
	if err := os.RemoveAll(temp); err != nil { // of a process that was killed
		return nil, fmt.Errorf("removing scripts that came in part: %w", err)
	}
	if err := osfile.MakeFolder(temp, 0o700); err != nil {
		return nil, fmt.Errorf("making a folder for scripts: %w", err)
	}
	fetcher, err := source.NewFetcher(source.FetcherOptions{
		Shared:    &source.Shared{Scope: namespaceOf, Dir: temp, Keep: s.keepScript},
		Transport: s.opts.Transport, Now: s.opts.Now, Log: s.opts.Log,
	})
	return &Library{Sources: s.depot.Sources(), fetcher: fetcher, news: make(chan string)}, err
}

// keepScript stores a script that was fetched.
func (s *Stores) keepScript(ctx context.Context, namespace, file string) (string, error) {
	p, err := source.FileParcel(file)
	if err != nil {
		return "", fmt.Errorf("reading the script: %w", err)
	}
	err = s.depot.Keep(ctx, namespace, p, func(source.Content) (io.ReadCloser, error) { return os.Open(file) })
	return p.Digest(), err
}

// Ensure answers how far the fetch of a script for an owner is, as [source.Fetcher.Ensure]
// does.
func (l *Library) Ensure(owner, url string) source.State { return l.fetcher.Ensure(owner, url) }

// Changes tells when to ask again.
func (l *Library) Changes() <-chan string { return l.news }

// Run looks for code and fetches scripts until ctx ends.
func (l *Library) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	var errs [2]error
	wg.Go(func() { errs[0] = l.fetcher.Run(ctx) })
	wg.Go(func() { errs[1] = l.Start(ctx) })
	for ctx.Err() == nil {
		var name string
		select {
		case <-ctx.Done():
		case name = <-l.fetcher.Changes():
		case name = <-l.Sources.Changes():
		}
		select {
		case <-ctx.Done():
		case l.news <- name:
		}
	}
	wg.Wait()
	return errors.Join(errs[:]...)
}

// namespaceOf is that of an owner.
func namespaceOf(owner string) string {
	namespace, _, _ := strings.Cut(owner, "/")
	return namespace
}
