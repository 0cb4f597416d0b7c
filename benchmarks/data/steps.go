package main

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/backend"
	"github.com/muster-dev/muster/internal/data/backend/faulty"
	"github.com/muster-dev/muster/internal/data/bale"
	"github.com/muster-dev/muster/internal/data/ref"
)

// child does one step and prints what it measured.
func child(ctx context.Context, name string, args []string) error {
	begun := time.Now()
	if name == "fill" || name == "read" {
		return bucketStep(ctx, name, args)
	}
	folder, err := backend.OpenFolder(filepath.Join(args[0], "bytes"))
	if err != nil {
		return err
	}
	counted := &faulty.Backend{Inner: folder, Script: &faulty.Script{}}
	heads, err := ref.OpenFolder(filepath.Join(args[0], "heads"))
	if err != nil {
		return err
	}
	// Counting lets one write happen at a time: only what counts reads does it.
	b := bale.Over(folder)
	if name == "diff" || name == "plan" {
		b = counted
	}
	store, err := data.Open(ctx, data.Options{Backend: b, Cache: filepath.Join(args[0], "cache")})
	if err != nil {
		return err
	}
	d := store.Dataset(heads)
	var m measured
	switch name {
	case "put":
		m, err = put(ctx, d, args[1], len(args) > 2)
	case "checkout":
		m, err = checkout(ctx, d, args[1])
	case "make":
		err = makeCommits(ctx, d, args[1])
	case "diff":
		m, err = difference(ctx, d)
	case "run":
		m, err = newPipeline(store, d, args).run(ctx)
	case "plan":
		m, err = newPipeline(store, d, args).plan(ctx)
	case "commits":
		err = oneByOne(ctx, store, d, args[1])
	case "collect":
		m, err = collect(ctx, store, heads)
	case "touch":
		_, err = d.Put(ctx, "main", data.Stream(args[1], strings.NewReader(args[2])), data.PutOptions{})
	default:
		err = fmt.Errorf("there is no step %q", name)
	}
	m.Seconds = time.Since(begun).Seconds()
	m.Reads = counted.Reads()
	if err = errors.Join(err, store.Close()); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(m)
}

// oneByOne makes so many commits of a file of 64 KB each.
func oneByOne(ctx context.Context, store *data.Store, d *data.Dataset, count string) error {
	n, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
	content := make([]byte, s3Object+n)
	if _, err := rand.Read(content); err != nil {
		return err
	}
	lease, err := store.Pin(ctx)
	if err != nil {
		return err
	}
	for i := range n {
		s, err := d.Begin(ctx, "main", data.SessionOptions{Lease: lease})
		if err != nil {
			return err
		}
		err = s.Add(ctx, data.Stream(fmt.Sprintf("%02x/%06d", i%64, i), bytes.NewReader(content[i:i+s3Object])), data.AddOptions{})
		if err == nil {
			_, err = s.Commit(ctx, data.CommitOptions{})
		}
		if err = errors.Join(err, s.Close(ctx)); err != nil {
			return err
		}
	}
	return lease.Release(ctx)
}

// collect makes one pass.
func collect(ctx context.Context, store *data.Store, heads ref.Heads) (measured, error) {
	r, err := store.Collect(ctx, data.CollectOptions{Heads: []ref.Heads{heads}})
	return measured{Files: int64(r.Joined)}, err
}

func put(ctx context.Context, d *data.Dataset, from string, checksum bool) (measured, error) {
	r, err := d.Put(ctx, "main", data.Folder(from), data.PutOptions{AddOptions: data.AddOptions{Checksum: checksum}})
	return measured{Stored: r.Stored, Files: r.Commit.Tree.Files}, err
}

func checkout(ctx context.Context, d *data.Dataset, to string) (measured, error) {
	v, err := d.At(ctx, "main")
	if err != nil {
		return measured{}, err
	}
	r, err := v.Checkout(ctx, to, data.CheckoutOptions{})
	return measured{Files: r.Files}, err
}

func difference(ctx context.Context, d *data.Dataset) (measured, error) {
	from, err := d.At(ctx, "main~1")
	if err != nil {
		return measured{}, err
	}
	to, err := d.At(ctx, "main")
	if err != nil {
		return measured{}, err
	}
	var m measured
	err = data.Diff(ctx, from, to, func(data.Change) error { m.Files++; return nil })
	return m, err
}

// makeCommits makes a commit of so many files of a few bytes, and one with another
// content for one of them.
func makeCommits(ctx context.Context, d *data.Dataset, count string) error {
	n, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
	in, out := io.Pipe()
	go func() { out.CloseWithError(writeTar(out, n)) }()
	_, err = d.Put(ctx, "main", data.Tar(in), data.PutOptions{})
	if err = errors.Join(err, in.Close()); err != nil {
		return err
	}
	_, err = d.Put(ctx, "main", data.Stream(name(n/2), strings.NewReader("changed")), data.PutOptions{})
	return err
}

func name(i int) string { return fmt.Sprintf("d%03d/f%07d.json", i%500, i) }

func writeTar(out io.Writer, n int) error {
	w := tar.NewWriter(out)
	for i := range n {
		text := fmt.Sprintf(`{"number": %d}`, i)
		if err := w.WriteHeader(&tar.Header{Name: name(i), Mode: 0o644, Size: int64(len(text)), Typeflag: tar.TypeReg}); err != nil {
			return err
		}
		if _, err := io.WriteString(w, text); err != nil {
			return err
		}
	}
	return w.Close()
}
