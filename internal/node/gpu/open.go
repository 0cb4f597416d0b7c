package gpu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
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
	source, err := open(ctx, options)
	if err == nil && options.Await {
		source = &awaited{options: options, source: source}
	}
	return source, err
}

func open(ctx context.Context, options Options) (Source, error) {
	source, err := find(ctx, options)
	if err != nil {
		return nil, err
	}
	devices, err := source.Devices(ctx)
	options.makeFiles(ctx, devices)
	if err == nil && len(devices) > 0 {
		err = PrepareLocks(options.LockDir, devices)
	}
	if err != nil {
		return nil, errors.Join(err, source.Close())
	}
	return source, nil
}

// awaited is a source of none until the driver is there, which may go and come again.
type awaited struct {
	options Options

	// mu is held while the driver is looked for.
	mu     sync.Mutex
	source Source
}

// now is what there is.
func (a *awaited) now() Source {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.source
}

// look looks for the driver as long as there is none.
func (a *awaited) look(ctx context.Context) (Source, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, missing := a.source.(none); !missing {
		return a.source, nil
	}
	source, err := open(ctx, a.options)
	if err != nil {
		return nil, err
	}
	a.source = source
	return source, nil
}

func (a *awaited) Devices(ctx context.Context) ([]Device, error) {
	source, err := a.look(ctx)
	if err != nil {
		return nil, err
	}
	devices, err := source.Devices(ctx)
	a.options.makeFiles(ctx, devices)
	return devices, err
}

func (a *awaited) Sample(ctx context.Context) ([]Sample, error) { return a.now().Sample(ctx) }

func (a *awaited) Name() string { return a.now().Name() }

func (a *awaited) Close() error { return a.now().Close() }

// makeFiles has the driver's own program make the device file for memory that else the
// first program that computes has made by it; programs in containers cannot. Where that
// does not work they say that there is no GPU.
func (o Options) makeFiles(ctx context.Context, devices []Device) {
	if !o.Give || !slices.ContainsFunc(devices, func(d Device) bool { return !d.Simulated }) {
		return
	}
	if _, err := os.Stat(filepath.Join("/", o.Root, driverOf(o.Root).tree, "dev/nvidia-uvm")); err == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, smiTimeout)
	defer cancel()
	if command, err := within(ctx, o.Root, "nvidia-modprobe", "-u", "-c=0"); err == nil {
		command.WaitDelay = time.Second
		_ = command.Run()
	} else if o.Root == "" {
		_ = exec.CommandContext(ctx, "modprobe", "nvidia-uvm").Run()
		_ = makeMemoryFiles(filepath.Join(procRoot, "devices"), "/dev")
	}
}

// makeMemoryFiles makes the device files for memory on a machine without nvidia-modprobe.
// The kernel lists the driver's number in the file devices.
func makeMemoryFiles(devices, dev string) error {
	list, err := os.ReadFile(devices)
	if err != nil {
		return fmt.Errorf("reading the kernel's drivers: %w", err)
	}
	for line := range strings.Lines(string(list)) {
		fields := strings.Fields(line)
		if len(fields) != 2 || fields[1] != "nvidia-uvm" {
			continue
		}
		major, err := strconv.ParseUint(fields[0], 10, 32)
		if err != nil {
			return fmt.Errorf("reading the number of nvidia-uvm: %w", err)
		}
		for minor, name := range []string{"nvidia-uvm", "nvidia-uvm-tools"} {
			path := filepath.Join(dev, name)
			if err := unix.Mknod(path, unix.S_IFCHR|0o666, int(unix.Mkdev(uint32(major), uint32(minor)))); err != nil {
				return fmt.Errorf("making the device file %s: %w", path, err)
			}
			if err := os.Chmod(path, 0o666); err != nil { // whatever the umask
				return fmt.Errorf("making the device file %s: %w", path, err)
			}
		}
		return nil
	}
	return errors.New("the driver nvidia-uvm is not loaded")
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
	name := options.UserName
	if name == nil {
		name = byNumber
	}
	nvml := func(ctx context.Context) (Source, error) { return openNVML(ctx, name) }
	smi := func(ctx context.Context) (Source, error) { return openSMIIn(ctx, options.Root, name) }
	for _, open := range []func(context.Context) (Source, error){nvml, smi} {
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
