package up

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/node/network"
)

// occupied explains an error of opening the network: if the range from which
// this data folder's Services have their addresses is in use by now, by whom,
// and what can be done. Another range is not chosen by itself, because Services
// keep their addresses for life and whatever runs may know them. Other errors
// speak for themselves.
func occupied(command invocation, err error) error {
	var e *network.OccupiedError
	if !errors.As(err, &e) {
		return err
	}
	stop := "free that range"
	switch {
	case e.StateDir != "":
		stop = fmt.Sprintf("stop that one (muster --home %s down)", filepath.Dir(e.StateDir))
	case e.Other:
		stop = "stop that one"
	case e.Interface != "":
		stop = fmt.Sprintf("take %s down, or give it another range", e.Interface)
	}
	return exit.With(exit.Failure, fmt.Errorf(`%w
The Services of this data folder keep their addresses, so it takes no other range. Either
  %s and start this one again;
  or start it in the plain tier, which needs no range: %s --tier plain;
  or use another data folder, which chooses a free range: muster --home FOLDER up`, err, stop, command.start()))
}
