// Package service is the flag --system of the commands install and uninstall: it makes Muster a service
// of this machine, for all of its users.
package service

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/terminal"
	"github.com/muster-dev/muster/internal/systemd"
)

// Options are the choices of an installation.
type Options struct {
	// Now starts the service at once.
	Now bool
	// DryRun prints the unit, and changes nothing.
	DryRun bool
}

// without is the advice for machines with another service manager.
const without = "start Muster with `muster up --system --detach` as root, from the machine's own service manager"

// Install makes Muster a service of this machine.
func Install(ctx context.Context, streams terminal.Streams, o Options) error {
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program: %w", err)
	}
	unit := systemd.Unit{Program: program, Args: []string{"up", "--system"}}
	if o.DryRun {
		text, err := unit.Text()
		if err == nil {
			_, err = fmt.Fprint(streams.Out, text)
		}
		return err
	}
	manager, err := open("install")
	if err != nil {
		return err
	}
	if err := systemd.Trusted(program); err != nil {
		return err
	}
	changed, err := manager.Install(ctx, unit, o.Now)
	if err != nil {
		return err
	}
	words := "The service muster.service is installed"
	if !changed {
		words = "The service muster.service was installed already"
	}
	next := "; it starts with the machine, and now with `systemctl start muster`"
	if o.Now {
		next = ", and runs: each user of this machine can type `muster status`"
	}
	_, err = fmt.Fprintf(streams.Out, "%s%s. Its unit is %s.\n", words, next, manager.File())
	return err
}

// Remove removes the service. Jobs go on, and the data folder stays.
func Remove(ctx context.Context, streams terminal.Streams, dryRun bool) error {
	manager, err := open("uninstall")
	if err != nil {
		return err
	}
	if dryRun {
		_, err := fmt.Fprintf(streams.Out, "muster.service would be stopped, and %s removed; nothing was changed (--dry-run)\n", manager.File())
		return err
	}
	found, err := manager.Remove(ctx)
	if err != nil {
		return err
	}
	if !found {
		return exit.NotFound("this machine has no service of Muster: %s is not there", manager.File())
	}
	_, err = fmt.Fprintln(streams.Out, "The service muster.service is stopped and removed. Jobs that run go on; the data folder stays, and the next `muster up --system` uses it.")
	return err
}

// open returns the service manager for root.
func open(verb string) (*systemd.Manager, error) {
	if uid := os.Geteuid(); uid != 0 {
		return nil, exit.Usage("muster %s --system was started by uid %d: it changes a service of the machine, so start it as root: sudo muster %[1]s --system", verb, uid)
	}
	manager, err := systemd.Open()
	if errors.Is(err, systemd.ErrAbsent) {
		return nil, fmt.Errorf("%w: %s", err, without)
	}
	return manager, err
}
