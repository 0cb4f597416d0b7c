package up

import (
	"context"
	"fmt"

	"github.com/muster-dev/muster/api/configuration"
	"github.com/muster-dev/muster/internal/node"
	"github.com/muster-dev/muster/internal/node/network"
	"github.com/muster-dev/muster/internal/node/process"
)

// chooseTier returns the tier, and why it is not the stronger one. Asking for
// what the machine cannot do is an error, never a silent step down.
func chooseTier(ctx context.Context, asked configuration.Tier, runtime *process.Runtime) (node.Tier, string, error) {
	if asked == configuration.TierPlain {
		return node.Plain, "as configured", nil
	}
	able, reason := runtime.IsolationAvailable(ctx)
	if able {
		able, reason = network.Available()
	}
	switch {
	case able:
		return node.Isolated, "", nil
	case asked == configuration.TierIsolated:
		return "", "", fmt.Errorf("this machine cannot run the isolated tier: %s; give --tier auto to run in the plain tier, and see \"muster doctor\"", reason)
	default:
		return node.Plain, reason, nil
	}
}

// unmountable says why nothing can be mounted for programs of this machine's; empty: it can.
func unmountable(tier node.Tier) string {
	if tier == node.Plain {
		return "this Muster is in the plain tier, where programs see the machine's own files"
	}
	return ""
}
