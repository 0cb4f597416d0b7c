package gpu

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func nobody() *syscall.Credential { return &syscall.Credential{Uid: 65534, Gid: 65534} }

func TestParseGPUs(t *testing.T) {
	for _, c := range []struct {
		name, out string
		devices   []Device
		samples   []Sample
		err       string
	}{
		{
			name: "H200",
			out:  "0, GPU-3f2c1a9e-6d5b-4c1f-9a7e-0b1d2c3e4f50, 00000000:18:00.0, 143771, 81243, 97, 541.22, 58, Disabled, NVIDIA H200\n",
			devices: []Device{{Index: 0, UUID: "GPU-3f2c1a9e-6d5b-4c1f-9a7e-0b1d2c3e4f50", Model: "H200", Product: "NVIDIA H200",
				MemoryMiB: 143771}},
			samples: []Sample{{UUID: "GPU-3f2c1a9e-6d5b-4c1f-9a7e-0b1d2c3e4f50", UtilizationPercent: 97, MemoryUsedMiB: 81243, PowerWatts: 541, TemperatureC: 58}},
		},
		{
			name: "a desktop without all figures, out of order",
			out: "1, GPU-b, 00000000:41:00.0, 24564, 512, [N/A], [Not Supported], 41, [N/A], NVIDIA GeForce RTX 4090\n" +
				"0, GPU-a, 00000000:01:00.0, 16160, 0, 0, 24.61, 33, [N/A], Tesla V100-SXM2-16GB\n",
			devices: []Device{{Index: 0, UUID: "GPU-a", Model: "V100", Product: "Tesla V100-SXM2-16GB", MemoryMiB: 16160},
				{Index: 1, UUID: "GPU-b", Model: "RTX4090", Product: "NVIDIA GeForce RTX 4090", MemoryMiB: 24564}},
			samples: []Sample{{UUID: "GPU-a", PowerWatts: 25, TemperatureC: 33}, {UUID: "GPU-b", MemoryUsedMiB: 512, TemperatureC: 41}},
		},
		{
			name: "MIG",
			out:  "0, GPU-a, 00000000:01:00.0, 40960, 10, [N/A], 41.00, 30, Enabled, NVIDIA A100-SXM4-40GB\n",
			devices: []Device{{Index: 0, UUID: "GPU-a", Model: "A100", Product: "NVIDIA A100-SXM4-40GB", MemoryMiB: 40960,
				Unhealthy: migReason}},
			samples: []Sample{{UUID: "GPU-a", MemoryUsedMiB: 10, PowerWatts: 41, TemperatureC: 30}},
		},
		{
			name: "a lost one",
			out:  "0, GPU-a, 00000000:01:00.0, [GPU is lost], [GPU is lost], [GPU is lost], [GPU is lost], [GPU is lost], [N/A], NVIDIA H100 PCIe\n",
			devices: []Device{{Index: 0, UUID: "GPU-a", Model: "H100", Product: "NVIDIA H100 PCIe",
				Unhealthy: "the driver does not give its memory size ([GPU is lost])"}},
			samples: []Sample{{UUID: "GPU-a"}},
		},
		{name: "none", out: "No devices were found\n"},
		{name: "nothing", out: ""},
		{name: "another program", out: "hello\n", err: "has 1 columns; 10 were asked for"},
		{name: "no UUID", out: "0, [Unknown Error], 00000000:01:00.0, 1, 1, 1, 1, 1, [N/A], NVIDIA H100 PCIe\n", err: "no index and UUID"},
	} {
		t.Run(c.name, func(t *testing.T) {
			rows, err := parseGPUs(c.out)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("the error is %v; want one with %q", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var devices []Device
			var samples []Sample
			for _, r := range rows {
				devices, samples = append(devices, r.device), append(samples, r.sample)
			}
			if diff := cmp.Diff(c.devices, devices); diff != "" {
				t.Errorf("devices (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.samples, samples); diff != "" {
				t.Errorf("samples (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseProcesses(t *testing.T) {
	out := `GPU-a, 4242, 81220, python3, -u, train.py
GPU-a, 4243, [N/A], [Not Found]
GPU-b, 77, 512, /usr/lib/xorg/Xorg
GPU-b, [N/A], [N/A], [Insufficient Permissions]
No running processes found
`
	want := map[string][]Process{
		"GPU-a": {{PID: 4242, MemoryMiB: 81220, Command: "python3, -u, train.py"}, {PID: 4243}},
		"GPU-b": {{PID: 77, MemoryMiB: 512, Command: "/usr/lib/xorg/Xorg"}},
	}
	if diff := cmp.Diff(want, parseProcesses(out)); diff != "" {
		t.Errorf("processes (-want +got):\n%s", diff)
	}
}

func TestSortProcesses(t *testing.T) {
	got := sortProcesses([]Process{{PID: 9}, {PID: 3, MemoryMiB: 1}, {PID: 9, MemoryMiB: 5}})
	if diff := cmp.Diff([]Process{{PID: 3, MemoryMiB: 1}, {PID: 9, MemoryMiB: 5}}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// program puts an nvidia-smi made of a shell script on the PATH, alone with
// the shell.
func program(t *testing.T, script string) {
	t.Helper()
	dir := t.TempDir()
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "nvidia-smi"), []byte("#!"+shell+"\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+filepath.Dir(shell))
}

// TestProgramSource runs the source over a program that answers as NVIDIA's
// does, with this very process on the device.
func TestProgramSource(t *testing.T) {
	program(t, fmt.Sprintf(`case "$1" in
--query-gpu=index,uuid,pci.bus_id,memory.total,memory.used,utilization.gpu,power.draw,temperature.gpu,mig.mode.current,name)
  echo "0, GPU-a, 00000000:18:00.0, 143771, 81243, 97, 541.22, 58, Disabled, NVIDIA H200" ;;
--query-compute-apps=gpu_uuid,pid,used_memory,process_name)
  echo "GPU-a, %d, 512, test"
  echo "GPU-a, 99999999, 1, gone" ;;
--query)
  [ "$2" = --id=GPU-a ] && printf '    Product Name                          : NVIDIA H200\n    Minor Number                          : 4\n'
  exit ;;
*) echo "unknown: $1"; exit 2 ;;
esac
[ "$2" = --format=csv,noheader,nounits ]
`, os.Getpid()))
	source, err := openSMI(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = source.Close() })
	// The driver says in /proc which device file belongs to a PCI address.
	proc := t.TempDir()
	information := filepath.Join(proc, "driver/nvidia/gpus/0000:18:00.0/information")
	if err := os.MkdirAll(filepath.Dir(information), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(information, []byte("Model: \t\t NVIDIA H200\nDevice Minor: \t 3\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	devices, err := (&smi{path: source.(*smi).path, proc: proc}).Devices(t.Context())
	if err != nil || len(devices) != 1 || devices[0].Node != "/dev/nvidia3" || !strings.Contains(devices[0].Unhealthy, "/dev/nvidia3 cannot be used") {
		t.Errorf("devices are %+v, %v; want one whose file /dev/nvidia3 is missing", devices, err)
	}
	// Where /proc says nothing the program is asked.
	devices, err = (&smi{path: source.(*smi).path, proc: t.TempDir()}).Devices(t.Context())
	if err != nil || len(devices) != 1 || devices[0].Node != "/dev/nvidia4" {
		t.Errorf("devices are %+v, %v; want one with the file /dev/nvidia4", devices, err)
	}
	samples, err := source.Sample(t.Context())
	if err != nil || len(samples) != 1 || len(samples[0].Processes) != 2 {
		t.Fatalf("samples are %+v, %v", samples, err)
	}
	me, gone := samples[0].Processes[0], samples[0].Processes[1]
	if me.PID != os.Getpid() || me.User == "" || !strings.Contains(me.Command, "gpu.test") || me.MemoryMiB != 512 {
		t.Errorf("this process is shown as %+v", me)
	}
	if want := (Process{PID: 99999999, Command: "gone", MemoryMiB: 1}); gone != want {
		t.Errorf("a process that is gone is shown as %+v; want %+v", gone, want)
	}
}

func TestProgramFails(t *testing.T) {
	program(t, "echo \"NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\"\nexit 9\n")
	if _, err := openSMI(t.Context()); err == nil || !strings.Contains(err.Error(), "exit status 9: NVIDIA-SMI has failed") {
		t.Errorf("the error is %v; want the program's own words", err)
	}
}

func TestProgramHangs(t *testing.T) {
	program(t, "exec sleep 60\n")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	start := time.Now()
	if _, err := openSMI(ctx); err == nil || time.Since(start) > 5*time.Second {
		t.Errorf("a program that hangs gave %v after %v", err, time.Since(start))
	}
	if _, err := Open(ctx, Options{}); err == nil {
		t.Error("Open gave no error although its context had ended")
	}
}

func TestExplain(t *testing.T) {
	text := func(findings []Finding) string {
		var lines []string
		for _, f := range findings {
			lines = append(lines, f.String())
		}
		return strings.Join(lines, "\n")
	}
	missing := func(string) (string, error) { return "", exec.ErrNotFound }
	write := func(root, path, content string) {
		t.Helper()
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	bare := text(explainer{root: t.TempDir(), lookPath: missing}.explain(t.Context(), Options{}))
	if !strings.Contains(bare, "no NVIDIA GPU is on this machine") || strings.Contains(bare, "modprobe") {
		t.Errorf("a machine without the hardware is told:\n%s", bare)
	}

	root := t.TempDir()
	write(root, "sys/bus/pci/devices/0000:18:00.0/vendor", "0x10de\n")
	write(root, "sys/bus/pci/devices/0000:18:00.0/class", "0x030200\n")
	write(root, "sys/bus/pci/devices/0000:19:00.0/vendor", "0x10de\n")
	write(root, "sys/bus/pci/devices/0000:19:00.0/class", "0x0c0330\n")
	without := text(explainer{root: root, lookPath: missing}.explain(t.Context(), Options{}))
	for _, want := range []string{"1 NVIDIA GPUs are on the PCI bus", "driver is not loaded", "modprobe nvidia", "not on the PATH"} {
		if !strings.Contains(without, want) {
			t.Errorf("a machine without the driver is not told %q:\n%s", want, without)
		}
	}

	write(root, "proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024\nGCC version:\n")
	write(root, "dev/nvidia0", "")
	with := text(explainer{root: root, lookPath: missing}.explain(t.Context(), Options{}))
	for _, want := range []string{"driver (ok): NVRM version: NVIDIA UNIX x86_64 Kernel Module 550.54.15", "nvidiactl cannot be used"} {
		if !strings.Contains(with, want) {
			t.Errorf("a machine with the driver is not told %q:\n%s", want, with)
		}
	}

	pretend := text(Explain(t.Context(), Options{Simulate: "8xA100"}))
	if !strings.Contains(pretend, "8 pretend devices") {
		t.Errorf("with simulated devices it says:\n%s", pretend)
	}
}
