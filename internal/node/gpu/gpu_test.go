package gpu

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

func TestParseSimulated(t *testing.T) {
	device := func(index int, model string, memory int64) Device {
		return Device{Index: index, Model: model, Product: "Simulated " + model, MemoryMiB: memory, Simulated: true}
	}
	for _, c := range []struct {
		given string
		want  []Device
		err   string
	}{
		{given: ""},
		{given: "1xA100", want: []Device{device(0, "A100", 81920)}},
		{given: "2xA100:40Gi", want: []Device{device(0, "A100", 40960), device(1, "A100", 40960)}},
		{given: "1xa100, 2xH200", want: []Device{device(0, "A100", 81920), device(1, "H200", 144384), device(2, "H200", 144384)}},
		{given: "1xFANCY", want: []Device{device(0, "FANCY", 16384)}},
		{given: "A100", err: `"A100" is not understood; write a number`},
		{given: "2x", err: `"2x" is not understood`},
		{given: "2xA100,", err: `"" is not understood`},
		{given: "-1xA100", err: `"-1xA100" is not understood`},
		{given: "0xA100", err: `0 devices were asked for in "0xA100"; 1 to 1024`},
		{given: "1000xA100,25xH100", err: `25 devices were asked for in "25xH100"; 1 to 1024 in all`},
		{given: "99999999999999999999xA100", err: "1 to 1024 in all"},
		{given: "1xA100:40GB", err: "is not understood"},
		{given: "1xA100:0Gi", err: "1Gi to 4096Gi"},
	} {
		got, err := ParseSimulated(c.given)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("ParseSimulated(%q) gave the error %v; want one with %q", c.given, err, c.err)
			}
			continue
		}
		if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
			t.Errorf("ParseSimulated(%q): %v (-want +got):\n%s", c.given, err, diff)
		}
	}
}

func TestSimulatedUUIDs(t *testing.T) {
	uuids := func(scope string) []string {
		source, err := Open(t.Context(), Options{Simulate: "2xA100", Scope: scope, LockDir: filepath.Join(t.TempDir(), "locks")})
		if err != nil {
			t.Fatal(err)
		}
		devices, err := source.Devices(t.Context())
		if err := errors.Join(err, source.Close()); err != nil {
			t.Fatal(err)
		}
		return []string{devices[0].UUID, devices[1].UUID}
	}
	one, again, two := uuids("/data/one"), uuids("/data/one"), uuids("/data/two")
	if !cmp.Equal(one, again) {
		t.Errorf("after a restart %v became %v", one, again)
	}
	if one[0] == one[1] || one[0] == two[0] || one[1] == two[1] || !strings.HasPrefix(one[0], "GPU-sim-") {
		t.Errorf("the UUIDs %v and %v are not all different", one, two)
	}
}

func TestSimulatedSource(t *testing.T) {
	locks := filepath.Join(t.TempDir(), "locks")
	source, err := Open(t.Context(), Options{Simulate: "2xA100", LockDir: locks})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = source.Close() })
	devices, err := source.Devices(t.Context())
	if err != nil || source.Name() != "simulated" {
		t.Fatalf("%s: %v", source.Name(), err)
	}
	samples, err := source.Sample(t.Context())
	if err != nil || len(samples) != 2 || samples[1].UUID != devices[1].UUID {
		t.Errorf("samples are %v, %v", samples, err)
	}
	for _, d := range devices {
		if _, err := os.Stat(LockPathIn(locks, d.UUID)); err != nil {
			t.Error(err)
		}
	}
	if _, err := Open(t.Context(), Options{Simulate: "eight"}); err == nil {
		t.Error("a wrong declaration was taken")
	}
}

