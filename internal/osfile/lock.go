package osfile

import "errors"

// ErrLocked is the error of [TryLock] where another process holds the lock.
var ErrLocked = errors.New("another process holds the lock")
