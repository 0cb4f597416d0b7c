package holder

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// machine identifies this machine since its last start, and the PID namespace of this
// process; empty where that is not known.
func machine() (boot, space string) {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", ""
	}
	if space, err = os.Readlink("/proc/self/ns/pid"); err != nil {
		return "", ""
	}
	return strings.TrimSpace(string(text)), space
}

// started is the start of a process, in clock ticks since the boot; empty if there is none, or if
// only its parent has yet to notice its end. It is not known where /proc hides processes of others.
func started(pid int) (ticks string, known bool) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if errors.Is(err, fs.ErrNotExist) {
		_, all := os.Stat("/proc/1/stat")
		return "", all == nil
	}
	if err != nil {
		return "", errors.Is(err, syscall.ESRCH)
	}
	// Fields are counted after the command, which may contain spaces.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 20 {
		return "", false
	}
	if fields[0][0] == 'Z' || fields[0][0] == 'X' {
		return "", true
	}
	return string(fields[19]), true
}
