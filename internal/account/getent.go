package account

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

const (
	// exitUnknown is the exit code of getent for a key that it does not find.
	exitUnknown = 2
	// grace is the time for which a getent that was killed may remain. One that hangs in
	// the kernel keeps its slot, and the lookup goes on without it.
	grace = time.Second
)

// errNoGetent reports that this machine has no getent that can answer, so that its
// files are all there is.
var errNoGetent = errors.New("this machine has no getent for this")

// ask runs getent for keys of a database, and returns the lines of those that it
// finds. Each line is cut to lineLimit bytes.
func (d *Directory) ask(ctx context.Context, lineLimit int, database string, keys ...string) ([]string, error) {
	if !d.withNSS {
		return nil, errNoGetent
	}
	ctx, cancel := context.WithTimeout(ctx, d.options.Limit)
	defer cancel()
	select {
	case d.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %d lookups wait already", ErrAway, cap(d.slots))
	}
	command := exec.CommandContext(ctx, d.options.Getent, append([]string{database}, keys...)...)
	command.Env, command.Dir = []string{"LC_ALL=C", "PATH=/usr/sbin:/usr/bin:/sbin:/bin"}, "/"
	command.WaitDelay = grace / 2
	out, complaint := &lines{limit: lineLimit}, &lines{limit: 200}
	command.Stdout, command.Stderr = out, complaint
	if err := command.Start(); err != nil {
		<-d.slots
		if errors.Is(err, fs.ErrNotExist) {
			return nil, errNoGetent
		}
		return nil, fmt.Errorf("%w: running getent: %w", ErrAway, err)
	}
	ended := make(chan error, 1)
	go func() {
		defer func() { <-d.slots }()
		ended <- command.Wait()
	}()
	select {
	case err := <-ended:
		return judge(ctx, err, out, complaint)
	case <-stuck(ctx):
		return nil, fmt.Errorf("%w: getent does not end", ErrAway)
	}
}

// stuck is closed a while after ctx ended.
func stuck(ctx context.Context) <-chan struct{} {
	late := make(chan struct{})
	context.AfterFunc(ctx, func() { time.AfterFunc(grace, func() { close(late) }) })
	return late
}

// judge tells what the end of a getent means.
func judge(ctx context.Context, err error, out, complaint *lines) ([]string, error) {
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("%w: getent was ended: %w", ErrAway, ctx.Err())
	case out.err != nil:
		return nil, fmt.Errorf("%w: getent: %w", ErrAway, out.err)
	case err == nil:
		return out.all(), nil
	case errors.As(err, &exit) && exit.ExitCode() == exitUnknown:
		return out.all(), nil
	}
	said := strings.Join(complaint.all(), " ")
	if strings.Contains(strings.ToLower(said), "unknown database") {
		return nil, errNoGetent // musl's getent, which reads the files itself
	}
	return nil, fmt.Errorf("%w: getent: %w: %s", ErrAway, err, strconv.QuoteToASCII(said))
}

const (
	// maxOutput bounds what a getent writes, in bytes: a group may have 100,000 members,
	// and a user 100 such groups.
	maxOutput = 256 << 20
	// maxLines bounds its lines.
	maxLines = 100_000
)

// lines collects the beginnings of lines.
type lines struct {
	// limit is the longest beginning, in bytes.
	limit int

	done    []string
	current []byte
	total   int64
	err     error
}

// Write implements [io.Writer].
func (l *lines) Write(p []byte) (int, error) {
	if l.total += int64(len(p)); l.total > maxOutput {
		l.err = fmt.Errorf("it wrote more than %d bytes", maxOutput)
		return 0, l.err
	}
	for rest := p; len(rest) > 0; {
		part, after, ended := bytes.Cut(rest, []byte{'\n'})
		l.current = append(l.current, part[:min(len(part), l.limit-len(l.current))]...)
		if rest = after; !ended {
			break
		}
		if len(l.done) >= maxLines {
			l.err = fmt.Errorf("it wrote more than %d lines", maxLines)
			return 0, l.err
		}
		l.done, l.current = append(l.done, string(l.current)), l.current[:0]
	}
	return len(p), nil
}

// all returns the lines, the last one also where it does not end.
func (l *lines) all() []string {
	if len(l.current) > 0 {
		return append(l.done, string(l.current))
	}
	return l.done
}
