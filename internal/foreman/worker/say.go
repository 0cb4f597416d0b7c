package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/muster-dev/muster/internal/foreman/excerpt"
	"github.com/muster-dev/muster/internal/foreman/shift"
	"github.com/muster-dev/muster/internal/osfile"
)

// afterEnd is the time for which processes that a program left behind may write to the log after
// its end.
const afterEnd = time.Second

// recorder passes the output of a program on, and keeps its log.
type recorder struct {
	log  *excerpt.Log
	ours []*os.File // the ends that this process reads
	// theirs are the ends that the program writes to.
	theirs []*os.File
	group  sync.WaitGroup
}

// record connects a program that is not started yet to a recorder. The log is on the disk of a
// folder.
func record(cmd *exec.Cmd, folder string) (r *recorder, err error) {
	r = &recorder{}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.close())
		}
	}()
	if r.log, err = excerpt.New(folder); err != nil {
		return r, err
	}
	stdout, stderr := cmd.Stdout, cmd.Stderr
	if cmd.Stdout, err = r.through(stdout); err != nil {
		return r, err
	}
	if cmd.Stderr = cmd.Stdout; stdout != stderr {
		cmd.Stderr, err = r.through(stderr)
	}
	return r, err
}

// through returns a pipe by which a stream comes to its reader and to the log.
func (r *recorder) through(to io.Writer) (io.Writer, error) {
	ours, theirs, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("making a pipe for the program's output: %w", err)
	}
	r.ours, r.theirs = append(r.ours, ours), append(r.theirs, theirs)
	r.group.Go(func() { r.pass(to, ours) })
	return theirs, nil
}

// pass passes on one stream. A stream that nothing reads any more, or a log that cannot be written,
// does not stop the program.
func (r *recorder) pass(to io.Writer, from io.Reader) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			_, _ = r.log.Write(buf[:n])
			if to != nil {
				_, _ = to.Write(buf[:n])
			}
		}
		if err != nil {
			return
		}
	}
}

// ended waits until all output of an ended program is passed on.
func (r *recorder) ended() {
	for _, file := range r.theirs {
		_ = file.Close()
	}
	for _, file := range r.ours {
		_ = file.SetReadDeadline(time.Now().Add(afterEnd)) // a pipe has deadlines
	}
	r.group.Wait()
}

// keep writes the log to its name in the folder of a datum, in place of anything there.
func (r *recorder) keep(folder string) error {
	in, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	file, err := osfile.CreateRegular(in, shift.LogFile, 0o600)
	if err != nil {
		return err
	}
	log, _ := r.log.Read()
	_, err = io.Copy(file, log)
	return errors.Join(err, file.Close())
}

func (r *recorder) close() error {
	r.ended()
	var err error
	for _, file := range r.ours {
		err = errors.Join(err, file.Close())
	}
	if r.log != nil {
		err = errors.Join(err, r.log.Close())
	}
	return err
}

// with adds the last lines of a log to the reason why a program failed.
func with(err error, ending string) error {
	if err == nil || ending == "" {
		return err
	}
	return fmt.Errorf("%w, and its log ends with: %s", err, ending)
}

// endingOf returns the last lines of the log in the folder of a datum.
func endingOf(folder string) string {
	in, err := os.OpenRoot(folder)
	if err != nil {
		return ""
	}
	defer func() { _ = in.Close() }()
	log, err := osfile.OpenRegular(in, shift.LogFile)
	if err != nil {
		return ""
	}
	defer func() { _ = log.Close() }()
	info, err := log.Stat()
	if err != nil {
		return ""
	}
	return excerpt.Ending(log, info.Size(), "")
}

// withEnding adds the last lines of a datum's log to the reason why its program ended, unless the
// program was told to end.
func withEnding(ctx context.Context, err error, folder string) error {
	if ctx.Err() != nil {
		return err
	}
	return with(err, endingOf(folder))
}
