package gpu

import (
	"debug/elf"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
)

// library is a part of NVIDIA's driver that programs load: the version that
// belongs to the kernel's, which no image can bring along.
var library = regexp.MustCompile(`^lib(cuda|cudadebugger|nvidia-ml|nvidia-ptxjitcompiler|nvidia-nvvm|nvidia-gpucomp|nvidia-opencl|nvidia-allocator|nvcuvid|nvidia-encode)\.so\.[0-9]+\.[0-9.]+$`)

// imageDir is where images look for the machine's driver that were made for
// that, such as NVIDIA's own.
const imageDir = "/usr/local/nvidia/lib64"

// trees are what a driver may lie in, below the machine's root: the machine's own
// files, and those of the container by which NVIDIA's GPU operator brings a driver,
// which has the device files, too.
var trees = []string{"/", "/run/nvidia/driver"}

// driverDirs are where drivers have their libraries: a distribution's packages,
// NVIDIA's installer, and nodes whose system cannot be written, Google's among them.
var driverDirs = []string{"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib", imageDir, "/usr/local/nvidia/lib", "/home/kubernetes/bin/nvidia/lib64"}

// imageDirs are where programs of images look for libraries: images of Debian
// and its like, of Fedora and its like, and NVIDIA's own.
func imageDirs() []string {
	triplet := map[string]string{"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}[runtime.GOARCH]
	return []string{filepath.Join("/usr/lib", triplet), "/usr/lib64", imageDir}
}

// programDirs are where drivers have their programs.
var programDirs = []string{"/usr/bin", "/usr/local/bin", "/usr/local/nvidia/bin", "/opt/bin", "/home/kubernetes/bin/nvidia/bin"}

// File is a file of the machine that an image needs at a place of its own.
type File struct {
	// From is where it lies on the machine, To where it is looked for.
	From, To string
}

// DriverFiles are the driver's libraries of the machine whose files are below
// root, each under its own name and the ones that it is loaded by, wherever
// images look, and nvidia-smi.
func DriverFiles(root string) []File {
	var out []File
	d := driverOf(root)
	for _, name := range d.libraries {
		names := knownAs(filepath.Join(root, d.tree, d.dir), name)
		for _, to := range imageDirs() {
			for _, known := range names {
				out = append(out, File{filepath.Join(d.tree, d.dir, name), filepath.Join(to, known)})
			}
		}
	}
	for _, folder := range programDirs {
		path := filepath.Join(d.tree, folder, "nvidia-smi")
		if isProgram(filepath.Join(root, path)) {
			return append(out, File{path, "/usr/bin/nvidia-smi"})
		}
	}
	return out
}

// DeviceFile is where the machine whose files are below root has the device file
// that programs know by a path: in the driver's tree rather than in another, where
// remains may lie. Empty where it has none.
func DeviceFile(root, path string) string {
	for _, tree := range driverOf(root).first() {
		at := filepath.Join(tree, path)
		if _, err := os.Stat(filepath.Join("/", root, at)); err == nil {
			return at
		}
	}
	return ""
}

// driver is where a machine's driver lies.
type driver struct {
	// tree is the one of trees that it is in: the root of its programs.
	tree string
	// dir is the folder of its libraries in the tree, empty where there are none.
	dir       string
	libraries []string
}

// driverOf is the driver of the machine whose files are below root: in the first
// folder in which programs find that of the version that the kernel has, since
// remains of another may lie anywhere. Where the kernel says nothing it is the first
// in which they find any.
func driverOf(root string) driver {
	version, out := driverVersionAt(filepath.Join("/", root)), driver{tree: trees[0]}
	for _, tree := range trees {
		for _, dir := range driverDirs {
			names := driverLibraries(filepath.Join("/", root, tree, dir))
			if version != "" && slices.Contains(names, "libcuda.so."+version) {
				return driver{tree, dir, names}
			}
			if out.dir == "" && slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, "libcuda.so.") }) {
				out = driver{tree, dir, names}
			}
		}
	}
	return out
}

// first are all trees, the driver's before the others.
func (d driver) first() []string {
	return append([]string{d.tree}, slices.DeleteFunc(slices.Clone(trees), func(tree string) bool { return tree == d.tree })...)
}

// environ is what the driver's programs need to find its libraries: programs look by
// themselves where distributions have theirs.
func (d driver) environ() []string {
	if d.dir == "" || strings.HasPrefix(d.dir, "/usr/lib") {
		return nil
	}
	return []string{"LD_LIBRARY_PATH=" + d.dir}
}

// isProgram tells a program from a script that starts one of the machine, which
// images do not have.
func isProgram(path string) bool {
	file, err := os.Open(path)
	if err != nil {
		return false
	}
	defer func() { _ = file.Close() }()
	magic := make([]byte, len(elf.ELFMAG))
	_, err = io.ReadFull(file, magic)
	return err == nil && string(magic) == elf.ELFMAG
}

// driverLibraries are the names of the driver's libraries in a folder.
func driverLibraries(dir string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var out []string
	for _, e := range entries {
		if library.MatchString(e.Name()) && e.Type()&os.ModeSymlink == 0 {
			out = append(out, e.Name())
		}
	}
	return out
}

// knownAs are the names that programs load a library by: its own, and those of
// the links to it (libcuda.so.1, but libnvidia-nvvm.so.4). What has no links
// there is loaded by the number 1.
func knownAs(dir, name string) []string {
	out := []string{name}
	base, _, _ := strings.Cut(name, ".so.")
	found, _ := filepath.Glob(filepath.Join(dir, base+".so.*"))
	linked := false
	for _, path := range found {
		to, err := os.Readlink(path)
		linked = linked || err == nil
		if err == nil && filepath.Base(to) == name {
			out = append(out, filepath.Base(path))
		}
	}
	if !linked {
		out = append(out, base+".so.1")
	}
	return out
}
