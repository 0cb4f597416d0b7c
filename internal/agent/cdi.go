package agent

import (
	"path/filepath"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	cdi "tags.cncf.io/container-device-interface/specs-go"

	"github.com/muster-dev/muster/internal/inventory"
	"github.com/muster-dev/muster/internal/node/gpu"
)

const (
	cdiVersion = "0.6.0"
	cdiKind    = inventory.Driver + "/claim"
)

// descriptions are in a folder that the container runtime reads, a file for each
// claim, as the Container Device Interface defines them.
type descriptions struct{ dir string }

func (s descriptions) path(claim types.UID) string {
	return filepath.Join(s.dir, inventory.Driver+"-"+string(claim)+".json")
}

// write describes a claim and returns the name of what containers get.
func (s descriptions) write(claim types.UID, e cdi.ContainerEdits) (string, error) {
	what := cdi.Spec{Version: cdiVersion, Kind: cdiKind, Devices: []cdi.Device{{Name: string(claim), ContainerEdits: e}}}
	return cdiKind + "=" + string(claim), replace(s.path(claim), what, 0o644)
}

func (s descriptions) remove(claim types.UID) error { return gone(s.path(claim)) }

// editsOf are what containers of a claim get: the variables that say what is
// theirs, and of real GPUs their device files, those that all have in common,
// and the driver's libraries.
func editsOf(r record, all []gpu.Device, root string) cdi.ContainerEdits {
	var given []gpu.Device
	var out cdi.ContainerEdits
	for _, p := range r.Parts {
		at := slices.IndexFunc(all, func(d gpu.Device) bool { return d.UUID == p.UUID })
		if at < 0 {
			continue
		}
		given = append(given, all[at])
		if p.Milli < wholeMilli {
			out.Env = append(out.Env, shareEnv(all[at], p)...)
		}
		if node := all[at].Node; node != "" {
			out.DeviceNodes = append(out.DeviceNodes, deviceNode(root, node))
		}
	}
	out.Env = append(out.Env, gpu.Environ(given, r.Alone)...)
	if len(out.DeviceNodes) > 0 {
		out.DeviceNodes = append(out.DeviceNodes, common(root)...)
		out.Mounts = libraries(root)
	}
	return out
}

// shareEnv are the variables of a part of a GPU. What must not be set beside
// another variable is left out: what a container sets is not known here.
func shareEnv(d gpu.Device, p part) []string {
	var out []string
	for _, v := range gpu.ShareEnviron(d, gpu.Share{Milli: p.Milli, MemoryMiB: p.MemoryMiB}) {
		if len(v.Unless) == 0 {
			out = append(out, v.Name+"="+v.Value)
		}
	}
	return out
}

// common are the device files of the driver itself, of the machine whose files
// are below root: some of them come with the first program that computes.
func common(root string) []*cdi.DeviceNode {
	var out []*cdi.DeviceNode
	for _, path := range []string{"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset"} {
		if gpu.DeviceFile(root, path) != "" {
			out = append(out, deviceNode(root, path))
		}
	}
	return out
}

// deviceNode is a device file as containers know it, wherever the machine whose
// files are below root has it.
func deviceNode(root, path string) *cdi.DeviceNode {
	out := &cdi.DeviceNode{Path: path}
	if at := gpu.DeviceFile(root, path); at != path {
		out.HostPath = at
	}
	return out
}

// libraries are the driver's of the machine whose files are below root, as
// mounts.
func libraries(root string) []*cdi.Mount {
	var out []*cdi.Mount
	for _, f := range gpu.DriverFiles(root) {
		out = append(out, bound(f.From, f.To))
	}
	return out
}

func bound(from, to string) *cdi.Mount {
	return &cdi.Mount{HostPath: from, ContainerPath: to, Options: []string{"ro", "nosuid", "nodev", "bind"}}
}
