package foreman

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/muster-dev/muster/internal/osfile"
)

const (
	// bootFile has the boot in which the files of works were written.
	bootFile = "boot"
	// bootID is the kernel's name for a boot.
	bootID = "/proc/sys/kernel/random/boot_id"
)

// dropFormer removes the files of works that were written before this boot: a power failure may have left an
// outcome whose files are not whole.
func dropFormer(dir string) error {
	now, err := os.ReadFile(bootID)
	if err != nil {
		return fmt.Errorf("reading the boot's name: %w", err)
	}
	path := filepath.Join(dir, bootFile)
	then, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if strings.TrimSpace(string(then)) == strings.TrimSpace(string(now)) {
		return nil
	}
	for _, name := range []string{"work", "post"} {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return osfile.Replace(path, now, 0o600)
}
