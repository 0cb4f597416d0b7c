package gpu

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
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
	real := []Device{{Index: 1, UUID: "GPU-1", Node: "/dev/nvidia1"}, {Index: 3, UUID: "GPU-3", Node: "/dev/nvidia0"}}
	pretend := []Device{{UUID: "GPU-sim-1", Model: "A100", Simulated: true}, {UUID: "GPU-sim-2", Model: "H100", Simulated: true}}
	unknown := []Device{real[0], {UUID: "GPU-4"}}
	none := []string{"CUDA_VISIBLE_DEVICES=", "NVIDIA_VISIBLE_DEVICES=void"}
	simulated := append(slices.Clone(none), "MUSTER_GPUS=GPU-sim-1=A100,GPU-sim-2=H100")
	for _, c := range []struct {
		name  string
		given []Device
		alone bool
		want  []string
	}{
		{"none", nil, false, none},
		{"none, alone", nil, true, none},
		{"real", real, false, []string{"CUDA_VISIBLE_DEVICES=GPU-1,GPU-3", "NVIDIA_VISIBLE_DEVICES=GPU-1,GPU-3"}},
		{"real, alone", real, true, []string{"CUDA_VISIBLE_DEVICES=0,1", "NVIDIA_VISIBLE_DEVICES=GPU-1,GPU-3", "CUDA_DEVICE_ORDER=PCI_BUS_ID"}},
		{"without a file, alone", unknown, true, []string{"CUDA_VISIBLE_DEVICES=GPU-1,GPU-4", "NVIDIA_VISIBLE_DEVICES=GPU-1,GPU-4"}},
		{"MIG, alone", []Device{{UUID: "MIG-5", Node: "/dev/nvidia0"}}, true, []string{"CUDA_VISIBLE_DEVICES=MIG-5", "NVIDIA_VISIBLE_DEVICES=MIG-5"}},
		{"simulated", pretend, false, simulated},
		{"simulated, alone", pretend, true, simulated},
	} {
		if diff := cmp.Diff(c.want, Environ(c.given, c.alone)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

// TestNumbersNameNoOther numbers devices as CUDA does, for each set of devices that a
// container holds, each set of them that is lost meanwhile, and each order: a container
// never uses another's device. UUIDs are safe also if it can open all devices.
func TestNumbersNameNoOther(t *testing.T) {
	const machine = 4
	all := make([]Device, machine)
	for i := range all {
		all[i] = Device{Index: i, UUID: fmt.Sprint("GPU-", i), Node: fmt.Sprint("/dev/nvidia", i)}
	}
	for held := range 1 << machine {
		for lost := range 1 << machine {
			var own, opened, present []Device
			for i, d := range all {
				if held>>i&1 == 1 {
					own = append(own, d)
				}
				if lost>>i&1 == 1 {
					continue
				}
				if present = append(present, d); held>>i&1 == 1 {
					opened = append(opened, d)
				}
			}
			for _, alone := range []bool{true, false} {
				sees := present
				if alone {
					sees = opened
				}
				for range 2 { // in the order of the bus, and against it
					used := asCUDA(Environ(own, alone), sees)
					for _, d := range used {
						if !slices.Contains(own, d) {
							t.Errorf("held %v, lost %04b, alone %t: uses %s of another container", own, lost, alone, d.UUID)
						}
					}
					// CUDA ends at the first name that it does not know, so a lost device
					// hides later UUIDs. Numbers show all that are left.
					if len(used) != len(opened) && (alone || lost == 0) {
						t.Errorf("held %v, lost %04b, alone %t: uses %v", own, lost, alone, used)
					}
					slices.Reverse(sees)
				}
			}
		}
	}
}

// asCUDA gives the devices that a program may use which sees these: those that
// CUDA_VISIBLE_DEVICES names, up to the first that is not there.
func asCUDA(env []string, sees []Device) []Device {
	names, _ := strings.CutPrefix(env[0], "CUDA_VISIBLE_DEVICES=")
	var used []Device
	for name := range strings.SplitSeq(names, ",") {
		at := slices.IndexFunc(sees, func(d Device) bool { return d.UUID == name })
		if number, err := strconv.Atoi(name); err == nil && number < len(sees) {
			at = number
		}
		if at < 0 {
			break
		}
		used = append(used, sees[at])
	}
	return used
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

// TestLocksOfOthers: another user made the folder of locks and what is in it. Root becomes the owner,
// and takes no pipe, link or file of another name for a lock.
func TestLocksOfOthers(t *testing.T) {
	dir := t.TempDir()
	other := filepath.Join(dir, "other")
	if err := os.WriteFile(other, []byte("kept"), 0o666); err != nil {
		t.Fatal(err)
	}
	locks := filepath.Join(dir, "locks")
	if err := errors.Join(os.Mkdir(locks, 0o777), os.Chmod(locks, 0o777)); err != nil { // without the sticky bit
		t.Fatal(err)
	}
	path := LockPathIn(locks, "GPU-1")
	for name, makes := range map[string]func() error{
		"a pipe":        func() error { return unix.Mkfifo(path, 0o666) },
		"a link":        func() error { return os.Symlink(other, path) },
		"a file's name": func() error { return os.Link(other, path) },
		"a folder":      func() error { return os.Mkdir(path, 0o777) },
	} {
		if err := makes(); err != nil {
			t.Fatal(err)
		}
		if err := PrepareLocks(locks, []Device{{UUID: "GPU-1"}}); err == nil {
			t.Errorf("%s was taken for a lock", name)
		}
		if lock, err := Lock(path); err == nil {
			t.Errorf("%s was locked: %v", name, lock.Close())
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	if os.Geteuid() != 0 {
		t.Skip("the rest needs root")
	}
	if err := errors.Join(os.Chown(locks, 1234, 1234), os.WriteFile(path, nil, 0o600), os.Chown(path, 1234, 1234)); err != nil {
		t.Fatal(err)
	}
	if err := PrepareLocks(locks, []Device{{UUID: "GPU-1"}}); err != nil {
		t.Fatal(err)
	}
	for _, each := range []string{locks, path} {
		var stat unix.Stat_t
		if err := unix.Stat(each, &stat); err != nil || stat.Uid != 0 {
			t.Errorf("%s is of user %d: %v", each, stat.Uid, err)
		}
	}
	if info, err := os.Stat(locks); err != nil || info.Mode()&os.ModeSticky == 0 {
		t.Errorf("the folder has the mode %v: %v", info.Mode(), err)
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
