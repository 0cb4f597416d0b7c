package gpu

import (
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestShareEnviron(t *testing.T) {
	jax := []string{"XLA_CLIENT_MEM_FRACTION"}
	for _, c := range []struct {
		name   string
		device Device
		share  Share
		want   []Variable
	}{
		{"real", Device{MemoryMiB: 81920}, Share{250, 20480}, []Variable{
			{Name: "MUSTER_GPU_MILLI", Value: "250"}, {Name: "MUSTER_GPU_MEMORY_MIB", Value: "20480"},
			{Name: "MUSTER_GPU_MEMORY_FRACTION", Value: "0.25"}, {Name: "TF_FORCE_GPU_ALLOW_GROWTH", Value: "true"},
			{Name: "XLA_PYTHON_CLIENT_MEM_FRACTION", Value: "0.25", Unless: jax},
		}},
		{"rounded down", Device{MemoryMiB: 3000, Simulated: true}, Share{333, 1000}, []Variable{
			{Name: "MUSTER_GPU_MILLI", Value: "333"}, {Name: "MUSTER_GPU_MEMORY_MIB", Value: "1000"},
			{Name: "MUSTER_GPU_MEMORY_FRACTION", Value: "0.3333"},
		}},
		{"all of its memory", Device{MemoryMiB: 3000, Simulated: true}, Share{1000, 3000}, []Variable{
			{Name: "MUSTER_GPU_MILLI", Value: "1000"}, {Name: "MUSTER_GPU_MEMORY_MIB", Value: "3000"},
			{Name: "MUSTER_GPU_MEMORY_FRACTION", Value: "1"},
		}},
		{"memory of unknown size", Device{}, Share{Milli: 250}, []Variable{{Name: "MUSTER_GPU_MILLI", Value: "250"}}},
	} {
		if diff := cmp.Diff(c.want, ShareEnviron(c.device, c.share)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

// TestEnforce: the word is enforced where everything speaks for it, and where
// any one thing does not it is not.
func TestEnforce(t *testing.T) {
	good := Circumstances{
		Device: Device{Model: "H100", MemoryMiB: 81920}, Devices: 1, Share: Share{250, 20480},
		MPS: &MPS{PipeDir: "/mps"}, Driver: "535.129.03",
	}
	for _, c := range []struct {
		name   string
		change func(*Circumstances)
		want   string
	}{
		{"all is well", func(*Circumstances) {}, "enforced by MPS, for each process"},
		{"simulated", func(c *Circumstances) { c.Device.Simulated = true }, "not enforced: the GPU is simulated"},
		{"memory not known", func(c *Circumstances) { c.Share.MemoryMiB = 0 }, "not enforced: the GPU does not tell how much memory it has"},
		{"isolated", func(c *Circumstances) { c.Isolated = true }, "not enforced: MPS is not reached from the isolated tier, nor from an image"},
		{"no daemon", func(c *Circumstances) { c.MPS, c.NoMPS = nil, "no MPS daemon runs" }, "not enforced: no MPS daemon runs"},
		{"another user", func(c *Circumstances) { c.OtherUser = true }, "not enforced: the container runs as another user"},
		{"its own limits", func(c *Circumstances) { c.Own = []string{"CUDA_MPS_PIPE_DIRECTORY"} }, "not enforced: the container sets CUDA_MPS_PIPE_DIRECTORY itself"},
		{"an old GPU", func(c *Circumstances) { c.Device.Model = "P100" }, "not enforced: MPS limits no memory on a GPU of this age (P100)"},
		{"an old driver", func(c *Circumstances) { c.Driver = "470.82.01" }, "not enforced: MPS limits memory from driver 495 on, and this one is 470.82.01"},
		{"a driver of unknown age", func(c *Circumstances) { c.Driver = "" }, "and this one is not known"},
		{"several GPUs", func(c *Circumstances) { c.Devices = 8 }, "not enforced: MPS counts GPUs by number"},
	} {
		given := good
		c.change(&given)
		got := Enforce(given)
		if !strings.HasPrefix(got.String(), c.want) && !strings.HasSuffix(got.String(), c.want) {
			t.Errorf("%s: %q; want %q", c.name, got, c.want)
		}
		if got.Enforced != (c.name == "all is well") {
			t.Errorf("%s: enforced is %t", c.name, got.Enforced)
		}
	}
}

// TestFindMPS has a daemon answer, refuse, and be absent.
func TestFindMPS(t *testing.T) {
	dir := t.TempDir()
	if _, err := findMPS(t.Context(), dir); err == nil || !strings.Contains(err.Error(), "no MPS daemon runs (there is no "+dir) {
		t.Errorf("without a daemon: %v", err)
	}
	listener, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: filepath.Join(dir, "control"), Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	listener.SetUnlinkOnClose(false)
	mps, err := findMPS(t.Context(), dir)
	if err != nil || mps.PipeDir != dir {
		t.Fatalf("with a daemon: %v, %v", mps, err)
	}
	want := []Variable{
		{Name: "CUDA_MPS_PIPE_DIRECTORY", Value: dir}, {Name: "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", Value: "0=20480M"},
		{Name: "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", Value: "26"},
	}
	if diff := cmp.Diff(want, mps.Environ(Share{251, 20480})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := findMPS(t.Context(), dir); err == nil || !strings.Contains(err.Error(), "is left from one that ended") {
		t.Errorf("after the daemon's end: %v", err)
	}
}

func TestDriverVersion(t *testing.T) {
	for text, want := range map[string]string{
		"NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19 18:56:32 UTC 2023\nGCC version: 12.2.0\n": "535.129.03",
		"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build\n":                             "570.86.15",
		"nonsense": "",
	} {
		root := t.TempDir()
		folder := filepath.Join(root, "proc/driver/nvidia")
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, "version"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := driverVersionAt(root); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// TestServers: a server of MPS is known by its file, which is root's, and not by what a program says.
func TestServers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("it needs root")
	}
	dir := t.TempDir()
	server := filepath.Join(dir, mpsServer)
	text, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(server, text, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		file    string
		prepare func() error
		want    bool
	}{
		{"the server", server, func() error { return nil }, true},
		{"another program by that name", "/proc/self/exe", func() error { return nil }, false},
		{"a file that others can change", server, func() error { return os.Chmod(server, 0o777) }, false},
		{"a file of another user", server, func() error { return errors.Join(os.Chmod(server, 0o755), os.Chown(server, 1234, 1234)) }, false},
	} {
		if err := c.prepare(); err != nil {
			t.Fatal(err)
		}
		command := exec.CommandContext(t.Context(), c.file, "-test.run=^TestWaits$")
		command.Args[0] = "/usr/bin/" + mpsServer
		command.Env = append(os.Environ(), "MUSTER_TEST_WAITS=1")
		in, err := command.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		if got := describe("/proc", byNumber, Process{PID: command.Process.Pid}); got.Server != c.want {
			t.Errorf("%s: got %+v", c.name, got)
		}
		if err := errors.Join(in.Close(), command.Wait()); err != nil {
			t.Error(err)
		}
	}
}

// TestWaits is the program of TestServers: it ends with its input.
func TestWaits(t *testing.T) {
	if os.Getenv("MUSTER_TEST_WAITS") == "" {
		return // TestServers runs it in a process of its own
	}
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		t.Fatal(err)
	}
}

// TestOutsiders: a process is an outsider on each GPU that its container was not given.
func TestOutsiders(t *testing.T) {
	own := map[int]Holder{
		1: {"team/one", []string{LockPath("a")}}, 2: {"team/two", []string{LockPath("b")}}, 3: {"team/none", nil},
	}
	samples := []Sample{
		{UUID: "a", Processes: []Process{{PID: 1}, {PID: 2, Command: "python x"}, {PID: 3}, {PID: 4, Command: "game"}, {PID: 5}, {PID: 6, Server: true}}},
		{UUID: "b", Processes: []Process{{PID: 2}, {PID: 6, Server: true}}},
		{UUID: "c"},
	}
	got := Outsiders(samples, own, func(pid int) bool { return pid != 5 })
	want := map[string][]Process{"a": {
		{PID: 2, Command: "pod team/two, which was not given this GPU: python x"},
		{PID: 3, Command: "pod team/none, which was not given this GPU: "}, {PID: 4, Command: "game"},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
