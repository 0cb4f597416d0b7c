//go:build e2e

package box

import (
	"fmt"
	"os"
	"testing"

	"github.com/muster-dev/muster/test/e2e/harness"
)

// TestMain also is the program that tries what a shell cannot, see attempt.
func TestMain(m *testing.M) {
	if words := os.Getenv("MUSTER_TEST_ATTEMPT"); words != "" {
		os.Exit(attempt(words, os.Args[1:]))
	}
	remove, err := harness.ShowTemporary()
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	code := m.Run()
	remove()
	os.Exit(code)
}
