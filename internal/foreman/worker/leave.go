package worker

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/muster-dev/muster/internal/foreman/shift"
	"github.com/muster-dev/muster/internal/osfile"
)

// leaves says that this member may go before its leader is done.
func (m *member) leaves() bool { return m.o.Duty == Follows && m.o.Leaves }

// noteLeaving tells the program, which is about to be sent SIGTERM, that it is to go in
// order. If that cannot be noted, it does not, and all begin anew.
func (m *member) noteLeaving() {
	if m.leaves() && !m.closed {
		in, err := os.OpenRoot(m.o.Folder)
		if err != nil {
			return // see above
		}
		defer func() { _ = in.Close() }()
		_ = osfile.ReplaceRegular(in, shift.LeaveFile, nil, 0o600)
	}
}

// leave brings what a member wrote that was told to end, or that this is lost. It has
// gone in order where its program says so, or wrote nothing and ended because it was told
// to: nobody relies on what it did not say.
func (m *member) leave(ctx context.Context, o *shift.Outcome, say func(string, ...any)) {
	if o.Error == "" || o.Exit == exitStopped && m.wroteNothing() {
		o.Exit, o.Error = 0, ""
		if m.judge(o); o.Error == "" {
			o.Left = true
		}
	} else {
		o.Error = "it was told to go and did not end in order: " + o.Error
	}
	switch err := m.bring(ctx, o); {
	case err == nil && o.Left:
		say("it was told to go, and what it wrote is in the store")
	case err == nil:
		say("what it wrote is lost, and all members begin anew: %s", o.Error)
	case errors.Is(err, errGone), errors.Is(err, errOver):
		// The others go, too.
	default:
		say("sending what it wrote: %v", err)
	}
}

// wroteNothing says that there is no file in the output.
func (m *member) wroteNothing() bool {
	err := filepath.WalkDir(filepath.Join(m.o.Folder, shift.OutFolder), func(_ string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			err = fs.ErrExist
		}
		return err
	})
	return err == nil
}
