package codevolume

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/agent/inline"
)

// Options are what the driver needs.
type Options struct {
	// Node is the name of the node.
	Node string
	// KubeletDir is the kubelet's folder. Default: /var/lib/kubelet.
	KubeletDir string
	// Fetcher is where code comes from, or environments.
	Fetcher Fetcher
	// Keeper is where environments go that were built here. With one the driver is
	// environment.muster.dev, and its volumes hold environments: the digest is then
	// the environment's key, with "sha256:" before it. Default: the driver is
	// code.muster.dev.
	Keeper Keeper
	// Keep is for how long a tree stays that nothing needs. Default: a day.
	Keep time.Duration
	// Boot names this life of the machine. Default: what the kernel says.
	Boot string
	// Now is the clock. Default: time.Now.
	Now func() time.Time
	// Log receives what no caller can, and what is fetched. Default: discarded.
	Log *slog.Logger
}

// tidyEvery is how often what nobody needs is looked for.
const tidyEvery = time.Hour

// The attributes of a volume: ours, and those that the kubelet adds.
const (
	attributeSnapshot  = "snapshot"
	attributeKey       = "key"
	attributeBuild     = "build"
	attributeJob       = "job"
	attributeCopy      = "copy"
	attributeNamespace = inline.AttributeNamespace
	attributePod       = inline.AttributePod
	attributeEphemeral = inline.AttributeEphemeral
)

// Server is the driver.
type Server struct {
	*inline.Driver

	options Options
	depot   *depot
}

// New returns the driver; [Server.Run] offers it.
func New(o Options) (*Server, error) {
	if o.KubeletDir == "" {
		o.KubeletDir = "/var/lib/kubelet"
	}
	if o.Keep == 0 {
		o.Keep = 24 * time.Hour
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Boot == "" {
		id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
		if err != nil {
			return nil, fmt.Errorf("reading since when the machine runs: %w", err)
		}
		o.Boot = strings.ReplaceAll(strings.TrimSpace(string(id)), "-", "")
	}
	s := &Server{options: o}
	s.depot = &depot{
		dir: s.folder(), fetcher: o.Fetcher, keeper: o.Keeper, boot: o.Boot, pods: filepath.Join(o.KubeletDir, "pods"), keep: o.Keep, now: o.Now, log: o.Log,
		built: make(chan struct{}, 1), errands: inline.NewErrands(),
	}
	s.Driver = inline.New(inline.Options{Driver: s.driver(), Node: o.Node, KubeletDir: o.KubeletDir, Handler: s, Log: o.Log})
	return s, s.depot.prepare()
}

// driver is the name under which kubelets and pods know it.
func (s *Server) driver() string {
	if s.options.Keeper != nil {
		return v1alpha1.EnvironmentDriver
	}
	return v1alpha1.CodeDriver
}

func (s *Server) folder() string { return inline.Folder(s.options.KubeletDir, s.driver()) }

// TreesFolder is the folder of the trees of a driver, code.muster.dev or
// environment.muster.dev, below the kubelet's folder: <namespace>/<tree>.
func TreesFolder(kubeletDir, driver string) string {
	return filepath.Join(inline.Folder(kubeletDir, driver), treesName)
}

// Run serves the kubelet until the context ends, and what it fetches with it.
// Volumes stay. It is run once.
func (s *Server) Run(ctx context.Context) error {
	defer s.depot.errands.Stop()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.Driver.Run(ctx) })
	if s.options.Keeper != nil {
		group.Go(func() error {
			s.depot.deliver(ctx)
			return nil
		})
	}
	group.Go(func() error {
		tick := time.NewTicker(tidyEvery)
		defer tick.Stop()
		for {
			if err := errors.Join(s.depot.tidy(), s.depot.removeTrees(ctx)); err != nil {
				s.options.Log.Error("removing code that nobody needs; it is tried again", "error", err)
			}
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
			}
		}
	})
	return group.Wait()
}

// Publish has a pod see its code.
func (s *Server) Publish(ctx context.Context, asked inline.Volume) error {
	a := asked.Attributes
	v := volume{Namespace: a[attributeNamespace], Digest: a[attributeSnapshot], Owner: a[attributeJob], Target: asked.Target, Boot: s.options.Boot}
	if s.options.Keeper != nil {
		v.Digest, v.Build = "sha256:"+a[attributeKey], a[attributeBuild] == "true"
	} else if !asked.ReadOnly {
		v.Copy, v.Pod = a[attributeCopy], a[attributePod]
	}
	if v.Owner == "" {
		v.Owner = a[attributePod]
	}
	if err := v.check(); err != nil {
		return inline.Problem{Err: err}
	}
	if inline.Shown(v.Target) {
		return nil
	}
	if !v.Build {
		if err := s.depot.fetch(ctx, v); err != nil {
			return err
		}
	}
	shown, err := s.depot.open(ctx, asked.Handle, v)
	if err != nil {
		return err
	}
	// Trees are shared with others.
	return inline.Show(shown.top, shown.below, v.Target, !v.Build && v.Copy == "")
}

// Forget forgets a volume that no pod sees any more.
func (s *Server) Forget(handle string) error { return s.depot.close(handle) }
