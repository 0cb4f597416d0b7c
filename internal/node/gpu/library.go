package gpu

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// library is a part of NVIDIA's driver that programs load: the version that
// belongs to the kernel's, which no image can bring along.
var library = regexp.MustCompile(`^lib(cuda|cudadebugger|nvidia-ml|nvidia-ptxjitcompiler|nvidia-nvvm|nvidia-gpucomp|nvidia-opencl|nvidia-allocator|nvcuvid|nvidia-encode)\.so\.[0-9]+\.[0-9.]+$`)

// Where drivers have their libraries, and where images look for those of the
// machine: NVIDIA's own have that folder in their search path.
var libraryDirs = []string{"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"}

const imageDir = "/usr/local/nvidia/lib64"

// File is a file of the machine that an image needs at a place of its own.
type File struct {
	// From is where it lies on the machine, To where it is looked for.
	From, To string
}

// DriverFiles are the driver's libraries of the machine whose files are below
// root, each under its own name and the one that it is loaded by, and
// nvidia-smi.
func DriverFiles(root string) []File {
	var out []File
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
					out = append(out, File{filepath.Join(dir, e.Name()), filepath.Join(to, name)})
				}
			}
		}
		if len(out) > 0 {
			break
		}
	}
	for _, path := range []string{"/usr/bin/nvidia-smi", "/usr/local/nvidia/bin/nvidia-smi", "/opt/bin/nvidia-smi"} {
		if _, err := os.Stat(filepath.Join(root, path)); err == nil {
			return append(out, File{path, "/usr/bin/nvidia-smi"})
		}
	}
	return out
}
