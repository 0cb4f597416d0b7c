package gpu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Finding is one thing that was looked for on the way to devices.
type Finding struct {
	// Subject is what was looked for, such as "driver".
	Subject string
	// OK says whether it is as it should be.
	OK bool
	// Detail is what was found, or is missing, in a sentence.
	Detail string
	// Advice is what would help; empty if nothing has to.
	Advice string
}

// String is the finding in one line.
func (f Finding) String() string {
	mark := "missing"
	if f.OK {
		mark = "ok"
	}
	line := fmt.Sprintf("%s (%s): %s", f.Subject, mark, f.Detail)
	if f.Advice != "" {
		line += " " + f.Advice
	}
	return line
}

// Explain looks where Open looks and says what is there and what is missing,
// from the hardware up: hardware, driver, device files, library, program,
// devices. With simulated devices there is only those to tell of. It changes
// nothing.
func Explain(ctx context.Context, options Options) []Finding {
	return explainer{root: "/", lookPath: exec.LookPath}.explain(ctx, options)
}

type explainer struct {
	// root is the file system looked at.
	root     string
	lookPath func(string) (string, error)
}

func (e explainer) explain(ctx context.Context, options Options) []Finding {
	if options.Simulate != "" {
		devices, err := ParseSimulated(options.Simulate)
		if err != nil {
			return []Finding{{Subject: "simulated GPUs", Detail: err.Error() + "."}}
		}
		return []Finding{{Subject: "simulated GPUs", OK: true,
			Detail: fmt.Sprintf("%d pretend devices are declared (%s); real ones are not looked for.", len(devices), options.Simulate)}}
	}
	hardware, driver, files := e.hardware(), e.driver(), e.files()
	if !hardware.OK && !driver.OK && !files.OK {
		// Advice on drivers is no help to a machine without the hardware.
		driver.Advice, files.Advice = "", ""
	}
	return []Finding{hardware, driver, files, e.library(ctx), e.program(), e.devices(ctx, options)}
}

// hardware looks for NVIDIA's display controllers and accelerators on the PCI
// bus.
func (e explainer) hardware() Finding {
	const nvidia, display = "0x10de", "0x03"
	count := 0
	vendors, _ := filepath.Glob(filepath.Join(e.root, "sys/bus/pci/devices/*/vendor"))
	for _, path := range vendors {
		vendor, _ := os.ReadFile(path)
		class, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "class"))
		if strings.TrimSpace(string(vendor)) == nvidia && strings.HasPrefix(string(class), display) {
			count++
		}
	}
	if count == 0 {
		return Finding{Subject: "hardware", Detail: "no NVIDIA GPU is on this machine's PCI bus, as far as it can be seen from here."}
	}
	return Finding{Subject: "hardware", OK: true, Detail: fmt.Sprintf("%d NVIDIA GPUs are on the PCI bus.", count)}
}

func (e explainer) driver() Finding {
	path := filepath.Join(e.root, "proc/driver/nvidia/version")
	raw, err := os.ReadFile(path)
	if err != nil {
		return Finding{Subject: "driver", Detail: "the NVIDIA kernel driver is not loaded (no /proc/driver/nvidia/version).",
			Advice: "Install NVIDIA's driver for this kernel, or load it with \"modprobe nvidia\"."}
	}
	first, _, _ := strings.Cut(string(raw), "\n")
	return Finding{Subject: "driver", OK: true, Detail: printable(strings.Join(strings.Fields(first), " ")) + "."}
}

// files looks at the device files and whether this user may use them.
func (e explainer) files() Finding {
	nodes, _ := filepath.Glob(filepath.Join(e.root, "dev/nvidia[0-9]*"))
	if len(nodes) == 0 {
		return Finding{Subject: "device files", Detail: "there is no /dev/nvidia0 or the like.",
			Advice: "As root, \"nvidia-smi\" makes them; a container has to be started with the GPUs (--gpus all)."}
	}
	for _, node := range append(nodes, filepath.Join(e.root, "dev/nvidiactl")) {
		if err := unix.Access(node, unix.R_OK|unix.W_OK); err != nil {
			advice := "As root, \"nvidia-smi\" makes it."
			if errors.Is(err, unix.EACCES) {
				advice = "Its group, often video or render, may: have this user added to it."
			}
			return Finding{Subject: "device files", Detail: fmt.Sprintf("%s cannot be used by user %d: %v.", node, os.Geteuid(), err), Advice: advice}
		}
	}
	return Finding{Subject: "device files", OK: true, Detail: fmt.Sprintf("%d may be used.", len(nodes))}
}

func (e explainer) library(ctx context.Context) Finding {
	source, err := openNVML(ctx, byNumber)
	switch {
	case errors.Is(err, errNotBuiltIn):
		return Finding{Subject: "library", Detail: "NVML is not used: " + errNotBuiltIn.Error() + "; nvidia-smi is asked instead, which is slower."}
	case err != nil:
		return Finding{Subject: "library", Detail: err.Error() + ".", Advice: "libnvidia-ml.so.1 is part of the driver's packages; nvidia-smi is asked instead."}
	}
	detail := "NVML answers"
	if m, ok := source.(interface{ driverVersion() string }); ok {
		detail += ", driver " + m.driverVersion()
	}
	if err := source.Close(); err != nil {
		return Finding{Subject: "library", Detail: err.Error() + "."}
	}
	return Finding{Subject: "library", OK: true, Detail: detail + "."}
}

func (e explainer) program() Finding {
	path, err := e.lookPath("nvidia-smi")
	if err != nil {
		return Finding{Subject: "nvidia-smi", Detail: "it is not on the PATH."}
	}
	return Finding{Subject: "nvidia-smi", OK: true, Detail: "it is " + path + "."}
}

// devices says what Open would come to.
func (e explainer) devices(ctx context.Context, options Options) Finding {
	source, err := find(ctx, options)
	if err != nil {
		return Finding{Subject: "GPUs", Detail: err.Error() + "."}
	}
	devices, err := source.Devices(ctx)
	if err := errors.Join(err, source.Close()); err != nil {
		return Finding{Subject: "GPUs", Detail: err.Error() + "."}
	}
	if len(devices) == 0 {
		finding := Finding{Subject: "GPUs", Detail: "there are none to give out.", Advice: "To try things out, declare pretend ones, such as --simulate-gpus 8xA100."}
		if _, err := openSMI(ctx); err != nil && !errors.Is(err, exec.ErrNotFound) {
			finding.Detail = "there are none to give out: " + err.Error() + "."
		}
		return finding
	}
	var names, unhealthy []string
	for _, d := range devices {
		names = append(names, d.Model)
		if d.Unhealthy != "" {
			unhealthy = append(unhealthy, fmt.Sprintf("GPU %d is not given out: %s.", d.Index, d.Unhealthy))
		}
	}
	detail := fmt.Sprintf("%d from %s: %s.", len(devices), source.Name(), strings.Join(names, ", "))
	return Finding{Subject: "GPUs", OK: len(unhealthy) < len(devices), Detail: strings.Join(append([]string{detail}, unhealthy...), " ")}
}
