package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/muster-dev/muster/internal/foreman/inputlink"
	"github.com/muster-dev/muster/internal/foreman/parcel"
	"github.com/muster-dev/muster/internal/foreman/shift"
	"github.com/muster-dev/muster/internal/osfile"
)

// MemberOptions say what a member of a job that computes a datum together with others
// runs.
type MemberOptions struct {
	// Post is the folder with the socket and the token of the work of this name.
	Post, Work string
	// Folder is where the files of the datum come, and the output goes.
	Folder string
	// Mount is a folder of its own in which they appear, as [Show] says. Default: none.
	Mount string
	// Name is the member, as role/index.
	Name string
	// Words are the program and its arguments, Environ its variables. Default: those of
	// this process.
	Words, Environ []string
	// Duty is what it is to the others.
	Duty Duty
	// Leaves says that one that follows, and is told to end before its leader is done, goes
	// in order where it can: see [Follows].
	Leaves bool
	// Grace is how long the program may take to end once this process was told to. It is
	// then killed, so that what it wrote can still be sent.
	Grace time.Duration
	// Signals are what this process is sent.
	Signals <-chan os.Signal
	// Stdin, Stdout and Stderr are the program's.
	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// Duty is what a member is to the others of its job.
type Duty int

// The duties of members.
const (
	// Alone: it ends as it does.
	Alone Duty = iota
	// Leads: its end is that of all, and it brings its part last.
	Leads
	// Follows: it goes on until the leader is done, and then stays until it is told to
	// end, so that it is run again with the others or not at all. One that leaves is sent
	// SIGTERM once there is a file shift.LeaveFile beside its files: its program exits with
	// 0 once nobody relies on it but for its output, which is then brought.
	Follows
)

// Exit codes of a member whose program did not run, or whose output was not taken.
const (
	exitBroken   = 1
	exitNotFound = 127
	exitStopped  = 128 + int(syscall.SIGTERM)
)

// member is one process, which runs one program.
type member struct {
	o      MemberOptions
	client *client
	// stopped says that it was told to end, and closed that its leader is done.
	stopped, closed bool
	// lost is why it will not hear that its leader is done.
	lost error
	// began is the time of files when its program began.
	began time.Time
	// said is the output of its program, for a member that is alone: others keep their own log. Nil:
	// nothing is kept.
	said *recorder
	// asking is what asks for that, until its part has come.
	asking sync.WaitGroup
}

// beat is how often one that follows lets itself be heard once its leader is done, until
// its part has come.
const beat = 10 * time.Second

// RunMember fetches the files of a datum, runs a program on them as it would have run
// alone, and sends what that wrote. It returns the program's exit code, once what it
// wrote was taken.
func RunMember(ctx context.Context, o MemberOptions) int {
	o.Folder = linked(o.Folder)
	m := &member{o: o}
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(o.Stderr, "muster: "+format+"\n", args...) }
	var err error
	if m.client, err = newClient(&Options{Post: o.Post, Work: o.Work}, say); err != nil {
		say("reaching who gives out the files of this stage: %v", err)
		return exitBroken
	}
	ctx, cancel := context.WithCancel(ctx)
	defer m.asking.Wait()
	defer cancel()
	done := shift.Outcome{ID: o.Name, Worker: o.Name, Started: time.Now()}
	switch err := m.prepare(ctx); {
	case m.stopped:
		done.Exit, done.Error = exitStopped, "it was stopped before it began"
	case err != nil:
		say("getting the files of this stage: %v", err)
		return exitBroken
	default:
		done.Exit, err = m.execute(ctx)
		done.Took = time.Since(done.Started)
		if err != nil {
			say("%v", err)
			done.Error = m.why(err)
		}
	}
	defer m.forget()
	if o.Duty != Alone && m.stopped {
		if m.leaves() {
			m.leave(ctx, &done, say)
		}
		return exitStopped // all of them begin anew, or it is over
	}
	if m.lost != nil {
		say("it cannot hear any more that its leader is done: %v", m.lost)
		return exitBroken // so that all of them begin anew
	}
	code := done.Exit
	m.judge(&done)
	if done.Exit == shift.Unfit {
		say("%s", done.Error)
	}
	if done.Exit < 0 {
		code = exitBroken
	}
	if o.Duty == Leads && done.Error == "" {
		err = m.unlessStopped(ctx, m.ripe)
	}
	if err == nil {
		err = m.bring(ctx, &done)
	}
	switch {
	case err == nil:
	case o.Duty != Alone && m.stopped:
		return exitStopped
	case errors.Is(err, errGone), errors.Is(err, errOver):
		say("what it wrote is not wanted any more: the stage is over, or another pod has this place")
		if o.Duty != Alone {
			return exitBroken // the others would take it for what they wait for
		}
	default:
		say("sending what it wrote: %v", err)
		return exitBroken
	}
	if o.Duty == Follows && code == 0 {
		m.stay()
	}
	return code
}

