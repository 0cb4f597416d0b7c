package rm

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/data/opening"
	"github.com/muster-dev/muster/internal/cli/instance"
	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/holder"
)

// kept returns the time until which leases keep the removed data, as the end of a message; ""
// without leases. On a cluster the manager has the leases.
func kept(ctx context.Context, factory *connection.Factory) (string, error) {
	home, embedded, err := factory.EmbeddedHome()
	if err != nil || !embedded {
		return "", err
	}
	state, _, err := instance.Home(home).Read()
	if err != nil {
		return "", err
	}
	store, err := opening.OpenFolder(ctx, home)
	if err != nil {
		return "", err
	}
	held, err := store.Holdings(ctx)
	if err = errors.Join(err, store.Close()); err != nil {
		return "", err
	}
	return until(held, holder.Of(state.PID)), nil
}

// until names the process that may use the removed data longest. Processes that people
// started come first: muster, which is the running Muster, ends its uses by itself.
func until(held []data.Holding, muster holder.Holder) string {
	muster.Command = ""
	own := func(h data.Holding) bool {
		h.Holder.Command = ""
		return h.Holder == muster
	}
	others := slices.DeleteFunc(slices.Clone(held), own)
	if len(held) == 0 {
		return ""
	}
	if len(others) == 0 {
		return " once Muster no longer reads or writes data itself"
	}
	last := slices.MaxFunc(others, func(a, b data.Holding) int { return a.Until.Compare(b.Until) })
	return fmt.Sprintf(" once %s ends, which may be using it, or after %s", last.Holder, last.Until.Local().Format("15:04:05"))
}
