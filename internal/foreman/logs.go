package foreman

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/muster-dev/muster/internal/foreman/excerpt"
	"github.com/muster-dev/muster/internal/foreman/shift"
	"github.com/muster-dev/muster/internal/osfile"
)

// Said makes the output of a job's members the log of the one datum of a work, as far as members
// have brought it. It returns the reason of the member whose program failed first; empty: no member
// has brought one.
func (w *Work) Said(ctx context.Context) (why string, err error) {
	w.parts.Lock()
	defer w.parts.Unlock()
	if err := w.restore(ctx); err != nil {
		return "", err
	}
	there, err := w.brought()
	if err != nil {
		return "", err
	}
	var first time.Time
	for i := range there {
		o := &there[i].Outcome
		if o.Exit == shift.Unfit || o.Exit == shift.Unable {
			continue // [Work.Refused] has the reason
		}
		if end := o.Started.Add(o.Took); o.Error != "" && (why == "" || end.Before(first)) {
			why, first = there[i].Member+": "+o.Error, end
		}
	}
	return why, w.adoptLogs(filepath.Join(w.dir, partsFolder), there)
}

// adoptLogs makes the log of the leader that of the datum, or, where there is no leader, those of all
// members. The files of parts are in the folder from.
func (w *Work) adoptLogs(from string, there []part) (err error) {
	d, ok := w.Only()
	if !ok {
		return nil
	}
	if w.spec.Leader != "" {
		leader := person{Member: w.spec.Leader}
		if err := copyLog(filepath.Join(from, leader.folder()), d.Folder); err != nil {
			return fmt.Errorf("keeping the log of %s: %w", w.spec.Leader, err)
		}
		return nil
	}
	file, err := newLog(d.Folder)
	if err != nil {
		return fmt.Errorf("keeping the logs of members: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	for i := range there {
		if len(there) > 1 {
			if _, err := fmt.Fprintf(file, "==> %s <==\n", there[i].Member); err != nil {
				return err
			}
		}
		if err := appendLog(file, filepath.Join(from, there[i].folder()), excerpt.Most/int64(len(there))); err != nil {
			return fmt.Errorf("keeping the log of %s: %w", there[i].Member, err)
		}
	}
	return nil
}

// newLog makes an empty log in a folder, in place of anything there.
func newLog(folder string) (*os.File, error) {
	in, err := os.OpenRoot(folder)
	if err != nil {
		return nil, err
	}
	defer func() { _ = in.Close() }()
	return osfile.CreateRegular(in, shift.LogFile, 0o600)
}

// copyLog copies the excerpt of the log in one folder, if it has one, to another folder.
func copyLog(from, to string) error {
	file, err := newLog(to)
	if err != nil {
		return err
	}
	return errors.Join(appendLog(file, from, excerpt.Most), file.Close())
}

// appendLog copies an excerpt, of at most most bytes, of the log in a folder. A tenant may have put
// anything in its place, which counts as no log.
func appendLog(to io.Writer, folder string, most int64) (err error) {
	source, err := os.OpenRoot(folder + "/.") // with the dot, a pipe is an error, and no wait
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	log, err := osfile.OpenRegular(source, shift.LogFile)
	if _, other := errors.AsType[*osfile.KindError](err); other || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	info, err := log.Stat()
	if err != nil {
		return err
	}
	kept, _ := excerpt.Of(log, info.Size(), most) // it may grow meanwhile
	_, err = io.Copy(to, kept)
	return err
}