func TestEnviron(t *testing.T) {
	real := []Device{{UUID: "GPU-1"}, {UUID: "GPU-2"}}
	pretend := []Device{{UUID: "GPU-sim-1", Model: "A100", Simulated: true}, {UUID: "GPU-sim-2", Model: "H100", Simulated: true}}
	for _, c := range []struct {
		name  string
		given []Device
		want  []string
	}{
		{"none", nil, []string{"CUDA_VISIBLE_DEVICES=", "NVIDIA_VISIBLE_DEVICES=void"}},
		{"real", real, []string{"CUDA_VISIBLE_DEVICES=GPU-1,GPU-2", "NVIDIA_VISIBLE_DEVICES=GPU-1,GPU-2"}},
		{"simulated", pretend, []string{"CUDA_VISIBLE_DEVICES=", "NVIDIA_VISIBLE_DEVICES=void", "MUSTER_GPUS=GPU-sim-1=A100,GPU-sim-2=H100"}},
	} {
		if diff := cmp.Diff(c.want, Environ(c.given)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestLock(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "locks")
	devices := []Device{{UUID: "GPU-1"}, {UUID: "GPU-2"}}
	for range 2 {
		if err := PrepareLocks(dir, devices); err != nil {
			t.Fatal(err)
		}
	}
	if info, err := os.Stat(dir); err != nil || info.Mode()&(os.ModePerm|os.ModeSticky) != 0o777|os.ModeSticky {
		t.Errorf("the folder has the mode %v, %v; want 1777", info.Mode(), err)
	}
	path := LockPathIn(dir, "GPU-1")
	lock, err := Lock(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Lock(path); !errors.Is(err, ErrLocked) {
		t.Errorf("a second holder got %v; want ErrLocked", err)
	}
	if pid, err := LockHolder(path); pid != os.Getpid() || err != nil {
		t.Errorf("the holder is %d, %v; want %d", pid, err, os.Getpid())
	}
	if pid, err := LockHolder(LockPathIn(dir, "GPU-2")); pid != 0 || err != nil {
		t.Errorf("the holder of a free lock is %d, %v", pid, err)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	if pid, err := LockHolder(path); pid != 0 || err != nil {
		t.Errorf("the holder of a freed lock is %d, %v", pid, err)
	}
	if again, err := Lock(path); err != nil {
		t.Error(err)
	} else if err := again.Close(); err != nil {
		t.Error(err)
	}
}

// TestLockOfAnotherUser has the file made by one user and locked by others.
func TestLockOfAnotherUser(t *testing.T) {
	flock, err := exec.LookPath("flock")
	if err != nil || os.Geteuid() != 0 {
		t.Skip("it needs root and the flock program")
	}
	dir := t.TempDir()
	if err := errors.Join(os.Chmod(filepath.Dir(dir), 0o755), os.Chmod(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	locks := filepath.Join(dir, "locks")
	if err := PrepareLocks(locks, []Device{{UUID: "GPU-1"}}); err != nil {
		t.Fatal(err)
	}
	path := LockPathIn(locks, "GPU-1")
	asNobody := func() error {
		command := exec.CommandContext(t.Context(), flock, "--nonblock", "--exclusive", path, "true")
		command.SysProcAttr = &unix.SysProcAttr{Credential: nobody()}
		out, err := command.CombinedOutput()
		if err != nil && len(out) > 0 {
			t.Errorf("flock says: %s", out)
		}
		return err
	}
	if err := asNobody(); err != nil {
		t.Errorf("another user cannot lock: %v", err)
	}
	lock, err := Lock(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := asNobody(); err == nil {
		t.Error("another user locked what is held")
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestLockPath(t *testing.T) {
	if got, want := LockPath("GPU-1"), "/tmp/.muster-gpu/GPU-1.lock"; got != want {
		t.Errorf("LockPath is %q; want %q", got, want)
	}
	if got, want := LockPath("../x"), "/tmp/.muster-gpu/.._x.lock"; got != want {
		t.Errorf("LockPath is %q; want %q", got, want)
	}
}

func TestPrintable(t *testing.T) {
	if got := printable("a\x1b[31mb\nc\xff"); got != "a [31mb c?" {
		t.Errorf("printable gave %q", got)
	}
	if got := []rune(printable(strings.Repeat("ä", 500))); len(got) != maxCommand {
		t.Errorf("a long command line has %d characters", len(got))
	}
}
