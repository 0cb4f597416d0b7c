package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
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

// gateway: objects of 64 KB, put and got by 32 clients. What a side has written stays
// until all are measured: for minutes after files were removed, a file system without a
// journal looks at each of them when one is made (ext4: recently_deleted).
func (b *bench) gateway(ctx context.Context) (err error) {
	n := int(8192 * b.scale)
	root := b.path("s3")
	defer func() { err = errors.Join(err, os.RemoveAll(root), syncAll(b.dir)) }()
	var sides [2]struct{ put, get []measured }
	for run := range b.runs {
		for turn := range 2 {
			side := (run + turn) % 2
			name := []string{"gateway", "versitygw"}[side]
			put, get, err := b.load(ctx, name, filepath.Join(root, fmt.Sprint(name, run)), n)
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

// load starts a gateway in a folder, puts objects, gets them in another order, and ends
// it.
func (b *bench) load(ctx context.Context, name, dir string, n int) (put, get measured, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return put, get, err
	}
	defer func() { err = errors.Join(err, syncAll(b.dir)) }()
	side, err := b.serving(ctx, name, dir)
	if err != nil {
		return put, get, err
	}
	defer func() { err = errors.Join(err, side.stop()) }()
	content := make([]byte, s3Object+n)
	if _, err := rand.Read(content); err != nil {
		return put, get, err
	}
	order := mathrand.Perm(n)
	key := func(i int) string { return fmt.Sprintf("main/%02x/%06d", i%64, i) }
	object := func(i int) []byte { return content[i : i+s3Object] } // each another one, none compressible
	if put, err = together(ctx, side, n, func(ctx context.Context, c *minio.Client, i int) error {
		_, err := c.PutObject(ctx, s3Bucket, key(i), bytes.NewReader(object(i)), s3Object, minio.PutObjectOptions{DisableMultipart: true})
		return err
	}); err != nil {
		return put, get, fmt.Errorf("putting: %w", err)
	}
	get, err = together(ctx, side, n, func(ctx context.Context, c *minio.Client, i int) error {
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
func together(ctx context.Context, side served, n int, do func(context.Context, *minio.Client, int) error) (measured, error) {
	transport, err := minio.DefaultTransport(false)
	if err != nil {
		return measured{}, err
	}
	defer transport.CloseIdleConnections() // a gateway that is to end waits for them
	client, err := minio.New(strings.TrimPrefix(side.Endpoint, "http://"), &minio.Options{
		Transport: transport, Creds: credentials.NewStaticV4(side.AccessKeyID, side.SecretAccessKey, ""), Region: gateway.Region, BucketLookup: minio.BucketLookupPath, MaxRetries: 1,
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

// served is a gateway that serves, and a key to it, as muster data key create -o json
// prints them.
type served struct {
	Endpoint, AccessKeyID, SecretAccessKey string

	stop func() error
}

// serving starts a gateway in a process of its own; ours as a part of muster up, where
// that program is given.
func (b *bench) serving(ctx context.Context, name, dir string) (served, error) {
	if name == "gateway" && b.muster != "" {
		return b.wholeMuster(ctx, dir)
	}
	self, err := os.Executable()
	if err != nil {
		return served{}, err
	}
	cmd := exec.CommandContext(ctx, self, "-step", name, "--", dir)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return served{}, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return served{}, err
	}
	if err := cmd.Start(); err != nil {
		return served{}, err
	}
	stop := func() error { return errors.Join(in.Close(), cmd.Wait()) }
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return served{}, fmt.Errorf("starting %s: %w", name, errors.Join(err, stop()))
	}
	return served{Endpoint: strings.TrimSpace(line), AccessKeyID: s3Key, SecretAccessKey: s3Secret, stop: stop}, nil
}

// wholeMuster starts an embedded Muster, with a dataset and a key.
func (b *bench) wholeMuster(ctx context.Context, dir string) (served, error) {
	do := func(args ...string) ([]byte, error) {
		cmd := exec.CommandContext(ctx, b.muster, append([]string{"--home", dir}, args...)...)
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			err = fmt.Errorf("muster %s: %w", strings.Join(args, " "), err)
		}
		return out, err
	}
	stop := func() error {
		_, err := do("down")
		return err
	}
	_, err := do("up", "--detach")
	if err == nil {
		_, err = do("data", "create", s3Bucket)
	}
	side := served{stop: stop}
	var key []byte
	if err == nil {
		key, err = do("data", "key", "create", "-o", "json")
	}
	if err == nil {
		err = json.Unmarshal(key, &side)
	}
	if err != nil {
		return served{}, errors.Join(err, stop())
	}
	return side, nil
}
