//go:build unix

package terminal

import (
	"os"
	"os/signal"
	"syscall"
)

// Resized returns a channel that tells each time the terminal of this process
// has another size, and the function that ends that.
func Resized() (changes <-chan os.Signal, stop func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGWINCH)
	return signals, func() { signal.Stop(signals) }
}
