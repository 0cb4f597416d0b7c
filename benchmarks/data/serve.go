package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/versity/versitygw/auth"
	"github.com/versity/versitygw/backend/meta"
	"github.com/versity/versitygw/backend/posix"
	"github.com/versity/versitygw/s3api"
	"github.com/versity/versitygw/s3api/middlewares"

	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/backend"
	"github.com/muster-dev/muster/internal/data/ref"
	"github.com/muster-dev/muster/internal/gateway"
)

// The key of the clients of both gateways, and what they write to.
const (
	s3Key    = "MUBENCHMARK"
	s3Secret = "not-a-secret"
	s3Bucket = "digits"
)

// serveS3 serves until standard input ends; where, it prints.
func serveS3(ctx context.Context, peer bool, dir string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	if peer {
		return serveVersity(ctx, dir)
	}
	bytes, err := backend.OpenFolder(filepath.Join(dir, "bytes"))
	if err != nil {
		return err
	}
	store, err := data.Open(ctx, data.Options{Backend: bytes})
	if err != nil {
		return err
	}
	heads, err := ref.OpenFolder(filepath.Join(dir, "heads"))
	if err != nil {
		return err
	}
	known := world{heads}
	g, err := gateway.New(gateway.Options{Stores: gateway.One{All: store, Uploads: bytes}, Catalog: known, Keyring: known})
	if err != nil {
		return err
	}
	return g.Serve(ctx, func(address string) { fmt.Println(address) })
}

// world is one dataset and one key.
type world struct{ heads ref.Heads }

// Datasets implements [gateway.Catalog].
func (world) Datasets(context.Context, string) ([]gateway.Dataset, error) {
	return []gateway.Dataset{{Name: s3Bucket}}, nil
}

// Heads implements [gateway.Catalog].
func (w world) Heads(string, string) ref.Heads { return w.heads }

// Grant implements [gateway.Keyring].
func (world) Grant(_ context.Context, key string) (gateway.Grant, error) {
	if key != s3Key {
		return gateway.Grant{}, gateway.ErrNoKey
	}
	return gateway.Grant{Secret: s3Secret, Namespace: "default", User: "bench"}, nil
}

// May implements [gateway.Keyring].
func (world) May(context.Context, gateway.Grant, gateway.Verb, string) (bool, error) {
	return true, nil
}

// serveVersity serves a folder by versitygw's own POSIX backend, with the settings of
// its command.
func serveVersity(ctx context.Context, dir string) error {
	root := filepath.Join(dir, "posix")
	if err := os.MkdirAll(filepath.Join(root, s3Bucket), 0o755); err != nil {
		return err
	}
	files, err := posix.New(root, meta.XattrMeta{}, posix.PosixOpts{Concurrency: 5000, NewDirPerm: 0o755, ValidateBucketNames: false})
	if err != nil {
		return err
	}
	account := auth.Account{Access: s3Key, Secret: s3Secret, Role: auth.RoleAdmin}
	listens := make(chan struct{})
	server, err := s3api.New(files, middlewares.RootUserConfig{Access: s3Key, Secret: s3Secret}, gateway.Region, auth.NewIAMServiceSingle(account), nil, nil, nil, nil,
		s3api.WithQuiet(), s3api.WithKeepAlive(), s3api.WithDisableACL(), s3api.WithMpMaxParts(10_000),
		s3api.WithConcurrencyLimiter(250_000, 100_000), s3api.WithOnListen(func() { close(listens) }))
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	const address = "127.0.0.1:6481"
	go func() { ended <- server.ServeMultiPort([]string{address}) }()
	select {
	case err := <-ended:
		return err
	case <-listens:
	}
	fmt.Println("http://" + address)
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return server.ShutDown()
	}
}
