package stagevolume

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"sync"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/agent/inline"
	"github.com/muster-dev/muster/internal/osfile"
)

// Options are what the driver needs.
type Options struct {
	// Node is the name of the node.
	Node string
	// KubeletDir is the kubelet's folder. Default: /var/lib/kubelet.
	KubeletDir string
	// Worker puts the program that workers run into a folder and returns its path.
	Worker func(dir string) (string, error)
	// Pass hands what a pod of a namespace says at a path on to the door.
	Pass func(w http.ResponseWriter, r *http.Request, namespace, path string)
	// Log receives what no caller can. Default: discarded.
	Log *slog.Logger
}

// The attributes of a volume: ours, and those that the kubelet adds.
const (
	attributeWork      = "work"
	attributeNamespace = inline.AttributeNamespace
	attributePod       = inline.AttributePod
	attributeEphemeral = inline.AttributeEphemeral
)

// Server is the driver.
type Server struct {
	*inline.Driver

	options Options
	dir     string
	worker  string

	mu    sync.Mutex
	open  map[string]*http.Server
	group sync.WaitGroup
}

// New returns the driver; [Server.Run] offers it.
func New(o Options) (*Server, error) {
	if o.KubeletDir == "" {
		o.KubeletDir = "/var/lib/kubelet"
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{options: o, dir: inline.Folder(o.KubeletDir, v1alpha1.StageDriver), open: map[string]*http.Server{}}
	s.Driver = inline.New(inline.Options{Driver: v1alpha1.StageDriver, Node: o.Node, KubeletDir: o.KubeletDir, Handler: s, Log: o.Log})
	for _, name := range []string{"records", postsName} {
		if err := osfile.MakeFolder(filepath.Join(s.dir, name), 0o755); err != nil {
			return nil, fmt.Errorf("making the folders of %s: %w", v1alpha1.StageDriver, err)
		}
	}
	var err error
	s.worker, err = o.Worker(filepath.Join(s.dir, "bin"))
	return s, err
}

// Run serves the kubelet, and the posts, until the context ends. Volumes stay. It is
// run once.
func (s *Server) Run(ctx context.Context) error {
	if err := s.resume(ctx); err != nil {
		return err
	}
	defer s.stop()
	return s.Driver.Run(ctx)
}

// Publish shows a pod its post.
func (s *Server) Publish(ctx context.Context, asked inline.Volume) error {
	a := asked.Attributes
	p := post{Handle: asked.Handle, Namespace: a[attributeNamespace], Pod: a[attributePod], Work: a[attributeWork], Target: asked.Target}
	if err := p.check(); err != nil {
		return inline.Problem{Err: err}
	}
	if err := s.record(p); err != nil {
		return err
	}
	if err := s.begin(ctx, p); err != nil {
		return err
	}
	return inline.Show(filepath.Join(s.dir, postsName), p.Handle, p.Target, true)
}

// Forget ends the post of a volume that no pod sees any more.
func (s *Server) Forget(handle string) error { return s.end(handle) }