// stay waits until this process is told to end.
func (m *member) stay() {
	for s := range m.o.Signals {
		if ends(s) {
			return
		}
	}
}

// prepare has the datum's files be where the program looks for them.
func (m *member) prepare(ctx context.Context) error {
	if err := m.fetch(ctx); err != nil || m.stopped {
		return err
	}
	return m.show()
}

// fetch gets the datum's files, until they are here or this process has to end.
func (m *member) fetch(ctx context.Context) error {
	if err := os.MkdirAll(filepath.Join(m.o.Folder, shift.OutFolder), 0o777); err != nil {
		return fmt.Errorf("making a folder for them: %w", err)
	}
	return m.unlessStopped(ctx, m.get)
}

// unlessStopped tries until something succeeds, or this process has to end.
func (m *member) unlessStopped(ctx context.Context, try func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	come := make(chan error, 1)
	go func() {
		come <- m.client.insist(ctx, func() error { return try(ctx) })
	}()
	defer cancel()
	for {
		select {
		case err := <-come:
			return err
		case s := <-m.o.Signals:
			if ends(s) {
				m.stopped = true
				cancel()
				return <-come
			}
		}
	}
}

func (m *member) get(ctx context.Context) error {
	for _, name := range []string{shift.InFolder, shift.SecretFile} {
		if err := os.RemoveAll(filepath.Join(m.o.Folder, name)); err != nil {
			return fmt.Errorf("clearing their folder: %w", err)
		}
	}
	response, err := m.client.do(ctx, http.MethodGet, shift.SharedPath, nil, 0)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	err = parcel.Read(response.Body, m.o.Folder, parcel.Limits{}, shift.InFolder, shift.SecretFile)
	var refused *parcel.Refusal
	if errors.As(err, &refused) {
		return fmt.Errorf("%w: %w", errRefused, err)
	}
	return err
}

// show has the files appear where the stage says.
func (m *member) show() error {
	if m.o.Mount == "" {
		return nil
	}
	there, err := os.ReadDir(filepath.Join(m.o.Folder, shift.InFolder))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("looking which there are: %w", err)
	}
	inputs := make([]string, len(there))
	for i, entry := range there {
		inputs[i] = entry.Name()
	}
	return Show(m.o.Mount, m.o.Folder, m.o.Folder, inputs)
}

// ends says whether a signal asks a process to end.
func ends(s os.Signal) bool { return s == syscall.SIGTERM || s == syscall.SIGINT }

// passed says whether a signal is one for the program: not those by which the kernel
// and the runtime speak with this process alone.
func passed(s os.Signal) bool {
	return s != syscall.SIGCHLD && s != syscall.SIGURG && s != syscall.SIGPIPE
}

// execute runs the program and returns its exit code.
func (m *member) execute(ctx context.Context) (int, error) {
	path, err := exec.LookPath(m.o.Words[0])
	if err != nil && !errors.Is(err, exec.ErrDot) {
		return exitNotFound, fmt.Errorf("starting %s: %w", m.o.Words[0], err)
	}
	m.began = fileTime()
	cmd := exec.CommandContext(ctx, path, m.o.Words[1:]...)
	cmd.Args[0], cmd.Env = m.o.Words[0], m.o.Environ
	cmd.Stdin, cmd.Stdout, cmd.Stderr = m.o.Stdin, m.o.Stdout, m.o.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if m.o.Duty == Alone {
		if m.said, err = record(cmd, m.o.Folder); err != nil {
			return exitBroken, fmt.Errorf("opening the log of %s: %w", m.o.Words[0], err)
		}
		defer m.said.ended()
	}
	if err := cmd.Start(); err != nil {
		return exitNotFound, fmt.Errorf("starting %s: %w", m.o.Words[0], err)
	}
	kill := func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // or it is gone
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	var late <-chan time.Time
	over, lost := m.leaderDone(ctx)
	for {
		select {
		case err := <-ended:
			kill() // what it left behind would write into the output later
			if code := exitCode(err); !m.closed || code != exitStopped {
				return code, explain(err)
			}
			return 0, nil // as it was told
		case <-over:
			// It has as long as it takes: its leader waits for what it wrote, and
			// killed, it would begin anew, to take as long again.
			over, m.closed = nil, true
			_ = cmd.Process.Signal(syscall.SIGTERM) // or it has just ended
		case m.lost = <-lost:
			late = time.After(m.o.Grace)
			_ = cmd.Process.Signal(syscall.SIGTERM) // or it has just ended
		case s := <-m.o.Signals:
			if !passed(s) {
				continue
			}
			if ends(s) && !m.stopped {
				m.stopped = true
				late = time.After(m.o.Grace)
				m.noteLeaving()
			}
			_ = cmd.Process.Signal(s) // or it has just ended
		case <-late:
			kill()
		}
	}
}

