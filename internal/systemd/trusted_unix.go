//go:build unix

package systemd

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// Trusted checks that only root can change a program: the file and each folder above it belong to root,
// and no other user may write to them. Otherwise a user could replace the program, which root starts.
func Trusted(program string) error {
	resolved, err := filepath.EvalSymlinks(program)
	if err != nil {
		return fmt.Errorf("checking who can change %s: %w", program, err)
	}
	for at := resolved; ; at = filepath.Dir(at) {
		info, err := os.Lstat(at)
		if err != nil {
			return fmt.Errorf("checking who can change %s: %w", program, err)
		}
		if err := onlyRoot(at, info); err != nil {
			return fmt.Errorf("%w: another user could replace %s, which root would start. Copy it first: install -m 755 %[2]s /usr/local/bin/muster", err, program)
		}
		if at == filepath.Dir(at) {
			return nil
		}
	}
}

// onlyRoot checks one file or folder.
func onlyRoot(at string, info os.FileInfo) error {
	if owner, ok := info.Sys().(*syscall.Stat_t); !ok || owner.Uid != 0 {
		return fmt.Errorf("%s does not belong to root", at)
	}
	if info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("%s can be written by other users than root (mode %#o)", at, info.Mode().Perm())
	}
	return nil
}
