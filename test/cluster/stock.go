package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Names of images.
const (
	pauseImage = "muster.test/pause:1"
	// BusyboxImage is the name of [Busybox].
	BusyboxImage = "muster.test/busybox:1"
	// ShellImage is the name of [Shell].
	ShellImage = "muster.test/shell:1"
	// PythonImage is the name of [Python].
	PythonImage = "muster.test/python:1"
)

// pause is what holds a pod's namespaces.
func pause() Image {
	return Image{
		Name: pauseImage, Files: []File{{To: "/bin/busybox", From: "/bin/busybox"}},
		Entrypoint: []string{"/bin/busybox", "sleep", "2147483647"},
	}
}

// Busybox is a small image with a shell and what belongs to it: one static
// program, under all its names. Debian's crashes where it looks up names
// (wget); [Python] does not.
func Busybox(ctx context.Context) (Image, error) {
	image := Image{Name: BusyboxImage, Command: []string{"/bin/sh"}, Env: []string{"PATH=/bin"}}
	image.Files = append(image.Files, accounts()...)
	programs, err := busyboxFiles(ctx, "/bin", nil)
	image.Files = append(image.Files, programs...)
	return image, err
}

// Shell is [Busybox] and a bash, which can open connections to names.
func Shell(ctx context.Context) (Image, error) {
	const bash = "/bin/bash"
	image, err := Busybox(ctx)
	if err != nil {
		return image, err
	}
	image.Name = ShellImage
	libraries, err := libraries(ctx, []string{bash})
	image.Files = append(append(image.Files, usrMerged...), File{To: bash, From: bash})
	image.Files = append(image.Files, libraries...)
	return image, err
}

// Program is an image of one program of this machine, at the place to, and the
// shared libraries that it needs.
func Program(ctx context.Context, name, from, to string) (Image, error) {
	image := Image{Name: name, Entrypoint: []string{to}, Files: append(append(accounts(), usrMerged...), File{To: to, From: from})}
	libraries, err := libraries(ctx, []string{from})
	image.Files = append(image.Files, libraries...)
	return image, err
}

// usrMerged are the old places of libraries, which lie below /usr.
var usrMerged = []File{{To: "/lib", Link: "usr/lib"}, {To: "/lib64", Link: "usr/lib64"}}

// accounts are the few files that every image has in /etc.
func accounts() []File {
	return []File{
		{To: "/tmp"}, {To: "/root"},
		{To: "/etc/passwd", Content: "root:x:0:0::/root:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n"},
		{To: "/etc/group", Content: "root:x:0:\nnogroup:x:65534:\n"},
		{To: "/etc/nsswitch.conf", Content: "hosts: files dns\n"},
	}
}

// busyboxFiles are busybox and its names in a folder, but for some.
func busyboxFiles(ctx context.Context, folder string, but []string) ([]File, error) {
	output, err := exec.CommandContext(ctx, "/bin/busybox", "--list").Output()
	if err != nil {
		return nil, fmt.Errorf("asking busybox for its names: %w", err)
	}
	files := []File{{To: folder + "/busybox", From: "/bin/busybox"}}
	for name := range strings.FieldsSeq(string(output)) {
		if name != "busybox" && !slices.Contains(but, name) {
			files = append(files, File{To: folder + "/" + name, Link: "busybox"})
		}
	}
	return files, nil
}

// environmentPath is where a virtual environment is in an image: not where it is here,
// since that may be below a folder that pods have something else at, such as /tmp.
const environmentPath = "/opt/python"

// Python is an image with a Python of this machine, at the same place as here
// and as /usr/bin/python3, and a shell. The interpreter of a virtual
// environment brings the environment with it.
func Python(ctx context.Context, interpreter string) (Image, error) {
	image := Image{Name: PythonImage, Command: []string{"/usr/bin/python3"}, Env: []string{"PATH=/usr/bin"}}
	about, err := ask(ctx, interpreter)
	if err != nil {
		return image, err
	}
	image.Files = append(accounts(), File{To: "/bin", Link: "usr/bin"}, File{To: "/lib", Link: "usr/lib"}, File{To: "/lib64", Link: "usr/lib64"})
	// The real program lies where its libraries are looked for from; what is
	// asked for as python3 is the interpreter that was named, so that a virtual
	// environment is found.
	image.Files = append(image.Files, File{To: about.Real, From: about.Real}, File{To: about.Library, From: about.Library, Skip: about.unneeded})
	native := []string{about.Real}
	if about.Environment != "" {
		image.Files = append(image.Files, File{To: environmentPath, From: about.Environment, Skip: unneeded})
		image.Files = append(image.Files, links(about.Environment+"/bin/python3", about)...)
		image.Env = []string{"PATH=" + environmentPath + "/bin:/usr/bin"}
	}
	for _, file := range image.Files {
		found, err := sharedObjects(file)
		if err != nil {
			return image, err
		}
		native = append(native, found...)
	}
	libraries, err := libraries(ctx, native)
	if err != nil {
		return image, err
	}
	for _, library := range wholeC(libraries) {
		// What lies in the environment is there already.
		if about.Environment == "" || !strings.HasPrefix(library.From, about.Environment+"/") {
			image.Files = append(image.Files, library)
		}
	}
	if about.Real != "/usr/bin/python3" {
		image.Files = append(image.Files, File{To: "/usr/bin/python3", Link: about.Real})
	}
	shell, err := busyboxFiles(ctx, "/usr/bin", nil)
	image.Files = append(image.Files, shell...)
	return image, err
}

