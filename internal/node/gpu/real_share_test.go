//go:build gpu

package gpu

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// takes is a program that takes so many MiB of the first GPU by the driver's
// own interface, says so, and holds them until its input ends. It ends with 7
// where the driver gives it no more memory.
const takes = `
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
def call(name, *args):
    code = getattr(cuda, name)(*args)
    if code == 2:
        sys.exit(7)
    if code:
        sys.exit("%s: %d" % (name, code))
device, context, memory = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
call("cuInit", 0)
call("cuDeviceGet", ctypes.byref(device), 0)
call("cuCtxCreate_v2", ctypes.byref(context), 0, device)
call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(int(sys.argv[1]) << 20))
call("cuMemsetD8_v2", memory, 1, ctypes.c_size_t(int(sys.argv[1]) << 20))
print("holds", flush=True)
sys.stdin.read()
call("cuMemsetD8_v2", memory, 2, ctypes.c_size_t(int(sys.argv[1]) << 20))
call("cuCtxSynchronize")
`

// TestRealShare has a process take half its share of a real GPU and another
// twice its own: where shares are said to be enforced the second fails and the
// first goes on; where they are not, that is all that is said:
// go test -tags nvml,gpu -run TestRealShare ./internal/node/gpu
func TestRealShare(t *testing.T) {
	source, err := Open(t.Context(), Options{LockDir: filepath.Join(t.TempDir(), "locks")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = source.Close() })
	devices, err := source.Devices(t.Context())
	if err != nil || len(devices) == 0 {
		t.Skipf("this machine has no GPU that the driver shows: %v", err)
	}
	mps := daemon(t, devices[0])
	share := Share{Milli: 250, MemoryMiB: devices[0].MemoryMiB / 4}
	c := Circumstances{Device: devices[0], Devices: len(devices), Share: share, MPS: mps, Driver: DriverVersion()}
	verdict := Enforce(c)
	t.Log(verdict)
	if !verdict.Enforced {
		t.Skip("nothing is claimed, so there is nothing to hold it to")
	}
	neighbour, input := taker(t, devices[0], mps, share, share.MemoryMiB/2)
	greedy, end := taker(t, devices[0], mps, share, 2*share.MemoryMiB)
	_ = end.Close()
	if code := greedy(); code != 7 {
		t.Errorf("a process that takes twice its share ends with %d; want 7, out of memory", code)
	}
	_ = input.Close()
	if code := neighbour(); code != 0 {
		t.Errorf("its neighbour ends with %d", code)
	}
}

// daemon finds MPS, or starts it for the test.
func daemon(t *testing.T, d Device) *MPS {
	t.Helper()
	if mps, err := FindMPS(t.Context()); err == nil {
		return mps
	}
	dir := t.TempDir()
	control := func(input string, args ...string) error {
		command := exec.CommandContext(context.WithoutCancel(t.Context()), "nvidia-cuda-mps-control", args...)
		command.Env = append(os.Environ(), "CUDA_MPS_PIPE_DIRECTORY="+dir, "CUDA_MPS_LOG_DIRECTORY="+dir, "CUDA_VISIBLE_DEVICES="+d.UUID)
		command.Stdin = strings.NewReader(input)
		return command.Run()
	}
	if err := control("", "-d"); err != nil {
		t.Skipf("there is no MPS here: %v", err)
	}
	t.Cleanup(func() { _ = control("quit -t 5\n") })
	mps, err := findMPS(t.Context(), dir)
	if err != nil {
		t.Fatalf("MPS was started and is not found: %v", err)
	}
	return mps
}

// taker starts a process that takes so many MiB, waits until it holds them or
// has ended, and returns how to learn its exit code.
func taker(t *testing.T, d Device, mps *MPS, s Share, mib int64) (wait func() int, input *os.File) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	command := exec.CommandContext(ctx, "python3", "-c", takes, strconv.FormatInt(mib, 10))
	command.Env = append(os.Environ(), Environ([]Device{d}, false)...)
	for _, v := range mps.Environ(s) {
		command.Env = append(command.Env, v.Name+"="+v.Value)
	}
	from, input, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = input.Close() })
	command.Stdin, command.Stderr = from, os.Stderr
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	_ = from.Close()
	_, _ = out.Read(make([]byte, 16)) // what it says, or its end
	return func() int {
		_ = command.Wait()
		return command.ProcessState.ExitCode()
	}, input
}
