package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"golang.org/x/sync/errgroup"

	"github.com/muster-dev/muster/internal/gateway"
)

const (
	s3Clients = 32
	s3Object  = 64 << 10
)

// gateway: objects of 64 KB, put and got by 32 clients.
func (b *bench) gateway(ctx context.Context) error {
	n := int(8192 * b.scale)
	var sides [2]struct{ put, get []measured }
	for run := range b.runs {
		for turn := range 2 {
			side := (run + turn) % 2
			put, get, err := b.load(ctx, []string{"gateway", "versitygw"}[side], n)
			if err != nil {
				return err
			}
			sides[side].put, sides[side].get = append(sides[side].put, put), append(sides[side].get, get)
		}
	}
	rate := func(m measured) string { return fmt.Sprintf("%.0f/s (%.1f s)", float64(n)/m.Seconds, m.Seconds) }
	for _, what := range []struct {
		name         string
		ours, theirs measured
	}{{"put", median(sides[0].put), median(sides[1].put)}, {"get", median(sides[0].get), median(sides[1].get)}} {
		b.say(fmt.Sprintf("S3 gateway: %s %d objects of 64 KB, %d clients", what.name, n, s3Clients), rate(what.ours),
			"versitygw on POSIX, not synced, "+rate(what.theirs), ">= 0.7 of it", what.theirs.Seconds/what.ours.Seconds >= 0.7)
	}
	return nil
}

// load starts a gateway, puts objects, gets them in another order, and ends it.
func (b *bench) load(ctx context.Context, name string, n int) (put, get measured, err error) {
	dir := b.path(name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return put, get, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir), syncAll(b.dir)) }()
	address, stop, err := serving(ctx, name, dir)
	if err != nil {
		return put, get, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	content := make([]byte, s3Object+n)
	if _, err := rand.Read(content); err != nil {
		return put, get, err
	}
	order := mathrand.Perm(n)
	key := func(i int) string { return fmt.Sprintf("main/%02x/%06d", i%64, i) }
	object := func(i int) []byte { return content[i : i+s3Object] } // each another one, none compressible
	if put, err = together(ctx, address, n, func(ctx context.Context, c *minio.Client, i int) error {
		_, err := c.PutObject(ctx, s3Bucket, key(i), bytes.NewReader(object(i)), s3Object, minio.PutObjectOptions{DisableMultipart: true})
		return err
	}); err != nil {
		return put, get, fmt.Errorf("putting: %w", err)
	}
	get, err = together(ctx, address, n, func(ctx context.Context, c *minio.Client, i int) error {
		o, err := c.GetObject(ctx, s3Bucket, key(order[i]), minio.GetObjectOptions{})
		if err != nil {
			return err
		}
		got, err := io.ReadAll(o)
		if err == nil && !bytes.Equal(got, object(order[i])) {
			err = fmt.Errorf("%s came back as something else", key(order[i]))
		}
		return errors.Join(err, o.Close())
	})
	return put, get, err
}

// together has all clients do their share.
func together(ctx context.Context, address string, n int, do func(context.Context, *minio.Client, int) error) (measured, error) {
	client, err := minio.New(strings.TrimPrefix(address, "http://"), &minio.Options{
		Creds: credentials.NewStaticV4(s3Key, s3Secret, ""), Region: gateway.Region, BucketLookup: minio.BucketLookupPath, MaxRetries: 1,
	})
	if err != nil {
		return measured{}, err
	}
	begun := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	for c := range s3Clients {
		group.Go(func() error {
			for i := c; i < n; i += s3Clients {
				if err := do(ctx, client, i); err != nil {
					return err
				}
			}
			return nil
		})
	}
	err = group.Wait()
	return measured{Seconds: time.Since(begun).Seconds()}, err
}

// serving starts a gateway in a process of its own.
func serving(ctx context.Context, name, dir string) (address string, stop func() error, err error) {
	self, err := os.Executable()
	if err != nil {
		return "", nil, err
	}
	cmd := exec.CommandContext(ctx, self, "-step", name, "--", dir)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return "", nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return "", nil, fmt.Errorf("starting %s: %w", name, errors.Join(err, in.Close(), cmd.Wait()))
	}
	return strings.TrimSpace(line), func() error { return errors.Join(in.Close(), cmd.Wait()) }, nil
}
