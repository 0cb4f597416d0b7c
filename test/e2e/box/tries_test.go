//go:build e2e

package box

import (
	"fmt"
	"testing"
)

// TestTwoUsersOfAMachine tries what docs/security.md lists, in both tiers.
func TestTwoUsersOfAMachine(t *testing.T) {
	for _, tier := range []string{"isolated", "plain"} {
		t.Run(tier, func(t *testing.T) {
			b := open(t, tier)
			t.Run("files", b.files)
		})
	}
}

// files looks for ann's texts wherever ben may read.
func (b *box) files(t *testing.T) {
	script := fmt.Sprintf("grep -rlaF SECRET-OF- %s %s /tmp /dev/shm /run /var/tmp 2>/dev/null; cat /proc/[0-9]*/environ 2>/dev/null | grep -aoE 'SECRET-OF-[A-Z-]*'; true", b.Home, b.ann.home)
	r := b.shell(t, b.ben, script)
	keeps(t, "a search", r)
	if r.Stdout != "" {
		t.Errorf("ben finds files: %s", r.Stdout)
	}
}
