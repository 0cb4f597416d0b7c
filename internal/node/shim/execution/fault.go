package execution

import (
	"fmt"

	"github.com/muster-dev/muster/internal/node/shim/contract"
)

// Fault is why a program could not be executed.
type Fault struct {
	Reason  contract.Reason `json:"reason"`
	Message string          `json:"message"`
}

func fault(reason contract.Reason, format string, args ...any) *Fault {
	return &Fault{reason, fmt.Sprintf(format, args...)}
}
