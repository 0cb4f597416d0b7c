//go:build linux

package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/device"
	"github.com/muster-dev/muster/internal/cli/instance"
	"github.com/muster-dev/muster/internal/node/gpu"
	"github.com/muster-dev/muster/internal/node/limits"
	"github.com/muster-dev/muster/internal/node/network"
	"github.com/muster-dev/muster/internal/node/process"
	"github.com/muster-dev/muster/internal/node/shim"
	"github.com/muster-dev/muster/internal/room"
)

// here looks at this machine.
func here(ctx context.Context, factory *connection.Factory, home instance.Home, dir string) []Finding {
	kept := tier(ctx)
	last, _ := home.Choices() // up reports a file that it cannot read
	able, reason := isolation(ctx)
	findings := []Finding{asLast(kept, "tier", last.Tier, "auto"), bounds(), images(ctx, home, able, reason), asLast(gpus(ctx, home), "simulate-gpus", last.SimulateGPUs, "none")}
	findings = append(findings, shares(ctx, home, kept.Verdict == Good)...)
	findings = append(findings, held(ctx, factory, home)...)
	findings = append(findings, guarded(home, last.Guard)...)
	return append(findings, python(ctx), disk(dir), port(ctx, home), names(ctx))
}

// asLast adds a note that up uses a flag of the last start, and the value that resets it.
func asLast(f Finding, flag, last, none string) Finding {
	if last != "" {
		f.Says += fmt.Sprintf("; muster up uses --%s %s of the last start (--%[1]s %[3]s resets it)", flag, last, none)
	}
	return f
}

// tier says which tier `muster up` takes.
func tier(ctx context.Context) Finding {
	f := Finding{Check: "tier", Verdict: Good, Says: "isolated: pods have processes, mounts and addresses of their own"}
	able, reason := isolation(ctx)
	if able {
		able, reason = network.Available()
	}
	if !able {
		f.Verdict = Limited
		f.Says = "plain: pods share this machine's network and files, because " + reason
		f.Fix = "run muster as root on the machine itself for the isolated tier; docs/tiers.md says what each guarantees"
	}
	return f
}

