package agent

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

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
			out.DeviceNodes = append(out.DeviceNodes, &cdi.DeviceNode{Path: node})
		}
	}
	out.Env = append(out.Env, gpu.Environ(given)...)
	if len(out.DeviceNodes) > 0 {
		out.DeviceNodes = append(out.DeviceNodes, common()...)
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

// common are the device files of the driver itself.
func common() []*cdi.DeviceNode {
	var out []*cdi.DeviceNode
	for _, path := range []string{"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset"} {
		if _, err := os.Stat(path); err == nil {
			out = append(out, &cdi.DeviceNode{Path: path})
		}
	}
	return out
}

// library is a part of NVIDIA's driver that programs load: the version that
// belongs to the kernel's, which no image can bring along.
var library = regexp.MustCompile(`^lib(cuda|cudadebugger|nvidia-ml|nvidia-ptxjitcompiler|nvidia-nvvm|nvidia-gpucomp|nvidia-opencl|nvidia-allocator|nvcuvid|nvidia-encode)\.so\.[0-9]+\.[0-9.]+$`)

// Where drivers have their libraries, and where images look for those of the
// machine: NVIDIA's own have that folder in their search path.
var libraryDirs = []string{"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"}

const imageDir = "/usr/local/nvidia/lib64"

// libraries are the driver's of the machine whose files are below root, each
// under its own name and the one that it is loaded by, and nvidia-smi.
func libraries(root string) []*cdi.Mount {
	var out []*cdi.Mount
	for _, dir := range libraryDirs {
		entries, err := os.ReadDir(filepath.Join(root, dir))
		if err != nil {
			continue
		}
		for _, e := range entries {
			if !library.MatchString(e.Name()) || e.Type()&os.ModeSymlink != 0 {
				continue
			}
			base, _, _ := strings.Cut(e.Name(), ".so.")
			for _, to := range []string{dir, imageDir} {
				for _, name := range []string{e.Name(), base + ".so.1"} {
					out = append(out, bound(filepath.Join(dir, e.Name()), filepath.Join(to, name)))
				}
			}
		}
		if len(out) > 0 {
			break
		}
	}
	for _, path := range []string{"/usr/bin/nvidia-smi", "/usr/local/nvidia/bin/nvidia-smi", "/opt/bin/nvidia-smi"} {
		if _, err := os.Stat(filepath.Join(root, path)); err == nil {
			return append(out, bound(path, "/usr/bin/nvidia-smi"))
		}
	}
	return out
}

func bound(from, to string) *cdi.Mount {
	return &cdi.Mount{HostPath: from, ContainerPath: to, Options: []string{"ro", "nosuid", "nodev", "bind"}}
}
