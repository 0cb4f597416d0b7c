package enclosure

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// devices are the nodes that every container has, where the host has them. The
// nvidia ones belong to the driver as a whole and to no single GPU.
var devices = []string{
	"null", "zero", "full", "random", "urandom", "tty", "fuse",
	"nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset", "nvidia-caps",
	"infiniband",
}

// makeDev makes a /dev with the devices of every container and those of its
// own GPUs. Its tmpfs has the option nodev: NVIDIA's libraries and nvidia-smi, run
// as root, create missing device nodes of GPUs, and these must not open. The bound
// nodes keep the options of the host's /dev.
func (t *tree) makeDev() error {
	dev := filepath.Join(t.root, "dev")
	if err := unix.Mount("tmpfs", dev, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755"); err != nil {
		return err
	}
	if err := t.own(dev); err != nil {
		return err
	}
	names := slices.Clone(devices)
	if t.Isolation.HideGPUs {
		for _, node := range t.Isolation.GPUDeviceNodes {
			names = append(names, strings.TrimPrefix(filepath.Clean(node), "/dev/"))
		}
	} else {
		names = append(names, gpuNodes()...)
	}
	for _, name := range names {
		if err := bindDevice(filepath.Join("/dev", name), filepath.Join(dev, name)); err != nil {
			return err
		}
	}
	for _, d := range []string{"pts", "shm"} {
		if err := os.Mkdir(filepath.Join(dev, d), 0o755); err != nil {
			return err
		}
	}
	if err := unix.Mount("devpts", dev+"/pts", "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620"); err != nil {
		return err
	}
	if err := unix.Mount("shm", dev+"/shm", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, sized("mode=1777", t.Isolation.SharedMemoryBytes)); err != nil {
		return err
	}
	for name, link := range map[string]string{
		"ptmx": "pts/ptmx", "fd": "/proc/self/fd",
		"stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2",
	} {
		if err := os.Symlink(link, filepath.Join(dev, name)); err != nil {
			return err
		}
	}
	if message := filepath.Clean(t.MessagePath); filepath.Dir(message) == "/dev" {
		path := filepath.Join(t.root, message)
		if err := os.WriteFile(path, nil, 0o666); err != nil {
			return err
		}
		return os.Chmod(path, 0o666)
	}
	return nil
}

// gpuNodes are the device nodes of the host's single GPUs, below /dev.
func gpuNodes() []string {
	entries, _ := os.ReadDir("/dev")
	var names []string
	for _, e := range entries {
		number, ok := strings.CutPrefix(e.Name(), "nvidia")
		if ok && number != "" && strings.Trim(number, "0123456789") == "" {
			names = append(names, e.Name())
		}
	}
	return names
}

// bindDevice shows a node, or a folder of nodes, of the host. What the host
// does not have is left out.
func bindDevice(source, target string) error {
	info, err := os.Stat(source)
	if err != nil {
		return nil //nolint:nilerr // A device that is not there is no error.
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	if info.IsDir() {
		err = os.Mkdir(target, 0o755)
	} else {
		err = os.WriteFile(target, nil, 0o644)
	}
	if err != nil {
		return err
	}
	return bind(source, target)
}

type owner struct{ uid, gid int }

func fileOwner(info os.FileInfo) (owner, bool) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return owner{}, false
	}
	return owner{int(stat.Uid), int(stat.Gid)}, true
}

// deviceOf is the number of the file system that a file is on; 0: not known.
func deviceOf(info os.FileInfo) uint64 {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0
	}
	return stat.Dev
}
