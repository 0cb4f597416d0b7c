package kubelet

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/virtual-kubelet/virtual-kubelet/errdefs"
	"github.com/virtual-kubelet/virtual-kubelet/node/api"
	corev1 "k8s.io/api/core/v1"
	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
	utilexec "k8s.io/utils/exec"

	"github.com/muster-dev/muster/internal/node/process"
)

// Pods are the pods of the node. Errors for what is not there satisfy
// errdefs.IsNotFound.
type Pods interface {
	// Container finds the latest attempt of a container, or the one before.
	Container(ctx context.Context, namespace, pod, container string, previous bool) (*process.Process, error)
	// Dial connects to a port that the pod listens on.
	Dial(ctx context.Context, namespace, pod string, port int32) (net.Conn, error)
	// List returns all pods.
	List(ctx context.Context) []*corev1.Pod
	// Summary is what they use.
	Summary(ctx context.Context) (*statsv1alpha1.Summary, error)
}

// Options says how the API is served.
type Options struct {
	// Certificate is what the server shows.
	Certificate tls.Certificate
	// ClientCAs sign clients' certificates.
	ClientCAs *x509.CertPool
	// ClientName is the common name a client must bear; empty: any.
	ClientName string
	// Pods are what is served.
	Pods Pods
}

// How long a stream may be silent, and may take to be set up.
const (
	idleTimeout     = 4 * time.Hour
	creationTimeout = 30 * time.Second
	// closeTimeout is how long requests may go on when the server ends.
	closeTimeout = time.Second
)

// Serve serves the API on a listener until ctx ends.
func Serve(ctx context.Context, listener net.Listener, o Options) error {
	server := &http.Server{
		Handler:           handler(o.Pods),
		ReadHeaderTimeout: creationTimeout,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		TLSConfig: &tls.Config{
			MinVersion:   tls.VersionTLS12,
			Certificates: []tls.Certificate{o.Certificate},
			ClientAuth:   tls.RequireAndVerifyClientCert,
			ClientCAs:    o.ClientCAs,
			// Streams take over the connection, which HTTP/2 cannot give.
			NextProtos:       []string{"http/1.1"},
			VerifyConnection: func(state tls.ConnectionState) error { return verifyName(state, o.ClientName) },
		},
	}
	ended := make(chan error, 1)
	go func() { ended <- server.ServeTLS(listener, "", "") }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	if server.Shutdown(stop) != nil {
		// Streams do not end by themselves.
		_ = server.Close()
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func verifyName(state tls.ConnectionState, name string) error {
	if name == "" {
		return nil
	}
	if len(state.PeerCertificates) == 0 || state.PeerCertificates[0].Subject.CommonName != name {
		return errors.New("this API is for the API server alone")
	}
	return nil
}

// handler routes requests: logs here, because tailLines=0 must be told from no
// tailLines; the rest by the library's handlers.
func handler(pods Pods) http.Handler {
	library := api.PodHandler(api.PodHandlerConfig{
		RunInContainer: func(ctx context.Context, namespace, pod, container string, argv []string, io api.AttachIO) error {
			return run(ctx, pods, namespace, pod, container, argv, io)
		},
		AttachToContainer: func(ctx context.Context, namespace, pod, container string, io api.AttachIO) error {
			return attach(ctx, pods, namespace, pod, container, io)
		},
		PortForward: func(ctx context.Context, namespace, pod string, port int32, stream io.ReadWriteCloser) error {
			return forward(ctx, pods, namespace, pod, port, stream)
		},
		GetPods:               func(ctx context.Context) ([]*corev1.Pod, error) { return pods.List(ctx), nil },
		GetPodsFromKubernetes: func(ctx context.Context) ([]*corev1.Pod, error) { return pods.List(ctx), nil },
		GetStatsSummary:       pods.Summary,
		StreamIdleTimeout:     idleTimeout,
		StreamCreationTimeout: creationTimeout,
	}, true)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", func(w http.ResponseWriter, r *http.Request) {
		logs(w, r, pods)
	})
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	mux.Handle("/", library)
	return mux
}

// run runs a command in a container.
func run(ctx context.Context, pods Pods, namespace, pod, container string, argv []string, io api.AttachIO) error {
	p, err := pods.Container(ctx, namespace, pod, container, false)
	if err != nil {
		return err
	}
	resize, stop := sizes(ctx, io)
	defer stop()
	o := process.ExecOptions{Argv: argv, TTY: io.TTY(), Stdin: io.Stdin(), Resize: resize}
	if out := io.Stdout(); out != nil {
		o.Stdout = out
	}
	if out := io.Stderr(); out != nil {
		o.Stderr = out
	}
	code, err := p.Exec(ctx, o)
	var start *process.StartError
	switch {
	case errors.As(err, &start):
		tell(start, o)
		return utilexec.CodeExitError{Err: start, Code: start.Code}
	case errors.Is(err, process.ErrEnded):
		return fmt.Errorf("the container %s is not running", container)
	case err != nil:
		return err
	case code != 0:
		return utilexec.CodeExitError{Err: fmt.Errorf("exit code %d", code), Code: code}
	}
	return nil
}

// tell writes why a command could not start to its output: clients show only the exit code.
func tell(err *process.StartError, o process.ExecOptions) {
	to, end := o.Stderr, "\n"
	if o.TTY {
		to, end = o.Stdout, "\r\n"
	}
	if to != nil {
		_, _ = io.WriteString(to, "muster: "+err.Message+end)
	}
}

// attach connects to a container's main process.
func attach(ctx context.Context, pods Pods, namespace, pod, container string, io api.AttachIO) error {
	p, err := pods.Container(ctx, namespace, pod, container, false)
	if err != nil {
		return err
	}
	resize, stop := sizes(ctx, io)
	defer stop()
	o := process.AttachOptions{Stdin: io.Stdin(), Resize: resize}
	if out := io.Stdout(); out != nil {
		o.Stdout = out
	}
	if out := io.Stderr(); out != nil {
		o.Stderr = out
	}
	return p.Attach(ctx, o)
}

// sizes passes terminal sizes on until stop is called.
func sizes(ctx context.Context, io api.AttachIO) (out <-chan process.Size, stop func()) {
	if !io.TTY() || io.Resize() == nil {
		return nil, func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	sizes, done := make(chan process.Size), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-ctx.Done():
				return
			case s, ok := <-io.Resize():
				if !ok {
					return
				}
				select {
				case <-ctx.Done():
					return
				case sizes <- process.Size{Columns: s.Width, Rows: s.Height}:
				}
			}
		}
	}()
	return sizes, func() { cancel(); <-done }
}

// forward copies between a stream and a port of the pod until both directions
// are at their end, or one of them breaks.
func forward(ctx context.Context, pods Pods, namespace, pod string, port int32, stream io.ReadWriteCloser) error {
	conn, err := pods.Dial(ctx, namespace, pod, port)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	defer func() { _ = conn.Close() }()
	up := make(chan error, 1)
	go func() {
		_, err := io.Copy(conn, stream)
		if half, ok := conn.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
		up <- err
	}()
	_, down := io.Copy(stream, conn)
	// The other side is at its end; so is what it would still be sent.
	_ = stream.Close()
	return errors.Join(down, ignoreClosed(<-up))
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) || errors.Is(err, io.ErrClosedPipe) {
		return nil
	}
	return err
}

// NotFound is an error for which errdefs.IsNotFound holds.
func NotFound(format string, args ...any) error { return errdefs.NotFoundf(format, args...) }
