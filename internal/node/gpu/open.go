package gpu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// errNotBuiltIn says that this program was built without NVML.
var errNotBuiltIn = errors.New("this program was built without it (build tag nvml)")

// Open finds the machine's devices: the simulated ones if any are declared,
// else those of NVML, else those of nvidia-smi, else none. A driver that does
// not work is not an error here, because a machine without devices still has
// work to do; Explain tells of it. The locks of all devices found are made
// (PrepareLocks). The caller closes the source.
func Open(ctx context.Context, options Options) (Source, error) {
	source, err := find(ctx, options)
	if err != nil {
		return nil, err
	}
	devices, err := source.Devices(ctx)
	if err == nil && slices.ContainsFunc(devices, func(d Device) bool { return !d.Simulated }) {
		makeFiles(ctx, options.Root)
	}
	if err == nil && len(devices) > 0 {
		err = PrepareLocks(options.LockDir, devices)
	}
	if err != nil {
		return nil, errors.Join(err, source.Close())
	}
	return source, nil
}

// makeFiles has the driver's own program make the device file for memory, below
// root, that else the first program that computes has made by it; programs in
// containers cannot. Where that does not work they say that there is no GPU.
func makeFiles(ctx context.Context, root string) {
	path := maker(root)
	if path == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, smiTimeout)
	defer cancel()
	command := exec.CommandContext(ctx, path, "-u", "-c=0")
	command.WaitDelay = time.Second
	if root != "" && root != "/" {
		command.Dir, command.SysProcAttr = "/", &unix.SysProcAttr{Chroot: root}
	}
	_ = command.Run()
}

// maker is the program below root that makes the device file for memory; empty
// where that is there, or nobody can make it.
func maker(root string) string {
	there := func(path string) bool {
		_, err := os.Stat(filepath.Join("/", root, path))
		return err == nil
	}
	if there("dev/nvidia-uvm") {
		return ""
	}
	for _, folder := range programDirs {
		if path := filepath.Join(folder, "nvidia-modprobe"); there(path) {
			return path
		}
	}
	return ""
}

func find(ctx context.Context, options Options) (Source, error) {
	if options.Simulate != "" {
		host := options.Host
		if host == "" {
			var err error
			if host, err = os.Hostname(); err != nil {
				return nil, fmt.Errorf("naming the simulated GPUs: %w", err)
			}
		}
		return newSimulated(options.Simulate, host, options.Scope)
	}
	smi := func(ctx context.Context) (Source, error) { return openSMIIn(ctx, options.Root) }
	for _, open := range []func(context.Context) (Source, error){openNVML, smi} {
		source, err := open(ctx)
		if err == nil {
			return source, nil
		}
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("looking for GPUs: %w", err)
		}
	}
	return none{}, nil
}
