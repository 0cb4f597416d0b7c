package inline

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"regexp"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// The attributes that the kubelet adds to those of a volume, where the driver's
// CSIDriver object says podInfoOnMount.
const (
	AttributeNamespace = "csi.storage.k8s.io/pod.namespace"
	AttributePod       = "csi.storage.k8s.io/pod.uid"
	AttributeEphemeral = "csi.storage.k8s.io/ephemeral"
)

// Volume is what a pod is to be shown.
type Volume struct {
	// Handle is the volume's name among all of the node, which can be that of a file.
	Handle string
	// Target is where the pod sees it.
	Target string
	// ReadOnly says that the pod asks for nothing that it can write to.
	ReadOnly bool
	// Attributes are what the pod says of it, and what the kubelet says of the pod.
	Attributes map[string]string
}

// Handler is what makes a driver that one. Requests about one volume come one after
// another.
type Handler interface {
	// Publish shows a pod what it asks for, or returns an error that is a [Problem]
	// where the request makes no sense. It may be asked for again.
	Publish(context.Context, Volume) error
	// Forget hears that a volume is not shown any more. It may be one that never was.
	Forget(handle string) error
}

// Hider is a [Handler] that ends some of what it shows itself, because what a pod does
// with it would keep it from being unmounted like a folder.
type Hider interface {
	// Hide ends what is shown of a volume at a target, if it is of that kind.
	Hide(handle, target string) error
}

// Problem is an error of a request that makes no sense.
type Problem struct{ Err error }

// Error implements error.
func (p Problem) Error() string { return p.Err.Error() }

// Unwrap is what is wrong.
func (p Problem) Unwrap() error { return p.Err }

// Options are what a driver is made of. All but Log are required.
type Options struct {
	// Driver is the name by which kubelets and pods know it.
	Driver string
	// Node is the name of the node.
	Node string
	// KubeletDir is the kubelet's folder.
	KubeletDir string
	// Handler answers.
	Handler Handler
	// Log receives what no caller can. Default: discarded.
	Log *slog.Logger
}

// Driver is one.
type Driver struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedNodeServer
	registerapi.UnimplementedRegistrationServer

	o Options
}

// New returns a driver; [Driver.Run] offers it.
func New(o Options) *Driver {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Driver{o: o}
}

// Folder is where a driver keeps what it has.
func Folder(kubeletDir, driver string) string { return filepath.Join(kubeletDir, "plugins", driver) }

func (d *Driver) socket() string {
	return filepath.Join(Folder(d.o.KubeletDir, d.o.Driver), "csi.sock")
}

// Run serves the kubelet until the context ends. Volumes stay.
func (d *Driver) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		return serve(ctx, d.socket(), func(g *grpc.Server) {
			csi.RegisterIdentityServer(g, d)
			csi.RegisterNodeServer(g, d)
		})
	})
	group.Go(func() error {
		path := filepath.Join(d.o.KubeletDir, "plugins_registry", d.o.Driver+"-reg.sock")
		return serve(ctx, path, func(g *grpc.Server) { registerapi.RegisterRegistrationServer(g, d) })
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
func (d *Driver) GetInfo(context.Context, *registerapi.InfoRequest) (*registerapi.PluginInfo, error) {
	return &registerapi.PluginInfo{Type: registerapi.CSIPlugin, Name: d.o.Driver, Endpoint: d.socket(), SupportedVersions: []string{"1.0.0"}}, nil
}

// NotifyRegistrationStatus hears whether the kubelet took it.
func (d *Driver) NotifyRegistrationStatus(_ context.Context, r *registerapi.RegistrationStatus) (*registerapi.RegistrationStatusResponse, error) {
	if !r.PluginRegistered {
		d.o.Log.Error("the kubelet does not take the driver "+d.o.Driver, "error", r.Error)
	}
	return &registerapi.RegistrationStatusResponse{}, nil
}

// GetPluginInfo is CSI's.
func (d *Driver) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: d.o.Driver, VendorVersion: "1"}, nil
}

// GetPluginCapabilities is CSI's: none but the node's half.
func (d *Driver) GetPluginCapabilities(context.Context, *csi.GetPluginCapabilitiesRequest) (*csi.GetPluginCapabilitiesResponse, error) {
	return &csi.GetPluginCapabilitiesResponse{}, nil
}

// Probe is CSI's.
func (d *Driver) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{}, nil
}

// NodeGetInfo is CSI's.
func (d *Driver) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: d.o.Node}, nil
}

// NodeGetCapabilities is CSI's: volumes are published, and that is all.
func (d *Driver) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	return &csi.NodeGetCapabilitiesResponse{}, nil
}

// handles are names of volumes that can be those of files.
var handles = regexp.MustCompile(`^[A-Za-z0-9][-A-Za-z0-9_.]{0,250}$`)

// NodePublishVolume has a pod see a volume. It may be asked for again.
func (d *Driver) NodePublishVolume(ctx context.Context, r *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	v := Volume{Handle: r.GetVolumeId(), Target: r.GetTargetPath(), ReadOnly: r.GetReadonly(), Attributes: r.GetVolumeContext()}
	switch {
	case !handles.MatchString(v.Handle):
		return nil, status.Errorf(codes.InvalidArgument, "the volume's id is %q: letters, digits, dots and dashes are expected", v.Handle)
	case v.Attributes[AttributeEphemeral] != "true":
		return nil, status.Errorf(codes.InvalidArgument, "%s has inline volumes of pods alone; there are no PersistentVolumes of it", d.o.Driver)
	case !filepath.IsAbs(v.Target) || filepath.Clean(v.Target) != v.Target:
		return nil, status.Errorf(codes.InvalidArgument, "the target path is %q: give a whole path", v.Target)
	}
	if err := d.o.Handler.Publish(ctx, v); err != nil {
		code := codes.Internal
		if _, senseless := errors.AsType[Problem](err); senseless {
			code = codes.InvalidArgument
		} else if ctx.Err() != nil {
			code = codes.DeadlineExceeded // by which a kubelet knows that it may be on its way
		}
		return nil, status.Error(code, err.Error())
	}
	return &csi.NodePublishVolumeResponse{}, nil
}

// NodeUnpublishVolume takes a pod's view of a volume away. It may be asked for
// again, also for what never was.
func (d *Driver) NodeUnpublishVolume(_ context.Context, r *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	target, handle := r.GetTargetPath(), r.GetVolumeId()
	if !handles.MatchString(handle) || !filepath.IsAbs(target) {
		return nil, status.Errorf(codes.InvalidArgument, "the volume's id is %q and the target path %q: both are needed", handle, target)
	}
	if handler, own := d.o.Handler.(Hider); own {
		if err := handler.Hide(handle, target); err != nil {
			return nil, status.Error(codes.Internal, err.Error())
		}
	}
	if err := hide(target); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	if err := d.o.Handler.Forget(handle); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return &csi.NodeUnpublishVolumeResponse{}, nil
}
