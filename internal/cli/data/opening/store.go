package opening

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/data/address"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/suggestion"
	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/backend"
	"github.com/muster-dev/muster/internal/data/bale"
	"github.com/muster-dev/muster/internal/data/block"
	"github.com/muster-dev/muster/internal/data/commit"
	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/pack"
	"github.com/muster-dev/muster/internal/data/ref"
	"github.com/muster-dev/muster/internal/data/warehouse"
	"github.com/muster-dev/muster/internal/dataset"
	"github.com/muster-dev/muster/internal/room"
)

// Folder is the name, in the home of an embedded Muster, of the folder of all data.
// What S3 clients send in parts is in it, too, below uploads.
const Folder = "data"

// The folders in it: of the bytes themselves, and of what only saves time.
const (
	StoreFolder = "store"
	CacheFolder = "cache"
	// blocksFolder is the end of the name of the folder, beside the notes on what was
	// put into a cluster's store, of what was read of it.
	blocksFolder = "-blocks"
)

// SharedFolder is the name, in the data folder of a Muster that several users share, of the
// folder with the stores of all namespaces.
const SharedFolder = "stores"

// SharedData is the folder in it with the stores of data, each named by its namespace.
func SharedData(home string) string { return filepath.Join(home, SharedFolder, Folder) }

// OpenNamespace opens the store of data of a namespace of such a Muster, to read there.
func OpenNamespace(ctx context.Context, home, namespace string) (*data.Store, error) {
	all, err := warehouse.Open(warehouse.Options{Folder: SharedData(home)})
	if err != nil {
		return nil, err
	}
	return all.Store(ctx, namespace)
}

// Store is the store of data and the server that knows its heads.
type Store struct {
	*data.Store
	// Server has the datasets, Namespace is where the command acts.
	Server    client.WithWatch
	Namespace string
}

// OpenStore opens the store of the Muster that is meant. It must be closed.
func OpenStore(ctx context.Context, f *connection.Factory) (*Store, error) {
	return openStore(ctx, f, false)
}

// openStore opens it; kept has parts of what is read of a cluster's stay on this
// machine, for who reads the same again.
func openStore(ctx context.Context, f *connection.Factory, kept bool) (*Store, error) {
	folder, embedded, err := f.EmbeddedHome()
	if err != nil {
		return nil, err
	}
	server, namespace, err := f.Reach()
	if err != nil {
		return nil, err
	}
	var store *data.Store
	if embedded {
		store, err = OpenFolder(ctx, folder)
	} else {
		store, err = openDoor(ctx, f, namespace, kept)
	}
	if err != nil {
		return nil, err
	}
	return &Store{Store: store, Server: server, Namespace: namespace}, nil
}

// openDoor opens the store of a namespace of a cluster.
func openDoor(ctx context.Context, f *connection.Factory, namespace string, kept bool) (*data.Store, error) {
	manager, err := f.Visitor()
	if err != nil {
		return nil, err
	}
	cache, err := cacheOf(f, namespace)
	if err != nil {
		return nil, err
	}
	var objects backend.Backend = manager.Data(namespace)
	if kept {
		if objects, err = block.Open(block.Options{Dir: cache + blocksFolder, Behind: objects}); err != nil {
			return nil, err
		}
	}
	store, err := data.Open(ctx, data.Options{Backend: objects, Cache: cache})
	if err != nil {
		return nil, fmt.Errorf("opening the store of data: %w", err)
	}
	return store, nil
}

// cacheOf is the folder of notes on what was put into the store of a namespace of a
// cluster: each has its own, or what one has would be taken for what the other has.
func cacheOf(f *connection.Factory, namespace string) (string, error) {
	return clusterPath(f, namespace)
}

// ClusterFile is the path of a file of this machine about the cluster that is meant. The
// folder that it is in need not be there.
func ClusterFile(f *connection.Factory, name string) (string, error) {
	path, err := clusterPath(f, "")
	return path + "-" + name, err
}

func clusterPath(f *connection.Factory, namespace string) (string, error) {
	home, err := f.Home()
	if err != nil {
		return "", err
	}
	server, err := f.ServerID()
	if err != nil {
		return "", err
	}
	which := sha256.Sum256([]byte(server + "\x00" + namespace))
	return filepath.Join(home, "clusters", hex.EncodeToString(which[:16])), nil
}

// Size is how many bytes the store takes: of all datasets that are in it, with all
// their versions.
func Size(ctx context.Context, f *connection.Factory) (total int64, err error) {
	home, embedded, err := f.EmbeddedHome()
	if err != nil {
		return 0, err
	}
	if embedded {
		return folderSize(ctx, filepath.Join(home, Folder, StoreFolder))
	}
	manager, err := f.Visitor()
	if err != nil {
		return 0, err
	}
	namespace, err := f.Namespace()
	if err != nil {
		return 0, err
	}
	objects := manager.Data(namespace)
	for _, prefix := range []string{pack.Prefix, commit.Prefix} {
		err := objects.List(ctx, prefix, func(i backend.Info) error {
			total += i.Size
			return nil
		})
		if err != nil {
			return 0, fmt.Errorf("measuring the store: %w", err)
		}
	}
	return total, nil
}

