//go:build linux

package doctor

import (
	"os"

	"github.com/muster-dev/muster/internal/cli/instance"
	"github.com/muster-dev/muster/internal/node/guard"
)

// guarded says whether programs outside of Muster can open the GPUs. Only root can guard them, so for
// another user there is nothing to say, unless a Muster does.
func guarded(home instance.Home, last string) []Finding {
	if state, alive, err := home.Read(); err == nil && alive && state.Guard != "" {
		return []Finding{asLast(Finding{Check: "guard", Verdict: Good, Says: state.Guard}, "guard", last, "none")}
	}
	able, reason := guard.Available()
	return unguarded(able, reason, last, os.Geteuid() == 0)
}

// unguarded describes a guard that is not on.
func unguarded(able bool, reason, last string, root bool) []Finding {
	switch {
	case able:
		return []Finding{{Check: "guard", Verdict: Good, Says: "none: programs outside of Muster can open the GPUs (muster up --guard keeps those of login sessions from it)"}}
	case last != "":
		return []Finding{{"guard", Limited, "none, although the last start had --guard=" + last + ": " + reason, "muster up --guard=none starts without it"}}
	case root:
		return []Finding{{Check: "guard", Verdict: Good, Says: "none, and not possible here: " + reason}}
	}
	return nil
}
