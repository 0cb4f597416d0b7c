package run

import (
	"fmt"

	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/environment"
)

// checkPackages checks the packages of the code that the requirements name, as the
// snapshot has them, and tells how they are installed.
func (o *options) checkPackages(in Inputs) error {
	text, err := environment.Normalise(in.Requirements)
	if err != nil {
		return exit.Usage("--requirements %s: %v", o.flags.Requirements, err)
	}
	locals := environment.Locals(text)
	if len(locals) == 0 {
		return nil
	}
	if in.Snapshot == "" {
		return exit.Usage("--requirements %s: ./%s is a package of the code folder, and the job has no code; give the folder with --code FOLDER", o.flags.Requirements, locals[0])
	}
	store, err := o.codeStore()
	if err != nil {
		return err
	}
	for _, at := range locals {
		part, err := store.Part(in.Snapshot, at)
		if err == nil {
			err = environment.CheckLocal(at, part)
		}
		if err != nil {
			return exit.Usage("--requirements %s: ./%s: %v (paths are relative to the code folder)", o.flags.Requirements, at, err)
		}
	}
	if line := environment.Editable(in.Requirements); line != "" {
		_, err = fmt.Fprintf(o.factory.Streams.Err, "Note: %s is installed as it is now, not as a link to the code; the next job builds it again if it has changed.\n", line)
	}
	return err
}
