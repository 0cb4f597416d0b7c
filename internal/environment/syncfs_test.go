//go:build linux

package environment

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// homeVariable names the home where a child process writes the marker.
const homeVariable = "MUSTER_TEST_MARK_HOME"

// TestAMarkerFollowsTheSync: an environment whose files could not be synced is not
// marked as complete. The file system of the test cannot refuse a syncfs, so the
// kernel refuses it for a child process.
func TestAMarkerFollowsTheSync(t *testing.T) {
	if home := os.Getenv(homeVariable); home != "" {
		must(t, refuseSyncfs())
		if err := markAt(home, marker{Path: home, Python: "3", Created: time.Now()}); !errors.Is(err, unix.EIO) {
			t.Errorf("writing the marker returns %v, want the refusal of the sync", err)
		}
		return
	}
	home := t.TempDir()
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestAMarkerFollowsTheSync$", "-test.v")
	child.Env = append(os.Environ(), homeVariable+"="+home)
	if out, err := child.CombinedOutput(); err != nil {
		t.Errorf("%v:\n%s", err, out)
	}
	if _, err := os.Lstat(filepath.Join(home, markerFile)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("there is a marker: %v", err)
	}
	must(t, markAt(home, marker{Path: home, Python: "3", Created: time.Now()}))
	if _, err := os.Lstat(filepath.Join(home, markerFile)); err != nil {
		t.Errorf("without the refusal: %v", err)
	}
}

// refuseSyncfs makes the kernel answer each syncfs of this process with EIO.
func refuseSyncfs() error {
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // the number of the system call
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_SYNCFS, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EIO)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	// TSYNC passes both settings of this thread on to the others of the process.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	_, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return errno
	}
	return nil
}
