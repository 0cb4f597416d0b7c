package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/muster-dev/muster/internal/bucket"
	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/backend"
	"github.com/muster-dev/muster/internal/data/cache"
	"github.com/muster-dev/muster/internal/data/ref"
)

// bucketStep does one step on a store in a bucket: its arguments are the service's
// address, the folder of heads, and what is put or where the cache is.
func bucketStep(ctx context.Context, name string, args []string) error {
	begun := time.Now()
	bytes, err := backend.OpenBucket(bucket.Options{Endpoint: args[0], Bucket: bucketName, Region: "us-east-1"}, "store")
	if err != nil {
		return err
	}
	heads, err := ref.OpenFolder(args[1])
	if err != nil {
		return err
	}
	store, err := data.Open(ctx, data.Options{Backend: bytes})
	if err != nil {
		return err
	}
	d := store.Dataset(heads)
	var m measured
	if name == "fill" {
		m, err = put(ctx, d, args[2], false)
	} else {
		m, err = readByCache(ctx, d, args[2])
	}
	m.Seconds = time.Since(begun).Seconds()
	if err = errors.Join(err, store.Close()); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(m)
}

// readByCache has the files be on this machine, as a node's agent does, and reads them.
func readByCache(ctx context.Context, d *data.Dataset, dir string) (measured, error) {
	v, err := d.At(ctx, "main")
	if err != nil {
		return measured{}, err
	}
	c, err := cache.Open(cache.Options{Dir: dir, Guarded: true})
	if err != nil {
		return measured{}, err
	}
	folder, release, err := c.Ensure(ctx, v, "", nil)
	if err != nil {
		return measured{}, err
	}
	defer release()
	m, err := readBack(ctx, folder.Path)
	if err == nil && m.Files != folder.Files {
		err = fmt.Errorf("%d of %d files were read", m.Files, folder.Files)
	}
	return m, err
}
