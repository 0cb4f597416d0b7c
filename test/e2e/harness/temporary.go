package harness

import (
	"errors"
	"fmt"
	"os"
)

// ShowTemporary puts the tests' temporary files into a folder that containers see. In the isolated
// tier they do not see the machine's /tmp, and nodes of test clusters have a /var/lib of their own.
// remove removes the folder. Only root has that tier.
func ShowTemporary() (remove func(), err error) {
	if os.Geteuid() != 0 {
		return func() {}, nil
	}
	dir, err := os.MkdirTemp("/var/cache", "muster-tests-")
	if err == nil {
		err = errors.Join(os.Chmod(dir, 0o755), os.Setenv("TMPDIR", dir))
	}
	if err != nil {
		return nil, fmt.Errorf("making a folder for temporary files: %w", err)
	}
	return func() { _ = os.RemoveAll(dir) }, nil
}
