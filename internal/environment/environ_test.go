//go:build linux

package environment

import (
	"os"
	"slices"
	"testing"
)

// TestNoSettingsOfPip: an administrator who makes pip ignore all its settings files does so for
// builds. A build is given no other value of the variable.
func TestNoSettingsOfPip(t *testing.T) {
	for value, want := range map[string]bool{os.DevNull: true, "/etc/other.conf": false, "": false} {
		variable := "PIP_CONFIG_FILE=" + value
		if got, _ := installerEnviron([]string{"PATH=/bin", variable}); slices.Contains(got, variable) != want {
			t.Errorf("%s: a build is given %q", variable, got)
		}
	}
}
