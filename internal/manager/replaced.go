package manager

import (
	"errors"
	"strings"

	"github.com/muster-dev/muster/internal/fencing"
)

// replaced reports that a manager ended because it is no longer the elected one,
// or its scheduler no longer the one that plans.
func (m *Manager) replaced(err error) bool {
	// The library has no name for the first.
	return !m.alone && (errors.Is(err, fencing.ErrDeposed) || strings.Contains(err.Error(), "leader election lost"))
}
