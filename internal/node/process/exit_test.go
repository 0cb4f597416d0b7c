package process

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/internal/node/shim/contract"
)

// FuzzReadExit: any record of an exit is read as an exit, the same after another write, or as an
// error.
func FuzzReadExit(f *testing.F) {
	f.Add([]byte(`{"code":137,"signal":9,"reason":"OOMKilled","message":"\u001b[2J","at":"2026-01-02T03:04:05.000000006Z"}`))
	f.Add([]byte(`{"code":99999999999999999999}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, text []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, contract.ExitFile), text, 0o600); err != nil {
			t.Fatal(err)
		}
		exit, err := readExit(dir)
		if err != nil {
			return
		}
		if err := writeJSON(filepath.Join(dir, contract.ExitFile), exit); err != nil {
			t.Fatalf("%q is read as %+v, and is not written: %v", text, exit, err)
		}
		again, err := readExit(dir)
		if err != nil || !cmp.Equal(exit, again) {
			t.Fatalf("%q is read as %+v, and then as %+v, %v", text, exit, again, err)
		}
	})
}
