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
	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/internal/gateway"
)

const (
	s3Clients = 32
	s3Object  = 64 << 10
	// syncFlag is FS_SYNC_FL of linux/fs.h.
	syncFlag = 0x8
)

// rival is who serves objects in one part of a run.
type rival struct {
	serves string
	// synchronous has the kernel write what is put before its answer: versitygw has no
	// setting for that.
	synchronous bool
	marks       []marks
}

// marks are how long it took to put objects, to put them and sync the disk, and to get them.
type marks struct{ put, synced, get measured }

// of is the median of what one of the marks is in all runs.
func (r *rival) of(which func(marks) measured) measured {
	all := make([]measured, len(r.marks))
	for i := range r.marks {
		all[i] = which(r.marks[i])
	}
	return median(all)
}

// gateway: objects of 64 KB, put and got by 32 clients. Ours are on disk when the answer
// comes. Those of versitygw are not: so it is also measured until the disk is synced, as cp
// is, and on a folder whose files are written at once. What a side has written stays until
// all are measured: for minutes after files were removed, a file system without a journal
// looks at each of them when one is made (ext4: recently_deleted). What the host of a virtual
// machine took of the processors is told with each figure: ours fell with it more than those
// of versitygw where that was looked at.
func (b *bench) gateway(ctx context.Context) (err error) {
	n := int(8192 * b.scale)
	root := b.path("s3")
	defer func() { err = errors.Join(err, os.RemoveAll(root), syncAll(b.dir)) }()
	rivals := []*rival{{serves: "gateway"}, {serves: "versitygw"}, {serves: "versitygw", synchronous: true}}
	for run := range b.runs {
		for turn := range rivals {
			side := (run + turn) % len(rivals)
			r := rivals[side]
			m, err := b.load(ctx, r, filepath.Join(root, fmt.Sprintf("%s%d-%d", r.serves, side, run)), n)
			if err != nil {
				return err
			}
			r.marks = append(r.marks, m)
		}
	}
	put, synced, get := func(m marks) measured { return m.put }, func(m marks) measured { return m.synced }, func(m marks) measured { return m.get }
	ours, theirs, atOnce := rivals[0], rivals[1], rivals[2]
	rate := func(m measured) string { return fmt.Sprintf("%.0f/s (%.1f s)", float64(n)/m.Seconds, m.Seconds) }
	for _, row := range []struct {
		what         string
		ours, theirs measured
		by, target   string
	}{
		{"put", ours.of(put), theirs.of(synced), "and sync", ">= 0.7 of it"},
		{"put", ours.of(put), theirs.of(put), "not synced", "-"},
		{"put", ours.of(put), atOnce.of(put), "each object synced, as ours are", "-"},
		{"get", ours.of(get), theirs.of(get), "", ">= 0.7 of it"},
	} {
		b.say(fmt.Sprintf("S3 gateway: %s %d objects of 64 KB, %d clients", row.what, n, s3Clients), rate(row.ours),
			strings.TrimSuffix("versitygw on POSIX, "+row.by, ", ")+": "+rate(row.theirs)+fmt.Sprintf(", %.2f of it (the host took %.1f and %.1f %% of the processors)", row.theirs.Seconds/row.ours.Seconds, 100*row.ours.Stolen, 100*row.theirs.Stolen),
			row.target, row.theirs.Seconds/row.ours.Seconds >= 0.7)
	}
	return nil
}

// load starts a gateway in a folder, puts objects, gets them in another order, and ends
// it.
func (b *bench) load(ctx context.Context, r *rival, dir string, n int) (m marks, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return m, err
	}
	if r.synchronous {
		if err := writtenAtOnce(dir); err != nil {
			return m, err
		}
	}
	defer func() { err = errors.Join(err, syncAll(b.dir)) }()
	side, err := b.serving(ctx, r.serves, dir)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, side.stop()) }()
	content := make([]byte, s3Object+n)
	if _, err := rand.Read(content); err != nil {
		return m, err
	}
	order := mathrand.Perm(n)
	key := func(i int) string { return fmt.Sprintf("main/%02x/%06d", i%64, i) }
	object := func(i int) []byte { return content[i : i+s3Object] } // each another one, none compressible
	before, err := processors()
	if err != nil {
		return m, err
	}
	begun := time.Now()
	if m.put, err = together(ctx, side, n, func(ctx context.Context, c *minio.Client, i int) error {
		_, err := c.PutObject(ctx, s3Bucket, key(i), bytes.NewReader(object(i)), s3Object, minio.PutObjectOptions{DisableMultipart: true})
		return err
	}); err != nil {
		return m, fmt.Errorf("putting: %w", err)
	}
	if err := syncAll(b.dir); err != nil {
		return m, err
	}
	if m.synced, err = since(begun, before); err != nil {
		return m, err
	}
	m.get, err = together(ctx, side, n, func(ctx context.Context, c *minio.Client, i int) error {
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
	return m, err
}

// writtenAtOnce has the kernel write all that is made below a folder before whoever wrote
// it goes on, as chattr +S does.
func writtenAtOnce(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	fd := int(d.Fd())
	flags, err := unix.IoctlGetInt(fd, unix.FS_IOC_GETFLAGS)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, flags|syncFlag)
	}
	if err != nil {
		err = fmt.Errorf("having %s be written at once, which takes a file system such as ext4: %w", dir, err)
	}
	return errors.Join(err, d.Close())
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
	before, err := processors()
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
	if err := group.Wait(); err != nil {
		return measured{}, err
	}
	return since(begun, before)
}

// since is how long something took that began then, and what the host took meanwhile.
func since(begun time.Time, before ticks) (measured, error) {
	seconds := time.Since(begun).Seconds()
	after, err := processors()
	return measured{Seconds: seconds, Stolen: after.since(before)}, err
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
