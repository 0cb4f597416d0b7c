package stagevolume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
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
	s := &Server{options: o, dir: filepath.Join(o.KubeletDir, "plugins", v1alpha1.StageDriver), open: map[string]*http.Server{}}
	for _, name := range []string{"records", "posts"} {
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
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		return serve(ctx, filepath.Join(s.dir, "csi.sock"), func(g *grpc.Server) {
			csi.RegisterIdentityServer(g, s)
			csi.RegisterNodeServer(g, s)
		})
	})
	group.Go(func() error {
		path := filepath.Join(s.options.KubeletDir, "plugins_registry", v1alpha1.StageDriver+"-reg.sock")
		return serve(ctx, path, func(g *grpc.Server) { registerapi.RegisterRegistrationServer(g, s) })
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
	server := grpc.NewServer(grpc.WaitForHandlers(true))
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
	return &registerapi.PluginInfo{Type: registerapi.CSIPlugin, Name: v1alpha1.StageDriver, Endpoint: filepath.Join(s.dir, "csi.sock"), SupportedVersions: []string{"1.0.0"}}, nil
}

// NotifyRegistrationStatus hears whether the kubelet took it.
func (s *Server) NotifyRegistrationStatus(_ context.Context, r *registerapi.RegistrationStatus) (*registerapi.RegistrationStatusResponse, error) {
	if !r.PluginRegistered {
		s.options.Log.Error("the kubelet does not take the driver "+v1alpha1.StageDriver, "error", r.Error)
	}
	return &registerapi.RegistrationStatusResponse{}, nil
}

// GetPluginInfo is CSI's.
func (s *Server) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: v1alpha1.StageDriver, VendorVersion: "1"}, nil
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

// NodePublishVolume has a pod see a post. It may be asked for again.
func (s *Server) NodePublishVolume(ctx context.Context, r *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	a := r.GetVolumeContext()
	p := post{Handle: r.GetVolumeId(), Namespace: a[attributeNamespace], Pod: a[attributePod], Work: a[attributeWork], Target: r.GetTargetPath()}
	if err := p.check(); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	if a[attributeEphemeral] != "true" {
		return nil, status.Errorf(codes.InvalidArgument, "%s has inline volumes of pods alone; there are no PersistentVolumes of it", v1alpha1.StageDriver)
	}
	if err := s.publish(ctx, p); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return &csi.NodePublishVolumeResponse{}, nil
}

func (s *Server) publish(ctx context.Context, p post) error {
	if err := s.record(p); err != nil {
		return err
	}
	folder, err := s.begin(ctx, p)
	if err != nil {
		return err
	}
	if mounted(p.Target) {
		return nil
	}
	if err := os.MkdirAll(p.Target, 0o755); err != nil {
		return fmt.Errorf("making the volume's folder: %w", err)
	}
	if err := unix.Mount(folder, p.Target, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mounting %s at %s: %w", folder, p.Target, err)
	}
	if err := unix.Mount("", p.Target, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		return errors.Join(fmt.Errorf("making %s read-only: %w", p.Target, err), unix.Unmount(p.Target, unix.MNT_DETACH))
	}
	return nil
}

// NodeUnpublishVolume takes a post away. It may be asked for again, also for what
// never was.
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
	if err := s.end(handle); err != nil {
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
