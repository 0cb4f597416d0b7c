//go:build fuse

package supervise

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/muster-dev/muster/internal/node/shim/contract"
	"github.com/muster-dev/muster/internal/osfile/powertest"
)

// TestPowerOfAnExit: an exit that was recorded and synced is there after a loss of
// power. The shim tells its callers before the sync, so that until then there may be no record.
func TestPowerOfAnExit(t *testing.T) {
	powertest.EveryCut(t, powertest.Each, func(t *testing.T, dir string, powered func(func() error)) {
		synced := false
		powered(func() error {
			root, err := os.OpenRoot(dir)
			if err != nil {
				return err
			}
			defer func() { _ = root.Close() }()
			s := &supervisor{root: root, exit: &contract.Exit{Code: 7}}
			file, err := s.record()
			if err != nil {
				return err
			}
			err = s.persist(file)
			synced = err == nil
			return err
		})
		text, err := os.ReadFile(filepath.Join(dir, contract.ExitFile))
		var exit contract.Exit
		if err == nil {
			err = json.Unmarshal(text, &exit)
		}
		if synced && (err != nil || exit.Code != 7) {
			t.Errorf("the exit is %q: %v", text, err)
		}
	})
}
