//go:build !linux

package instance

import (
	"context"
	"errors"
)

// terminate is for Linux alone, where Muster itself runs.
func terminate(context.Context, State) (bool, error) {
	return false, errors.New("stopping Muster: it runs on Linux alone")
}

// bootTicks is empty: no Muster runs on this system.
func bootTicks(int) string { return "" }
