//go:build !linux

package doctor

import (
	"context"
	"runtime"

	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/instance"
)

// here has one finding: this is not Linux.
func here(context.Context, *connection.Factory, instance.Home, string) []Finding {
	return []Finding{{
		Check: "system", Verdict: Bad,
		Says: "Muster itself runs on Linux, and this is " + runtime.GOOS + ": the command line alone",
		Fix:  "look at a cluster, or at the Muster of another machine, with --kubeconfig FILE",
	}}
}
