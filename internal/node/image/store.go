package image

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	content "github.com/containerd/containerd/api/services/content/v1"
	diff "github.com/containerd/containerd/api/services/diff/v1"
	images "github.com/containerd/containerd/api/services/images/v1"
	introspection "github.com/containerd/containerd/api/services/introspection/v1"
	leases "github.com/containerd/containerd/api/services/leases/v1"
	snapshots "github.com/containerd/containerd/api/services/snapshots/v1"
	streaming "github.com/containerd/containerd/api/services/streaming/v1"
	transfer "github.com/containerd/containerd/api/services/transfer/v1"
	version "github.com/containerd/containerd/api/services/version/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
)

const (
	// Namespace is the one of containerd's namespaces that is Muster's.
	Namespace = "muster"
	// snapshotter is who lays images over one another.
	snapshotter = "overlayfs"
	// answerWithin bounds a call that only reads or writes down something.
	answerWithin = 10 * time.Second
	// cleanWithin bounds a call that removes files.
	cleanWithin = 2 * time.Minute
)

// Options says which containerd is used, and for whom.
type Options struct {
	// Socket is containerd's.
	Socket string
	// Owner names the Muster whose pods hold images, such as its data folder:
	// several may use one containerd.
	Owner string
	// Now is the clock. Default: the machine's.
	Now func() time.Time
}

// Store has images pulled and unpacked by a containerd, which need not be there
// yet, and may be started again at any time. Its methods may be called
// concurrently.
type Store struct {
	socket, owner string
	now           func() time.Time
	conn          *grpc.ClientConn

	content   content.ContentClient
	diff      diff.DiffClient
	images    images.ImagesClient
	plugins   introspection.IntrospectionClient
	leases    leases.LeasesClient
	snapshots snapshots.SnapshotsClient
	streams   streaming.StreamingClient
	transfers transfer.TransferClient
	versions  version.VersionClient

	mu    sync.Mutex
	turns map[string]*turn
}

// Open returns a Store. Nothing is asked of containerd yet.
func Open(o Options) (*Store, error) {
	conn, err := grpc.NewClient("passthrough:///containerd",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", o.Socket)
		}),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 2, MaxDelay: 3 * time.Second}, MinConnectTimeout: answerWithin,
		}))
	if err != nil {
		return nil, fmt.Errorf("making a client of containerd: %w", err)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Store{
		socket: o.Socket, owner: o.Owner, now: o.Now, conn: conn,
		content: content.NewContentClient(conn), diff: diff.NewDiffClient(conn), images: images.NewImagesClient(conn),
		plugins: introspection.NewIntrospectionClient(conn), leases: leases.NewLeasesClient(conn),
		snapshots: snapshots.NewSnapshotsClient(conn), streams: streaming.NewStreamingClient(conn),
		transfers: transfer.NewTransferClient(conn), versions: version.NewVersionClient(conn),
		turns: map[string]*turn{},
	}, nil
}

// Close ends the connection. What is held stays held.
func (s *Store) Close() error { return s.conn.Close() }

// Check returns the version of the containerd that answers, or what is missing
// and what to do about it.
func (s *Store) Check(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	switch _, err := os.Stat(s.socket); {
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("there is no containerd at %s: install and start it (on Debian: apt install containerd), or say where its socket is (muster up --containerd SOCKET)", s.socket)
	case errors.Is(err, fs.ErrPermission):
		return "", fmt.Errorf("containerd's socket %s is not this user's to open: run muster as root", s.socket)
	}
	answer, err := s.versions.Version(ctx, &emptypb.Empty{})
	if err != nil {
		return "", fmt.Errorf("containerd does not answer at %s; is it running? %s", s.socket, words(err))
	}
	found, err := s.plugins.Plugins(ctx, &introspection.PluginsRequest{})
	if err != nil {
		return "", fmt.Errorf("asking containerd %s at %s what it can do: %s", answer.Version, s.socket, words(err))
	}
	if err := able(found.Plugins); err != nil {
		return "", fmt.Errorf("containerd %s at %s cannot be used: %w", answer.Version, s.socket, err)
	}
	return answer.Version, nil
}

// able says what containerd would need and has not.
func able(plugins []*introspection.Plugin) error {
	for _, needed := range []struct{ kind, id, fix string }{
		{"io.containerd.snapshotter.v1", snapshotter, "its root folder must be on a file system that can carry an overlay, such as ext4 or XFS"},
		{"io.containerd.grpc.v1", "transfer", "version 1.7 or later is needed"},
	} {
		says := "it has none"
		for _, p := range plugins {
			if p.Type != needed.kind || p.ID != needed.id {
				continue
			}
			if says = p.InitErr.GetMessage(); p.InitErr == nil {
				says = ""
			}
			break
		}
		if says != "" {
			return fmt.Errorf("its %s does not work (%s): %s", needed.id, says, needed.fix)
		}
	}
	return nil
}

// in is ctx for calls that concern Muster's namespace, and, with a lease's
// name, whose results that lease holds.
func in(ctx context.Context, lease string) context.Context {
	pairs := []string{"containerd-namespace", Namespace}
	if lease != "" {
		pairs = append(pairs, "containerd-lease", lease)
	}
	return metadata.AppendToOutgoingContext(ctx, pairs...)
}

// words is what containerd says of an error, without how it came here, or what to do
// where it cannot be asked.
func words(err error) string {
	s, ok := status.FromError(err)
	switch {
	case !ok:
		return err.Error()
	case strings.Contains(s.Message(), "dial unix") && strings.Contains(s.Message(), "permission denied"):
		return s.Message() + ": run muster as root"
	case strings.Contains(s.Message(), "dial unix"):
		return s.Message() + ": install and start containerd (on Debian: apt install containerd), or leave images out"
	}
	return s.Message()
}

func isCode(err error, code codes.Code) bool { return status.Code(err) == code }

// turn is a lock that is waited for no longer than a context lasts, and that
// is forgotten once nobody wants it.
type turn struct {
	free    chan struct{} // of capacity 1: full while it is taken
	wanting int
}

// await waits for the turn of a name and returns how to give it back.
func (s *Store) await(ctx context.Context, name string) (func(), error) {
	s.mu.Lock()
	t := s.turns[name]
	if t == nil {
		t = &turn{free: make(chan struct{}, 1)}
		s.turns[name] = t
	}
	t.wanting++
	s.mu.Unlock()
	leave := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if t.wanting--; t.wanting == 0 {
			delete(s.turns, name)
		}
	}
	select {
	case t.free <- struct{}{}:
		return func() { <-t.free; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}
