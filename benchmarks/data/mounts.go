package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/muster-dev/muster/internal/bucket"
	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/backend"
	"github.com/muster-dev/muster/internal/data/block"
	"github.com/muster-dev/muster/internal/data/mount"
	"github.com/muster-dev/muster/internal/data/ref"
)

// readersAtOnce is how many read small files at once, as the loader of a training does.
const readersAtOnce = 8

// mounts: a long file read from its beginning to its end, and many small ones in no
// order, through a mount that was just made; of a store in a folder and of one in a
// bucket far away, first without and then with what that left on this machine.
func (b *bench) mounts(ctx context.Context) (err error) {
	if err := mount.Available(); err != nil {
		fmt.Fprintln(os.Stderr, "mounts: left out:", err)
		return nil
	}
	long, many := int64(1<<30*b.scale), int(50_000*b.scale)
	if err := errors.Join(os.Mkdir(b.path("tree"), 0o755), randomFile(b.path("tree", "long"), long), manyFiles(b.path("tree", "many"), many, 4096)); err != nil {
		return err
	}
	if _, err := step(ctx, "put", b.path("store"), b.path("tree")); err != nil {
		return err
	}
	for _, what := range []string{"long", "many"} {
		ours, plain, err := b.pair(ctx, b.quiet("store"),
			func() (measured, error) {
				return step(ctx, "mount", "", b.path("store", "heads"), b.path("store", "bytes"), what)
			},
			func() (measured, error) { return readTree(ctx, b.path("tree"), what) })
		if err != nil {
			return err
		}
		b.say(saidOf(what)+" through a mount of a folder", b.rate(what, ours, long, many), "from the disk "+b.rate(what, plain, long, many), "-", true)
	}
	return b.mountsFarAway(ctx, long, many)
}

// mountsFarAway is the same of a bucket.
func (b *bench) mountsFarAway(ctx context.Context, long int64, many int) (err error) {
	service, err := b.serving(ctx, "versitygw", b.path("service"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, service.stop()) }()
	if _, err := step(ctx, "mount-fill", service.Endpoint, b.path("heads"), b.path("tree")); err != nil {
		return err
	}
	distant := *b
	distant.s3 = service.Endpoint
	far, closeFar, err := distant.farAway(ctx)
	if err != nil {
		return err
	}
	defer closeFar()
	for _, what := range []string{"long", "many"} {
		read := func() (measured, error) { return step(ctx, "mount", far, b.path("heads"), b.path("blocks"), what) }
		cold, _, err := b.pair(ctx, b.quiet("tree", "blocks"), read, nil)
		if err != nil {
			return err
		}
		warm, _, err := b.pair(ctx, func() error { return nil }, read, nil)
		if err != nil {
			return err
		}
		b.say(fmt.Sprintf("%s through a mount of S3 with %s added", saidOf(what), b.delay), b.rate(what, cold, long, many),
			"once its blocks are on the disk "+b.rate(what, warm, long, many), "-", true)
	}
	return nil
}

func saidOf(what string) string {
	if what == "long" {
		return "a long file, in order,"
	}
	return fmt.Sprintf("files of 4 KB in no order, %d readers,", readersAtOnce)
}

func (b *bench) rate(what string, m measured, long int64, many int) string {
	if what == "long" {
		return fmt.Sprintf("%.0f MB/s", float64(long)/mb/m.Seconds)
	}
	return fmt.Sprintf("%.0f files/s", float64(many)/m.Seconds)
}

// mountStep mounts, and reads; only the reading counts. Its arguments are the service's
// address (empty: a folder), the folder of heads, that of the bytes or of blocks, and
// what is read.
func mountStep(ctx context.Context, args []string) error {
	store, err := mountStore(ctx, args[0], args[2])
	if err != nil {
		return err
	}
	heads, err := ref.OpenFolder(args[1])
	if err != nil {
		return err
	}
	view, err := store.Dataset(heads).At(ctx, "main")
	if err != nil {
		return err
	}
	point, err := os.MkdirTemp("", "bench-mount-")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(point) }()
	m, err := mount.Open(ctx, mount.Options{View: view, Point: point})
	if err != nil {
		return err
	}
	read, err := readTree(ctx, point, args[3])
	_, closing := m.Close()
	if err = errors.Join(err, closing, store.Close()); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(read)
}

// mountStore is the store of a step.
func mountStore(ctx context.Context, address, folder string) (*data.Store, error) {
	var bytes backend.Backend
	var err error
	if address == "" {
		bytes, err = backend.OpenFolder(folder)
	} else if bytes, err = openServed(address); err == nil && folder != "" {
		bytes, err = block.Open(block.Options{Dir: folder, Behind: bytes})
	}
	if err != nil {
		return nil, err
	}
	return data.Open(ctx, data.Options{Backend: bytes})
}

// openServed is a store in the bucket of a service of our own.
func openServed(address string) (backend.Backend, error) {
	return backend.OpenBucket(bucket.Options{Endpoint: address, Bucket: s3Bucket, Region: "us-east-1", AccessKey: s3Key, SecretKey: s3Secret}, "store")
}

// mountFill puts a folder into that bucket.
func mountFill(ctx context.Context, args []string) error {
	store, err := mountStore(ctx, args[0], "")
	if err != nil {
		return err
	}
	heads, err := ref.OpenFolder(args[1])
	if err != nil {
		return err
	}
	m, err := put(ctx, store.Dataset(heads), args[2], false)
	if err = errors.Join(err, store.Close()); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(m)
}

// readTree reads the long file in order, or the small ones in none.
func readTree(ctx context.Context, dir, what string) (measured, error) {
	if what == "long" {
		begun := time.Now()
		file, err := os.Open(filepath.Join(dir, "long"))
		if err != nil {
			return measured{}, err
		}
		_, err = io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{file}, make([]byte, 1<<20))
		return measured{Seconds: time.Since(begun).Seconds(), Files: 1}, errors.Join(err, file.Close())
	}
	files, err := filepath.Glob(filepath.Join(dir, "many", "d*", "f*"))
	if err != nil {
		return measured{}, err
	}
	rand.New(rand.NewPCG(1, 1)).Shuffle(len(files), func(i, j int) { files[i], files[j] = files[j], files[i] })
	begun := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	for part := range readersAtOnce {
		group.Go(func() error {
			buf := make([]byte, 8192)
			for i := part; i < len(files); i += readersAtOnce {
				if err := errors.Join(readFile(files[i], buf), ctx.Err()); err != nil {
					return err
				}
			}
			return nil
		})
	}
	err = group.Wait()
	return measured{Seconds: time.Since(begun).Seconds(), Files: int64(len(files))}, err
}
