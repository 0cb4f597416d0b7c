//go:build linux

package environment

import (
	"os"
	"slices"
	"testing"
)

// TestNoSettingsOfPip: if an administrator makes pip ignore all its settings files, builds ignore
// them, too. A build gets no other value of the variable.
func TestNoSettingsOfPip(t *testing.T) {
	for value, want := range map[string]bool{os.DevNull: true, "/etc/other.conf": false, "": false} {
		variable := "PIP_CONFIG_FILE=" + value
		if got, _ := installerEnviron([]string{"PATH=/bin", variable}); slices.Contains(got, variable) != want {
			t.Errorf("%s: a build gets %q", variable, got)
		}
	}
}
