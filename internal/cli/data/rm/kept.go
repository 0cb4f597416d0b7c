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

// onCluster ends a message about removed data of a cluster, where users cannot collect.
const onCluster = "Muster's manager frees its space: once a day it collects data older than a day"

// freed returns the end of a message about removed data: how its space becomes free, and until when
// leases keep it. On a cluster the manager has the leases.
func freed(ctx context.Context, factory *connection.Factory) (string, error) {
	home, embedded, err := factory.EmbeddedHome()
	if err != nil {
		return "", err
	}
	if !embedded {
		return onCluster, nil
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
	return "`muster data gc` frees its space" + until(held, holder.Of(state.PID)), nil
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
