package up

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/instance"
	"github.com/muster-dev/muster/internal/cli/terminal"
	"github.com/muster-dev/muster/internal/controlplane"
)

// taken explains, at now, an error of taking a data folder's lock: if a Muster
// has it, which one, since when, and by which commands it is looked at and
// stopped. command is how muster is called for this folder. Other errors speak
// for themselves.
func taken(home instance.Home, command invocation, now time.Time, err error) error {
	var locked *controlplane.LockedError
	if !errors.As(err, &locked) {
		return err
	}
	s, alive, readErr := home.Read()
	if readErr != nil || !alive || s.PID != locked.PID {
		return err // It has said nothing of itself yet.
	}
	var does string
	switch s.Phase {
	case instance.Ready:
		does = "is already running"
	case instance.Starting:
		does = "is already starting"
	default:
		return exit.With(exit.Failure, fmt.Errorf("the muster that had %s is just ending (process %d): try again in a moment", home, s.PID))
	}
	since := fmt.Sprintf("since %s, %s ago", s.Started.Local().Format("2006-01-02 15:04:05"), terminal.WholeSpan(now.Sub(s.Started)))
	facts := []string{fmt.Sprintf("process %d", s.PID), since}
	if s.Tier != "" {
		facts = append(facts, s.Tier+" tier")
	}
	if s.Server != "" {
		facts = append(facts, s.Server)
	}
	return exit.With(exit.Failure, fmt.Errorf("muster %s in %s: %s\nlook: %s, %s    log: %s    stop: %s",
		does, home, strings.Join(facts, ", "), command.verb("status"), command.verb("top"), home.Log(), command.stop()))
}
