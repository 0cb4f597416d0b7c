package codevolume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
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
	attributeNamespace = "csi.storage.k8s.io/pod.namespace"
	attributePod       = "csi.storage.k8s.io/pod.uid"
	attributeEphemeral = "csi.storage.k8s.io/ephemeral"
)

// Server is the driver.
type Server struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedNodeServer
	registerapi.UnimplementedRegistrationServer

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
		built: make(chan struct{}, 1), fetches: newFetches(),
	}
	return s, s.depot.prepare()
}

// driver is the name under which kubelets and pods know it.
func (s *Server) driver() string {
	if s.options.Keeper != nil {
		return v1alpha1.EnvironmentDriver
	}
	return v1alpha1.CodeDriver
}

func (s *Server) folder() string {
	return filepath.Join(s.options.KubeletDir, "plugins", s.driver())
}

func (s *Server) socket() string { return filepath.Join(s.folder(), "csi.sock") }

// Run serves the kubelet until the context ends, and what it fetches with it.
// Volumes stay. It is run once.
func (s *Server) Run(ctx context.Context) error {
	defer s.depot.fetches.stop()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		return serve(ctx, s.socket(), func(g *grpc.Server) {
			csi.RegisterIdentityServer(g, s)
			csi.RegisterNodeServer(g, s)
		})
	})
	group.Go(func() error {
		path := filepath.Join(s.options.KubeletDir, "plugins_registry", s.driver()+"-reg.sock")
		return serve(ctx, path, func(g *grpc.Server) { registerapi.RegisterRegistrationServer(g, s) })
	})
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
			if err := s.depot.tidy(); err != nil {
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

// serve answers on a socket until the context ends; one that an earlier process
// left is replaced.
func serve(ctx context.Context, path string, register func(*grpc.Server)) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("replacing the socket of an earlier agent: %w", err)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", path)
	if err != nil {
		return fmt.Errorf("listening for the kubelet: %w", err)
	}
	server := grpc.NewServer(grpc.UnaryInterceptor(newTurns().intercept), grpc.WaitForHandlers(true))
	register(server)
	stop := context.AfterFunc(ctx, server.Stop)
	defer stop()
	if err := server.Serve(listener); err != nil && ctx.Err() == nil {
		return fmt.Errorf("answering the kubelet: %w", err)
	}
	return nil
}

// GetInfo tells the kubelet what is offered, and where.
func (s *Server) GetInfo(context.Context, *registerapi.InfoRequest) (*registerapi.PluginInfo, error) {
	return &registerapi.PluginInfo{Type: registerapi.CSIPlugin, Name: s.driver(), Endpoint: s.socket(), SupportedVersions: []string{"1.0.0"}}, nil
}

// NotifyRegistrationStatus hears whether the kubelet took it.
func (s *Server) NotifyRegistrationStatus(_ context.Context, r *registerapi.RegistrationStatus) (*registerapi.RegistrationStatusResponse, error) {
	if !r.PluginRegistered {
		s.options.Log.Error("the kubelet does not take the driver "+s.driver(), "error", r.Error)
	}
	return &registerapi.RegistrationStatusResponse{}, nil
}

// GetPluginInfo is CSI's.
func (s *Server) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: s.driver(), VendorVersion: "1"}, nil
}

// GetPluginCapabilities is CSI's: none but the node's half.
func (s *Server) GetPluginCapabilities(context.Context, *csi.GetPluginCapabilitiesRequest) (*csi.GetPluginCapabilitiesResponse, error) {
	return &csi.GetPluginCapabilitiesResponse{}, nil
}

// Probe is CSI's.
func (s *Server) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{}, nil
}

// NodeGetInfo is CSI's.
func (s *Server) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: s.options.Node}, nil
}

// NodeGetCapabilities is CSI's: volumes are published, and that is all.
func (s *Server) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	return &csi.NodeGetCapabilitiesResponse{}, nil
}

// NodePublishVolume has a pod see its code. It may be asked for again.
func (s *Server) NodePublishVolume(ctx context.Context, r *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	a := r.GetVolumeContext()
	v := volume{Namespace: a[attributeNamespace], Digest: a[attributeSnapshot], Owner: a[attributeJob], Target: r.GetTargetPath(), Boot: s.options.Boot}
	if s.options.Keeper != nil {
		v.Digest, v.Build = "sha256:"+a[attributeKey], a[attributeBuild] == "true"
	} else if !r.GetReadonly() {
		v.Copy, v.Pod = a[attributeCopy], a[attributePod]
	}
	if v.Owner == "" {
		v.Owner = a[attributePod]
	}
	err := v.check()
	switch {
	case !handles.MatchString(r.GetVolumeId()):
		return nil, status.Errorf(codes.InvalidArgument, "the volume's id is %q: letters, digits, dots and dashes are expected", r.GetVolumeId())
	case a[attributeEphemeral] != "true":
		return nil, status.Errorf(codes.InvalidArgument, "%s has inline volumes of pods alone; there are no PersistentVolumes of it", s.driver())
	case err != nil:
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	// Trees are shared with others.
	readOnly := !v.Build && v.Copy == ""
	if err := s.publish(ctx, r.GetVolumeId(), v, readOnly); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return &csi.NodePublishVolumeResponse{}, nil
}

func (s *Server) publish(ctx context.Context, handle string, v volume, readOnly bool) error {
	if mounted(v.Target) {
		return nil
	}
	if !v.Build {
		if err := s.depot.fetch(ctx, v); err != nil {
			return err
		}
	}
	shown, err := s.depot.open(ctx, handle, v)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(v.Target, 0o755); err != nil {
		return fmt.Errorf("making the volume's folder: %w", err)
	}
	if err := unix.Mount(shown, v.Target, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mounting %s at %s: %w", shown, v.Target, err)
	}
	if readOnly {
		if err := unix.Mount("", v.Target, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY|restrictions(v.Target), ""); err != nil {
			return errors.Join(fmt.Errorf("making %s read-only: %w", v.Target, err), unix.Unmount(v.Target, unix.MNT_DETACH))
		}
	}
	return nil
}

// restrictions are those of the disk that a folder is on, which a mount of it
// keeps: a remount takes away what it does not name.
func restrictions(path string) uintptr {
	var disk unix.Statfs_t
	if unix.Statfs(path, &disk) != nil {
		return 0
	}
	return uintptr(disk.Flags) & (unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC)
}

// NodeUnpublishVolume takes a pod's view of its code away. It may be asked for
// again, also for what never was.
func (s *Server) NodeUnpublishVolume(_ context.Context, r *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	target, handle := r.GetTargetPath(), r.GetVolumeId()
	if !handles.MatchString(handle) || !filepath.IsAbs(target) {
		return nil, status.Errorf(codes.InvalidArgument, "the volume's id is %q and the target path %q: both are needed", handle, target)
	}
	if mounted(target) {
		if err := unix.Unmount(target, 0); err != nil {
			return nil, status.Errorf(codes.Internal, "unmounting %s: %v", target, err)
		}
	}
	if err := os.Remove(target); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, status.Errorf(codes.Internal, "removing the volume's folder: %v", err)
	}
	if err := s.depot.close(handle); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return &csi.NodeUnpublishVolumeResponse{}, nil
}

// mounted reports that something is mounted on a folder, also of the same disk.
func mounted(path string) bool {
	var here unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BASIC_STATS, &here); err != nil {
		return false
	}
	return here.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT != 0 && here.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
}
