package worker

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/internal/foreman/shift"
)

const (
	// mostStrays is how many stray files are named.
	mostStrays = 3
	// mostLooked is how many files are looked at for them.
	mostLooked = 10_000
)

// look is what is looked at where a program ended well: what would be lost is refused, or
// said.
func (w *worker) look(d shift.Datum, since time.Time) error {
	if err := intact(w.program.Mount, d.Folder); err != nil {
		return err
	}
	return w.warn(d, since)
}

// warn has the log of a datum say so where its program, which ended well, left the output
// empty and wrote elsewhere: that is not kept, and would be missed by whoever comes next.
func (w *worker) warn(d shift.Datum, since time.Time) error {
	made, err := os.ReadDir(filepath.Join(d.Folder, shift.OutFolder))
	if err != nil || len(made) > 0 {
		return err
	}
	strays := w.strays(d, since)
	if len(strays) == 0 {
		return nil
	}
	log, err := openLog(d.Folder)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(log, "muster: it wrote nothing to its output, and wrote %s, which is not kept: write to $%s\n", strings.Join(strays, " and "), envOutput)
	if closed := log.Close(); err == nil {
		err = closed
	}
	return err
}

// fileTime is what time it is for files that are written now: that of the kernel's last
// tick, some milliseconds ago.
func fileTime() time.Time {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &now); err != nil {
		return time.Now() // then what is written at once is missed
	}
	return time.Unix(now.Unix())
}

// strays are files that were written after a time where programs write by mistake: into an
// input, beside the output where that is shown at a path, and into the folder where they
// run, by itself. Names are as the program knows them.
func (w *worker) strays(d shift.Datum, since time.Time) []string {
	var found []string
	looked := 0
	look := func(root, called string, deep bool) {
		_ = filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
			looked++
			switch {
			case looked > mostLooked || len(found) == mostStrays:
				return fs.SkipAll
			case err != nil:
				return fs.SkipDir // it is gone again, or not for us: this is a hint
			case e.IsDir() && path != root && !deep:
				return fs.SkipDir
			case !e.Type().IsRegular():
				return nil
			}
			if info, err := e.Info(); err == nil && info.ModTime().After(since) {
				found = append(found, called+strings.TrimPrefix(path, root))
			}
			return nil
		})
	}
	for _, name := range w.program.Inputs {
		look(filepath.Join(d.Folder, shift.InFolder, name), "$"+InputVariable(name), true)
	}
	if w.program.Mount != "" {
		look(w.program.Mount, w.program.Mount, true)
	}
	if here, err := os.Getwd(); err == nil {
		look(here, here, false)
	}
	return found
}
