package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/muster-dev/muster/internal/foreman/inputlink"
	"github.com/muster-dev/muster/internal/foreman/shift"
	"github.com/muster-dev/muster/internal/osfile"
)

// killAfter is how long after SIGTERM a program is killed.
const killAfter = 5 * time.Second

// compute runs the program for one datum. It leaves the outcome in the datum's
// folder.
func (w *worker) compute(ctx context.Context, d shift.Datum) shift.Outcome {
	o := shift.Outcome{ID: d.ID, Started: time.Now(), Worker: w.o.Name}
	if err := shift.Advance(d.Folder, shift.GivenFile, shift.BegunFile); err != nil {
		o.Exit, o.Error = -1, fmt.Sprintf("beginning it: %v", err)
		return o
	}
	log, err := openLog(d.Folder)
	if err != nil {
		o.Exit, o.Error = -1, fmt.Sprintf("opening its log: %v", err)
		return o
	}
	before := fileTime()
	o.Exit, err = w.execute(ctx, d, log)
	if o.Exit > 0 {
		err = withEnding(ctx, err, d.Folder)
	}
	err = errors.Join(err, log.Close())
	w.leaveNothing(ctx)
	o.Took = time.Since(o.Started)
	if err == nil {
		err = w.look(d, before)
	}
	o.Alone = w.alone()
	if ctx.Err() != nil && err != nil {
		o.Error = err.Error()
		return o // it was stopped, and will be tried again
	}
	return w.conclude(d, o, before, err)
}

// openLog opens the log of a datum, at its end. A link or a pipe that a program of an earlier
// try put there is replaced.
func openLog(folder string) (*os.File, error) {
	in, err := os.OpenRoot(folder)
	if err != nil {
		return nil, err
	}
	defer func() { _ = in.Close() }()
	return osfile.AppendRegular(in, shift.LogFile, 0o600)
}

// conclude checks the output that a datum has written since a time, and notes its outcome.
func (w *worker) conclude(d shift.Datum, o shift.Outcome, since time.Time, err error) shift.Outcome {
	if err == nil {
		places := inputlink.Places{Folder: d.Folder, Mount: w.program.Mount}
		if w.courier == nil {
			err = inputlink.Settle(d.Folder, places)
		} else {
			err = inputlink.Plainly(d.Folder, places, since)
		}
	}
	if err == nil {
		err = checkOutput(filepath.Join(d.Folder, shift.OutFolder), w.courier != nil)
	}
	if err != nil {
		o.Error, o.Final = err.Error(), final(err)
		return o
	}
	text, err := json.Marshal(o)
	if err == nil {
		err = shift.Conclude(d.Folder, text)
	}
	if err != nil {
		o.Exit, o.Error = -1, fmt.Sprintf("noting its outcome: %v", err)
	}
	return o
}

// execute runs the program for one datum, and returns its exit code.
func (w *worker) execute(ctx context.Context, d shift.Datum, log *os.File) (int, error) {
	if err := w.show(d); err != nil {
		return -1, err
	}
	environ := w.environ(d)
	if w.program.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, w.program.Timeout, errTime)
		defer cancel()
	}
	cmd, err := w.command(ctx, environ)
	if err != nil {
		return -1, err
	}
	cmd.Stdout, cmd.Stderr = log, log
	if err = cmd.Start(); err == nil {
		w.memory.offer(cmd.Process.Pid)
		err = cmd.Wait()
	}
	// What it left behind would write into the output later.
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
	if errors.Is(context.Cause(ctx), errTime) {
		return exitCode(err), fmt.Errorf("it was stopped: it took longer than %s (timeout)", w.program.Timeout)
	}
	return exitCode(err), w.memory.tell(log, explain(err))
}

var errTime = errors.New("out of time")

// command is the program, ready to be started in a process group of its own.
func (w *worker) command(ctx context.Context, environ []string) (*exec.Cmd, error) {
	p := w.program
	words := p.Command
	if p.Script != "" {
		words = []string{p.Python, p.Script}
	}
	words = expand(append(words[:len(words):len(words)], p.Args...), environ)
	if len(words) == 0 || words[0] == "" {
		return nil, errors.New("the stage has no command")
	}
	path, err := exec.LookPath(words[0])
	if err != nil && !errors.Is(err, exec.ErrDot) {
		return nil, fmt.Errorf("starting %s: %w", words[0], err)
	}
	cmd := exec.CommandContext(ctx, path, words[1:]...)
	cmd.Args[0] = words[0]
	cmd.Env = environ
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = killAfter
	if len(p.Stdin) > 0 {
		cmd.Stdin = strings.NewReader(strings.Join(p.Stdin, "\n") + "\n")
	}
	return cmd, nil
}

// exitCode is what shells say: 128 and the signal's number where one ended it.
func exitCode(err error) int {
	if err == nil {
		return 0
	}
	ended, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return -1
	}
	if status, ok := ended.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return ended.ExitCode()
}

// explain says in words how a program ended.
func explain(err error) error {
	ended, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return err
	}
	if status, ok := ended.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return fmt.Errorf("the program was ended by a signal: %s", status.Signal())
	}
	return fmt.Errorf("the program ended with exit code %d", ended.ExitCode())
}

// Names of the variables that a program finds its datum by.
const (
	envInput  = "MUSTER_INPUT_"
	envOutput = "MUSTER_OUTPUT"
	envDatum  = "MUSTER_DATUM"
)

// environ are the variables of a datum's program.
func (w *worker) environ(d shift.Datum) []string {
	out := slices.Concat(w.o.Environ, told(w.program, &d))
	out = append(out, envOutput+"="+filepath.Join(d.Folder, shift.OutFolder), envDatum+"="+d.Name)
	for _, name := range w.program.Inputs {
		out = append(out, InputVariable(name)+"="+filepath.Join(d.Folder, shift.InFolder, name))
	}
	return out
}

// InputVariable is the variable in which a program finds the folder of an input:
// the name in capitals, with _ for what is no letter or digit.
func InputVariable(name string) string {
	return envInput + strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return r - 'a' + 'A'
		case r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			return r
		}
		return '_'
	}, name)
}

// expand replaces $(NAME) by the variable's value, and $$ by $; what is no
// variable stays as it is.
func expand(words, environ []string) []string {
	values := map[string]string{}
	out := make([]string, len(words))
	for i, word := range words {
		if !strings.Contains(word, "$") {
			out[i] = word
			continue
		}
		if len(values) == 0 {
			for _, v := range environ {
				name, value, _ := strings.Cut(v, "=")
				values[name] = value
			}
		}
		out[i] = expandWord(word, values)
	}
	return out
}

func expandWord(word string, values map[string]string) string {
	var out strings.Builder
	for {
		before, after, found := strings.Cut(word, "$")
		out.WriteString(before)
		if !found {
			return out.String()
		}
		switch {
		case strings.HasPrefix(after, "$"):
			out.WriteByte('$')
			word = after[1:]
			continue
		case strings.HasPrefix(after, "("):
			name, rest, closed := strings.Cut(after[1:], ")")
			if value, ok := values[name]; closed && ok {
				out.WriteString(value)
				word = rest
				continue
			}
		}
		out.WriteByte('$')
		word = after
	}
}
