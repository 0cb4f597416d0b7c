package data

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/muster-dev/muster/internal/data/ref"
	"github.com/muster-dev/muster/internal/osfile/disktest"
)

// fullVariable names a folder: the test's program then runs on a small disk there.
const fullVariable = "MUSTER_TEST_DATA_FULL"

// TestAFullDisk: what was acknowledged before is whole, it is said what to do, and
// once there is room the next put goes on. The disk is a real one of 24 MiB, in a
// mount namespace of a process that is started for it.
func TestAFullDisk(t *testing.T) {
	self, err := os.Executable()
	must(t, err)
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), fullVariable+"="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v:\n%s", err, out)
	}
}

// onSmallDisk is the test itself.
func onSmallDisk(ctx context.Context, dir string) error {
	if err := disktest.Mount(dir, "size=24m"); err != nil {
		return err
	}
	d, err := inFolder(ctx, dir)
	if err != nil {
		return err
	}
	kept := noise(1, 1<<20)
	if _, err := d.Put(ctx, "main", Stream("kept", strings.NewReader(kept)), PutOptions{}); err != nil {
		return fmt.Errorf("while there is room: %w", err)
	}
	_, err = d.Put(ctx, "main", Stream("long", strings.NewReader(noise(2, 60<<20))), PutOptions{})
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "make room") {
		return fmt.Errorf("without room: %w", err)
	}
	filler, err := disktest.Fill(dir)
	if err != nil {
		return err
	}
	if _, err = d.Put(ctx, "main", Stream("short", strings.NewReader("x")), PutOptions{}); !errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("without any room: %w", err)
	}
	if err := wholeStill(ctx, d, kept); err != nil {
		return err
	}
	if err := os.Remove(filler); err != nil {
		return err
	}
	if _, err := d.store.Collect(ctx, CollectOptions{Heads: []ref.Heads{d.heads}}); err != nil {
		return fmt.Errorf("once there is room: %w", err)
	}
	if _, err := d.Put(ctx, "main", Stream("later", strings.NewReader(noise(3, 8<<20))), PutOptions{}); err != nil {
		return fmt.Errorf("once there is room: %w", err)
	}
	return wholeStill(ctx, d, kept)
}

// wholeStill reads what was acknowledged, and checks everything.
func wholeStill(ctx context.Context, d *Dataset, want string) error {
	v, err := d.At(ctx, "main")
	if err != nil {
		return err
	}
	f, err := v.Open(ctx, "kept")
	if err != nil {
		return err
	}
	got := make([]byte, len(want))
	if _, err := f.ReadAt(got, 0); err != nil || string(got) != want {
		return fmt.Errorf("what was acknowledged is not what was put: %w", err)
	}
	report, err := d.store.Verify(ctx, VerifyOptions{Heads: []ref.Heads{d.heads}})
	if err != nil || len(report.Problems) > 0 {
		return fmt.Errorf("verifying: %v %w", report.Problems, err)
	}
	return f.Close()
}