// isolation asks a runtime in a folder that is thrown away.
func isolation(ctx context.Context) (bool, string) {
	dir, err := os.MkdirTemp("", "muster-doctor-")
	if err != nil {
		return false, err.Error()
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path, err := shim.Extract(filepath.Join(dir, "bin"))
	if err != nil {
		return false, err.Error()
	}
	runtime, err := process.New(process.Options{Root: filepath.Join(dir, "pods"), Shim: path})
	if err != nil {
		return false, err.Error()
	}
	return runtime.IsolationAvailable(ctx)
}

// bounds checks whether memory and CPU limits are kept.
func bounds() Finding {
	kept := limits.Of(process.LimitsAvailable())
	f := Finding{"limits", Good, kept.String(), kept.Advice()}
	if kept.Not != "" {
		f.Verdict = Limited
	}
	return f
}

// gpus lists the GPUs and who uses them.
func gpus(ctx context.Context, home instance.Home) Finding {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	f := Finding{Check: "GPUs", Verdict: Good}
	source, err := gpu.Open(ctx, gpu.Options{Scope: string(home)})
	if err != nil {
		return Finding{"GPUs", Limited, err.Error(), "jobs without GPUs run; mend the driver for the others"}
	}
	defer func() { _ = source.Close() }()
	devices, err := source.Devices(ctx)
	if err != nil {
		return Finding{"GPUs", Limited, err.Error(), "jobs without GPUs run; mend the driver for the others"}
	}
	if len(devices) == 0 {
		return noGPUs(gpu.Explain(ctx, gpu.Options{}))
	}
	words := make([]string, len(devices))
	for i, d := range devices {
		words[i] = fmt.Sprintf("%d: %s, %d MiB", d.Index, d.Product, d.MemoryMiB)
		if d.Unhealthy != "" {
			words[i] += " (" + d.Unhealthy + ")"
			f.Verdict = Limited
		}
	}
	f.Says = strings.Join(words, "; ") + " (read through " + source.Name() + ")"
	return f
}

// held looks whether pods of the Muster that runs here hold GPUs that are no
// longer in its node. There is nothing to say where none does.
func held(ctx context.Context, factory *connection.Factory, home instance.Home) []Finding {
	if _, alive, err := home.Read(); err != nil || !alive {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var nodes corev1.NodeList
	var pods corev1.PodList
	server, err := factory.Client()
	if err == nil {
		err = errors.Join(server.List(ctx, &nodes), server.List(ctx, &pods))
	}
	if err != nil {
		return []Finding{{"server", Limited, fmt.Sprintf("the Muster that runs here does not say what it holds: %v", err), "look into its log: muster.log in the data folder"}}
	}
	var findings []Finding
	for i := range nodes.Items {
		for _, words := range device.Words(device.GoneFrom(&nodes.Items[i], pods.Items)) {
			findings = append(findings, Finding{"GPUs held", Limited, words,
				"bring them back (`muster top` shows what is there), or delete the job: until it ends it goes on as it can"})
		}
	}
	return findings
}

// noGPUs says what is missing on the way to GPUs.
func noGPUs(looked []gpu.Finding) Finding {
	var missing, advice []string
	for _, one := range looked {
		if one.OK {
			continue
		}
		missing = append(missing, one.Subject+": "+one.Detail)
		if one.Advice != "" && !strings.Contains(one.Advice, "--simulate-gpus") {
			advice = append(advice, one.Advice)
		}
	}
	advice = append(advice, "To try things out, declare pretend ones: muster up --simulate-gpus 8xA100")
	return Finding{"GPUs", Limited, "none; " + strings.TrimSuffix(strings.Join(missing, " "), "."), strings.Join(advice, " ")}
}

// python looks for what environments are built with.
func python(ctx context.Context) Finding {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	path, err := exec.LookPath("python3")
	if err != nil {
		return Finding{"Python", Limited, "no python3 in $PATH", "install Python 3.9 or later, or give every job an environment with --python"}
	}
	out, err := exec.CommandContext(ctx, path, "-c", "import sys, venv, ensurepip; print('.'.join(map(str, sys.version_info[:3])))").CombinedOutput()
	if err != nil {
		return Finding{"Python", Limited, fmt.Sprintf("%s cannot make virtual environments: %s", path, lastLine(out)), "on Debian: apt install python3-venv"}
	}
	return Finding{"Python", Good, fmt.Sprintf("%s, version %s", path, strings.TrimSpace(string(out))), ""}
}

func lastLine(out []byte) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return lines[len(lines)-1]
}

// Free space below which `up` warns, in bytes.
const littleSpace = 5 << 30

// disk looks at the file system of the data folder.
func disk(dir string) Finding {
	for {
		if _, err := os.Stat(dir); err == nil {
			break
		}
		dir = filepath.Dir(dir)
	}
	space, err := room.Look(dir)
	if err != nil {
		return Finding{"disk", Bad, fmt.Sprintf("%s cannot be looked at: %v", dir, err), "choose another data folder with --home"}
	}
	says := fmt.Sprintf("%.1f GiB free in %s", float64(space.Free)/(1<<30), dir)
	switch {
	case unix.Access(dir, unix.W_OK) != nil:
		return Finding{"disk", Bad, dir + " cannot be written", "choose another data folder with --home"}
	case space.Low():
		return Finding{"disk", Bad, space.Words(), "make room on this disk: only removal works until then"}
	case space.Free < littleSpace:
		return Finding{"disk", Limited, says, "environments and checkpoints take gigabytes: free some, or choose another data folder with --home"}
	}
	return Finding{"disk", Good, says, ""}
}

// port looks whether the API server's usual port is free, or Muster's own.
func port(ctx context.Context, home instance.Home) Finding {
	if s, alive, err := home.Read(); err == nil && alive {
		return Finding{"port", Good, "muster serves on " + s.Server, ""}
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:6443")
	if err != nil {
		if errors.Is(err, unix.EADDRINUSE) {
			return Finding{"port", Good, "6443 is taken by another program; muster up takes another one", ""}
		}
		return Finding{"port", Bad, err.Error(), "muster must be able to listen on 127.0.0.1"}
	}
	_ = listener.Close()
	return Finding{"port", Good, "6443 is free", ""}
}

// names looks whether other machines' names are needed: only the loopback is.
func names(ctx context.Context) Finding {
	if addresses, err := net.DefaultResolver.LookupHost(ctx, "localhost"); err != nil || len(addresses) == 0 {
		return Finding{"names", Limited, "localhost does not resolve", "add \"127.0.0.1 localhost\" to /etc/hosts"}
	}
	return Finding{"names", Good, "localhost resolves", ""}
}