// installation is where a Python lies.
type installation struct {
	// Real is the program, Library the folder of its standard library,
	// Environment the virtual environment, empty for none.
	Real, Library, Environment string
}

const askPython = `
import json, os, sys, sysconfig
print(json.dumps({"Real": os.path.realpath(sys.executable), "Library": os.path.realpath(sysconfig.get_path("stdlib")),
  "Environment": sys.prefix if sys.prefix != sys.base_prefix else ""}))`

func ask(ctx context.Context, interpreter string) (installation, error) {
	var about installation
	output, err := exec.CommandContext(ctx, interpreter, "-c", askPython).Output()
	if err != nil {
		return about, fmt.Errorf("asking %s where it lies: %w", interpreter, err)
	}
	if err := json.Unmarshal(output, &about); err != nil {
		return about, fmt.Errorf("reading what %s said of itself: %w", interpreter, err)
	}
	return about, nil
}

// unneeded are large parts of the standard library that no program here uses,
// and packages that a virtual environment does not see.
func (i installation) unneeded(path string, entry fs.DirEntry) bool {
	name := filepath.Base(path)
	if !entry.IsDir() {
		return false
	}
	return name == "test" || name == "tests" || name == "idlelib" || name == "lib2to3" || strings.HasPrefix(name, "config-") ||
		name == "site-packages" && i.Environment != ""
}

// unneeded are large parts of packages that only building against them needs. What
// Python has compiled stays: each process compiled all of it again, which is most of
// what TensorFlow takes to start.
func unneeded(path string, entry fs.DirEntry) bool {
	name := filepath.Base(path)
	return entry.IsDir() && (name == "include" || name == "tests")
}

// links are the symbolic links on the way from an environment's interpreter to
// the real program, outside the environment.
func links(path string, about installation) []File {
	var files []File
	for path != about.Real {
		target, err := os.Readlink(path)
		if err != nil {
			break
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(path), target)
		}
		if !strings.HasPrefix(path, about.Environment+"/") {
			files = append(files, File{To: path, Link: target})
		}
		path = target
	}
	return files
}

// sharedObjects are those that a file of an image brings along.
func sharedObjects(file File) ([]string, error) {
	if file.From == "" {
		return nil, nil
	}
	var found []string
	err := file.walk(func(path, _ string, entry fs.DirEntry) error {
		if entry.Type().IsRegular() && (strings.HasSuffix(path, ".so") || strings.Contains(filepath.Base(path), ".so.")) {
			found = append(found, path)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("looking for shared objects: %w", err)
	}
	return found, nil
}

// libraries are the shared libraries that programs load, and the loader.
func libraries(ctx context.Context, programs []string) ([]File, error) {
	var files []File
	seen := map[string]bool{}
	for chunk := range slices.Chunk(programs, 200) {
		// It fails when one of them is no program; it tells of the others.
		output, err := exec.CommandContext(ctx, "ldd", chunk...).Output()
		if ctx.Err() != nil || len(output) == 0 {
			return nil, fmt.Errorf("looking for shared libraries: %w", err)
		}
		for line := range strings.Lines(string(output)) {
			path := libraryIn(line)
			if path != "" && !seen[path] {
				seen[path] = true
				files = append(files, File{To: path, From: path})
			}
		}
	}
	return files, nil
}

// wholeC adds the parts of the C library that every image has, and that what is
// loaded later may need, such as a GPU's driver.
func wholeC(files []File) []File {
	at := slices.IndexFunc(files, func(f File) bool { return filepath.Base(f.To) == "libc.so.6" })
	if at < 0 {
		return files
	}
	have := map[string]bool{}
	for _, file := range files {
		have[file.To] = true
	}
	for _, name := range []string{"libdl.so.2", "libm.so.6", "libpthread.so.0", "librt.so.1"} {
		path := filepath.Join(filepath.Dir(files[at].To), name)
		if _, err := os.Stat(path); err == nil && !have[path] {
			files = append(files, File{To: path, From: path})
		}
	}
	return files
}

// libraryIn reads "name => /path (0x...)" and "/path (0x...)", a line of ldd
// that is indented; "" for any other. The image has /lib in /usr/lib.
func libraryIn(line string) string {
	fields := strings.Fields(line)
	if !strings.HasPrefix(line, "\t") || len(fields) < 2 || !strings.HasPrefix(fields[len(fields)-1], "(0x") {
		return ""
	}
	path := filepath.Clean(fields[len(fields)-2])
	for _, short := range []string{"/lib/", "/lib64/"} {
		if strings.HasPrefix(path, short) {
			return "/usr" + path
		}
	}
	if !strings.HasPrefix(path, "/") {
		return ""
	}
	return path
}
