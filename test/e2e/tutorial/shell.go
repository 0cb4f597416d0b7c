package tutorial

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Shell is one bash in which all commands of a tutorial run, so that folders and
// variables are kept between them.
type Shell struct {
	// Looks reports whether a command only looks at a state that may not be reached
	// yet. It is repeated until its output is as expected, for Patience at most: a
	// reader types more slowly than a test. Nil: no command is repeated.
	Looks    func(command string) bool
	Patience time.Duration
	// Passing reports whether a line of output shows only how far a slow command is. It is
	// left out, as a page shows the output of a machine at ease. Nil: none is.
	Passing func(line string) bool

	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// mark ends the output of a command; the exit code follows it.
const mark = "\x00tutorial "

// Start starts a shell that works in dir, with an environment of NAME=value. It
// ends with ctx at the latest.
func Start(ctx context.Context, dir string, environment []string) (*Shell, error) {
	cmd := exec.CommandContext(ctx, "bash", "--noprofile", "--norc")
	cmd.Dir, cmd.Env = dir, environment
	cmd.WaitDelay = 5 * time.Second
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	cmd.Stderr = cmd.Stdout // as on a terminal, in one order
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting bash: %w", err)
	}
	return &Shell{cmd: cmd, in: in, out: bufio.NewReader(out)}, nil
}

// Do does one step and returns an error that names its line if it goes another way
// than the page says: a command fails, or prints something else.
func (s *Shell) Do(step Step) error {
	if step.File != "" {
		return s.write(step)
	}
	end := time.Now().Add(s.Patience)
	for {
		err := s.once(step)
		if err == nil || s.Looks == nil || !s.Looks(step.Command) || time.Now().After(end) {
			return err
		}
	}
}

// once runs a command one time.
func (s *Shell) once(step Step) error {
	output, code, err := s.run(step.Command)
	if err != nil {
		return fmt.Errorf("line %d: %s: %w; it printed\n%s", step.Line, step.Command, err, output)
	}
	if code != 0 {
		return fmt.Errorf("line %d: %s: exit code %d; it printed\n%s", step.Line, step.Command, code, output)
	}
	if err := Compare(step.Output, s.lasting(output)); err != nil {
		return fmt.Errorf("line %d: %s: %w", step.Line, step.Command, err)
	}
	return nil
}

// lasting is the output without the lines that only pass.
func (s *Shell) lasting(output string) string {
	if s.Passing == nil {
		return output
	}
	var text strings.Builder
	for line := range strings.Lines(output) {
		if !s.Passing(strings.TrimSpace(line)) {
			text.WriteString(line)
		}
	}
	return text.String()
}

func (s *Shell) write(step Step) error {
	folder, _, err := s.run("pwd")
	if err != nil {
		return fmt.Errorf("line %d: %w", step.Line, err)
	}
	path := filepath.Join(strings.TrimSuffix(folder, "\n"), step.File)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("line %d: %w", step.Line, err)
	}
	if err := os.WriteFile(path, []byte(step.Content), 0o644); err != nil {
		return fmt.Errorf("line %d: %w", step.Line, err)
	}
	return nil
}

// run runs a command in the shell itself, and returns all that it prints and its
// exit code.
func (s *Shell) run(command string) (output string, code int, err error) {
	if _, err := fmt.Fprintf(s.in, "{ %s\n} </dev/null; printf '\\0tutorial %%d\\n' $?\n", command); err != nil {
		return "", 0, fmt.Errorf("the shell has ended: %w", err)
	}
	var text strings.Builder
	for {
		line, err := s.out.ReadString('\n')
		before, status, found := strings.Cut(line, mark)
		text.WriteString(before)
		if found {
			code, err := strconv.Atoi(strings.TrimSpace(status))
			return text.String(), code, err
		}
		if err != nil {
			return text.String(), 0, fmt.Errorf("the shell has ended: %w", err)
		}
	}
}

// Close ends the shell.
func (s *Shell) Close() error {
	return errors.Join(s.in.Close(), s.cmd.Wait())
}
