package glob

import (
	"strings"
	"testing"
	"time"
)

// TestSlowPattern matches a pattern that would take for ever if it were tried in every way.
func TestSlowPattern(t *testing.T) {
	slow, err := Compile(strings.Repeat("**/a/", 30) + "b")
	if err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	if slow.matches(strings.Repeat("a/", 2000)+"c") || time.Since(begun) > 10*time.Second {
		t.Errorf("took %v", time.Since(begun))
	}
}
