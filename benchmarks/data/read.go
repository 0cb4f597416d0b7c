package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"golang.org/x/sync/errgroup"
)

// bucketName is the bucket that is made and removed.
const bucketName = "muster-bench-data"

// read: a job that reads many files, which are in a bucket far away, by the cache of
// its node.
func (b *bench) read(ctx context.Context) (err error) {
	if b.s3 == "" {
		end, err := b.service(ctx)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, end()) }()
	}
	n := int(100_000 * b.scale)
	if err := manyFiles(b.path("many"), n, 80_000); err != nil {
		return err
	}
	remove, err := b.makeBucket(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	if err := b.fill(ctx); err != nil {
		return err
	}
	far, closeFar, err := b.farAway(ctx)
	if err != nil {
		return err
	}
	defer closeFar()
	cold, rclone, err := b.pair(ctx, b.quiet("many", "fetched", "copied"),
		func() (measured, error) { return step(ctx, "read", far, b.path("heads"), b.path("fetched")) },
		func() (measured, error) { return b.rclone(ctx, far) })
	if err != nil {
		return err
	}
	// Both at once may be more than the kernel keeps in memory: each has its own files there.
	warm, local, err := b.pair(ctx, func() error { return nil },
		after(b.quiet("fetched"), func() (measured, error) { return step(ctx, "read", far, b.path("heads"), b.path("fetched")) }),
		after(b.quiet("many"), func() (measured, error) { return readBack(ctx, b.path("many")) }))
	if err != nil {
		return err
	}
	speed := func(m measured) string {
		return fmt.Sprintf("%.0f MB/s (%.1f s)", float64(n)*80_000/mb/m.Seconds, m.Seconds)
	}
	what := fmt.Sprintf("a job reads %.1f GB in %d files, ", float64(n)*80_000/1e9, n)
	b.say(what+fmt.Sprintf("cold from S3 with %s added", b.delay), speed(cold), "rclone copy, 64 transfers, and reading it "+speed(rclone),
		">= 1.0 of it", rclone.Seconds/cold.Seconds >= 1)
	b.say(what+"warm", speed(warm), "the same from local disk "+speed(local), ">= 0.9 of it", local.Seconds/warm.Seconds >= 0.9)
	var errs []error
	for _, path := range []string{"many", "fetched", "copied", "heads"} {
		errs = append(errs, os.RemoveAll(b.path(path)))
	}
	return errors.Join(errs...)
}

// service starts an S3 service on a folder, and has what follows use it.
func (b *bench) service(ctx context.Context) (end func() error, err error) {
	dir := b.path("service")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	side, err := b.serving(ctx, "versitygw", dir)
	if err != nil {
		return nil, err
	}
	b.s3 = side.Endpoint
	if err := os.Unsetenv("AWS_CA_BUNDLE"); err != nil { // there is no TLS here, and rclone fails over it
		return nil, errors.Join(err, side.stop())
	}
	return func() error { return errors.Join(side.stop(), os.RemoveAll(dir)) },
		errors.Join(os.Setenv("AWS_ACCESS_KEY_ID", side.AccessKeyID), os.Setenv("AWS_SECRET_ACCESS_KEY", side.SecretAccessKey))
}

// makeBucket makes the bucket; the answer removes it with what is in it.
func (b *bench) makeBucket(ctx context.Context) (remove func() error, err error) {
	service, err := url.Parse(b.s3)
	if err != nil {
		return nil, fmt.Errorf("-s3 %s: %w", b.s3, err)
	}
	client, err := minio.New(service.Host, &minio.Options{Creds: credentials.NewEnvAWS(), Region: "us-east-1", Secure: service.Scheme == "https"})
	if err != nil {
		return nil, err
	}
	if err := client.MakeBucket(ctx, bucketName, minio.MakeBucketOptions{}); err != nil {
		return nil, fmt.Errorf("making a bucket: %w", err)
	}
	return func() error {
		ctx := context.WithoutCancel(ctx)
		objects := client.ListObjects(ctx, bucketName, minio.ListObjectsOptions{Recursive: true})
		var errs []error
		for failed := range client.RemoveObjects(ctx, bucketName, objects, minio.RemoveObjectsOptions{}) {
			errs = append(errs, failed.Err)
		}
		return errors.Join(append(errs, client.RemoveBucket(ctx, bucketName))...)
	}, nil
}

// fill puts the files into the bucket, once as a dataset and once as they are.
func (b *bench) fill(ctx context.Context) error {
	if _, err := step(ctx, "fill", b.s3, b.path("heads"), b.path("many")); err != nil {
		return err
	}
	_, err := other(ctx, "", b.copier, append(rcloneFlags(b.s3), "copy", b.path("many"), ":s3:"+bucketName+"/files")...)
	return err
}

// rcloneFlags name the service, and have rclone do much at once.
func rcloneFlags(endpoint string) []string {
	return []string{"--config", "/dev/null", "--s3-provider", "Other", "--s3-env-auth", "--s3-endpoint", endpoint, "--s3-force-path-style",
		"--transfers", "64", "--checkers", "64", "--s3-no-check-bucket"}
}

// rclone copies the files and reads them.
func (b *bench) rclone(ctx context.Context, endpoint string) (measured, error) {
	copied, err := other(ctx, "", b.copier, append(rcloneFlags(endpoint), "copy", ":s3:"+bucketName+"/files", b.path("copied"))...)
	if err != nil {
		return copied, err
	}
	back, err := readBack(ctx, b.path("copied"))
	copied.Seconds += back.Seconds
	return copied, err
}

// farAway is an address at which the service answers later.
func (b *bench) farAway(ctx context.Context) (address string, end func(), err error) {
	service, err := url.Parse(b.s3)
	if err != nil {
		return "", nil, err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	proxy := &httputil.ReverseProxy{
		// The host stays the one that was asked for: it is signed.
		Rewrite:   func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = service.Scheme, service.Host },
		Transport: &http.Transport{MaxIdleConnsPerHost: 256, DisableCompression: true},
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		timer := time.NewTimer(b.delay)
		defer timer.Stop()
		select {
		case <-timer.C:
			proxy.ServeHTTP(w, r)
		case <-r.Context().Done():
		}
	})}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(listener)
	}()
	return "http://" + listener.Addr().String(), func() {
		_ = server.Close()
		<-ended
	}, nil
}

// readBack reads all files of a folder, two at once, as a job does that feeds a GPU.
func readBack(ctx context.Context, dir string) (measured, error) {
	begun := time.Now()
	files, err := filepath.Glob(filepath.Join(dir, "d*", "f*"))
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("%s has no files", dir)
	}
	if err != nil {
		return measured{}, err
	}
	group, ctx := errgroup.WithContext(ctx)
	for part := range 2 {
		group.Go(func() error {
			buf := make([]byte, 1<<20)
			for i := part; i < len(files); i += 2 {
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

func readFile(path string, buf []byte) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	for err == nil {
		_, err = file.Read(buf)
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return errors.Join(err, file.Close())
}