// why is the reason why its program failed, with the last lines of its log.
func (m *member) why(err error) string {
	if m.said != nil && !m.stopped {
		err = with(err, m.said.log.Ending(""))
	}
	return err.Error()
}

// forget removes the log, once it was brought.
func (m *member) forget() {
	if m.said != nil {
		_ = m.said.close() // its file has no name any more
	}
}

// leaderDone is told once the leader of a member that follows is done, or why that is
// not to be heard any more. It asks on until the member ends: who has begun and is not
// heard is lost.
func (m *member) leaderDone(ctx context.Context) (done <-chan struct{}, lost <-chan error) {
	if m.o.Duty != Follows {
		return nil, nil
	}
	yes, no := make(chan struct{}), make(chan error, 1)
	m.asking.Go(func() {
		err := m.client.insist(ctx, func() error { return m.ripe(ctx) })
		switch {
		case err == nil:
			close(yes)
		case ctx.Err() == nil:
			no <- err
		}
		for tick := time.NewTicker(beat); err == nil; {
			select {
			case <-tick.C:
				err = m.client.insist(ctx, func() error { return m.ripe(ctx) })
			case <-ctx.Done():
				err = ctx.Err()
			}
		}
	})
	return yes, no
}

// ripe asks until this member is to bring its part.
func (m *member) ripe(ctx context.Context) error {
	for {
		response, err := m.client.do(ctx, http.MethodGet, shift.PartPath, nil, 0)
		if err != nil {
			return err
		}
		if err := response.Body.Close(); err != nil {
			return err
		}
		if response.StatusCode != shift.StatusNotYet {
			return nil
		}
	}
}

// judge looks at what the program wrote. Of one that was told to end it counts however
// that ended.
func (m *member) judge(o *shift.Outcome) {
	if o.Error != "" && !m.stopped {
		if m.o.Duty != Alone {
			m.heed(o)
		}
		return
	}
	o.Error = ""
	err := intact(m.o.Mount, m.o.Folder)
	if err == nil {
		err = inputlink.Plainly(m.o.Folder, inputlink.Places{Folder: m.o.Folder, Mount: m.o.Mount}, m.began)
	}
	if err == nil {
		err = checkOutput(filepath.Join(m.o.Folder, shift.OutFolder), true)
	}
	if err != nil {
		o.Exit, o.Error = shift.Unfit, err.Error()
	}
}

// mostSaid is the longest outcome that a program may write itself, in bytes.
const mostSaid = 1 << 20

// heed takes what the program itself says of why it failed.
func (m *member) heed(o *shift.Outcome) {
	var said shift.Outcome
	in, err := os.OpenRoot(m.o.Folder)
	if err != nil {
		return
	}
	defer func() { _ = in.Close() }()
	text, err := osfile.ReadRegular(in, shift.OutcomeFile, mostSaid)
	if err == nil && json.Unmarshal(text, &said) == nil && said.Error != "" {
		o.Exit, o.Error = said.Exit, said.Error
	}
}

// bring sends what the program wrote until it was taken, or is not wanted.
func (m *member) bring(ctx context.Context, o *shift.Outcome) error {
	text, err := json.Marshal(o)
	if err == nil {
		err = noteOutcome(m.o.Folder, text)
	}
	if err != nil {
		return fmt.Errorf("noting how it ended: %w", err)
	}
	if m.said != nil {
		if err := m.said.keep(m.o.Folder); err != nil {
			return fmt.Errorf("writing its log: %w", err)
		}
	}
	names := []string{shift.LogFile} // of the others, if the program wrote one
	if o.Error == "" {
		names = append(names, shift.OutFolder)
	}
	names = append(names, shift.OutcomeFile)
	return m.client.insist(ctx, func() error { return m.client.put(ctx, shift.PartPath, m.o.Folder, names) })
}

// noteOutcome writes an outcome into the folder of a datum, in place of anything that a
// program put there.
func noteOutcome(folder string, text []byte) error {
	in, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	return errors.Join(osfile.ReplaceRegular(in, shift.OutcomeFile, text, 0o600), in.Close())
}