// folderSize is what the files of a folder have together. One that goes meanwhile
// counts nothing.
func folderSize(ctx context.Context, folder string) (total int64, err error) {
	err = filepath.WalkDir(folder, func(_ string, e fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil {
			total += info.Size()
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("measuring the store: %w", err)
	}
	return total, nil
}

// OpenFolder opens the store in the home of an embedded Muster.
func OpenFolder(ctx context.Context, home string) (*data.Store, error) {
	bytes, err := backend.OpenFolder(filepath.Join(home, Folder, StoreFolder))
	if err != nil {
		return nil, err
	}
	store, err := data.Open(ctx, data.Options{
		Backend: bale.Over(bytes), Cache: filepath.Join(home, Folder, CacheFolder),
		Room: func(more int64) error { return room.Check(home, more) },
	})
	if err != nil {
		return nil, fmt.Errorf("opening the store of data: %w", err)
	}
	return store, nil
}

// Dataset is one dataset of an open store.
type Dataset struct {
	*data.Dataset
	// Store is the store it is in.
	Store *Store
	// Name is the object's.
	Name string
	// Heads are its branches and tags.
	Heads *dataset.Heads
}

// Open opens the store and one dataset, which must be there.
func Open(ctx context.Context, f *connection.Factory, name string) (*Dataset, error) {
	return open(ctx, f, name, false)
}

// OpenKept is [Open] for who reads here and there, and the same again: parts of what is
// read of a cluster's store stay on this machine, as far as there is room.
func OpenKept(ctx context.Context, f *connection.Factory, name string) (*Dataset, error) {
	return open(ctx, f, name, true)
}

func open(ctx context.Context, f *connection.Factory, name string, kept bool) (*Dataset, error) {
	store, err := openStore(ctx, f, kept)
	if err != nil {
		return nil, err
	}
	if _, err := Object(ctx, store.Server, store.Namespace, name); err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return store.Dataset(name), nil
}

// Dataset is one of the namespace's datasets, whether or not it is there.
func (s *Store) Dataset(name string) *Dataset {
	heads := &dataset.Heads{Client: s.Server, Namespace: s.Namespace, Name: name}
	d := &Dataset{Dataset: s.Store.Dataset(heads), Store: s, Name: name, Heads: heads}
	heads.Measure = func(ctx context.Context, id digest.ID) (dataset.Size, error) {
		found, err := d.Resolve(ctx, id.String())
		return dataset.Size{Files: found.Tree.Files, Bytes: found.Tree.Bytes}, err
	}
	return d
}

// Close closes the store.
func (d *Dataset) Close() error { return d.Store.Close() }

// Commit is the commit that an address names.
func (d *Dataset) Commit(ctx context.Context, a address.Address) (commit.Commit, error) {
	found, err := d.Resolve(ctx, a.Revision())
	return found, d.explain(ctx, a, err)
}

// View is what the commit holds that an address names.
func (d *Dataset) View(ctx context.Context, a address.Address) (*data.View, error) {
	view, err := d.At(ctx, a.Revision())
	return view, d.explain(ctx, a, err)
}

// explain says in words of the command line that a version is not there.
func (d *Dataset) explain(ctx context.Context, a address.Address, err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	heads, listing := d.Heads.List(ctx)
	if listing != nil {
		return listing
	}
	if len(heads) == 0 {
		return exit.NotFound("dataset %s has no data yet: its branch main comes with the first `muster data put`", d.Name)
	}
	var names []string
	for name := range heads {
		if name.Kind != ref.Open {
			names = append(names, name.Name)
		}
	}
	if _, open := heads[ref.Name{Kind: ref.Open, Name: a.Branch()}]; open && !slices.Contains(names, a.Branch()) {
		return exit.NotFound("%s@%s has no commits yet; one is open: muster data close %s@%s makes it the first", d.Name, a.Branch(), d.Name, a.Branch())
	}
	if slices.Contains(names, a.Branch()) {
		return exit.NotFound("%s: so many commits before %s there is none; `muster data log %s` lists them", a.Revision(), a.Branch(), d.Name)
	}
	hint := suggestion.Phrase(a.Branch(), names)
	if hint == "" {
		hint = "; it has " + few(names)
	}
	return exit.NotFound("dataset %s has no branch, tag or commit %s%s", d.Name, a.Branch(), hint)
}

// few lists the first names, in their order.
func few(names []string) string {
	const most = 10
	slices.Sort(names)
	if len(names) > most {
		names = append(names[:most:most], "others")
	}
	return strings.Join(names, ", ")
}

// Head is the branch that an address names for new commits: what is not yet
// there is made by them, but no tag and no commit can take any.
func (d *Dataset) Head(ctx context.Context, a address.Address) (string, error) {
	heads, err := d.Heads.List(ctx)
	if err != nil {
		return "", err
	}
	if _, tagged := heads[ref.Name{Kind: ref.Tag, Name: a.Branch()}]; tagged {
		return "", exit.Usage("%s is a tag, and does not move: give a branch, or make one there (muster data branch %s@%s NAME)", a.Branch(), d.Name, a.Branch())
	}
	return a.Branch(), nil
}

// Session begins a change to a branch, or to its open commit. Where the branch moves in that very
// moment, it begins anew.
func (d *Dataset) Session(ctx context.Context, branch string) (*data.Session, error) {
	for {
		session, err := d.Begin(ctx, branch, data.SessionOptions{Open: true})
		if _, moved := errors.AsType[*ref.MovedError](err); !moved || ctx.Err() != nil {
			return session, err
		}
	}
}

// Hold is the view that an address names, which no collection takes away until it
// is given back.
func (d *Dataset) Hold(ctx context.Context, a address.Address) (view *data.View, release func(), err error) {
	found, err := d.Commit(ctx, a)
	if err != nil {
		return nil, nil, err
	}
	lease, err := d.Store.Pin(ctx, found.ID)
	if err != nil {
		return nil, nil, fmt.Errorf("holding %s: %w", a, err)
	}
	// A lease that stays behind ends by itself.
	release = func() { _ = lease.Release(context.WithoutCancel(ctx)) }
	if view, err = d.At(ctx, found.ID.String()); err != nil {
		release()
		return nil, nil, err
	}
	return view, release, nil
}
