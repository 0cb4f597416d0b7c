package terminal

import "os"

// Resized returns a channel that never tells anything: a console of Windows sends
// no signal when its size changes.
func Resized() (changes <-chan os.Signal, stop func()) { return nil, func() {} }
