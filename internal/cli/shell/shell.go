// Package shell is the command `muster shell`: a shell, or any command, inside
// a member that runs.
package shell

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/member"
	"github.com/muster-dev/muster/internal/cli/remote"
	"github.com/muster-dev/muster/internal/cli/terminal"
)

type options struct {
	factory *connection.Factory
	job     string
	member  string
	command []string
}

// New returns the command.
func New(f *connection.Factory) *cobra.Command {
	o := &options{factory: f}
	cmd := &cobra.Command{
		Use:     "shell JOB [MEMBER] [-- command [args...]]",
		Aliases: []string{"exec"},
		Short:   "Open a shell inside a member that runs",
		Long: `Opens a shell inside a member of a training job: its code, its environment, its
GPUs. Without a member's name, the first that runs. With a command after --, it
runs that and ends with its exit code.`,
		Example: `  muster shell mnist
  muster shell mnist/worker-1
  muster shell mnist worker-1 -- nvidia-smi`,
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return f.CompleteJobs(cmd.Context(), args), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.complete(args, cmd.ArgsLenAtDash()); err != nil {
				return err
			}
			return o.run(cmd.Context())
		},
	}
	return cmd
}

// complete sorts out the arguments; dash is how many stand before the --.
func (o *options) complete(args []string, dash int) error {
	before := args
	if dash >= 0 {
		before, o.command = args[:dash], args[dash:]
	}
	switch {
	case len(before) == 0:
		return exit.Usage("a shell in which job? Give its name: muster shell JOB [MEMBER] [-- command]")
	case len(before) > 2:
		return exit.Usage("%q: give the job and a member; a command goes after --: muster shell %s %s -- %s", before[2], before[0], before[1], before[2])
	case dash >= 0 && len(o.command) == 0:
		return exit.Usage("the command after -- is empty")
	}
	var err error
	o.job, o.member, err = member.Words(before)
	return err
}

// interactive is the command of a shell where none is given. A terminal has a
// kind, without which neither colours nor full-screen programs work.
func interactive(term string) []string {
	return []string{"/bin/sh", "-c", `[ -z "$1" ] || export TERM="$1"; command -v bash >/dev/null && exec bash || exec sh`, "sh", term}
}

func (o *options) run(ctx context.Context) error {
	server, namespace, err := o.factory.Reach()
	if err != nil {
		return err
	}
	if _, err := member.Job(ctx, server, namespace, o.job); err != nil {
		return err
	}
	pods, err := member.Pods(ctx, server, namespace, o.job)
	if err != nil {
		return err
	}
	pod, err := member.Choose(pods, o.job, o.member)
	if err != nil {
		return err
	}
	config, set, err := o.factory.Remote(ctx)
	if err != nil {
		return err
	}
	streams := o.factory.Streams
	if len(o.command) == 0 {
		o.command = interactive(o.factory.Getenv("TERM"))
	}
	said := &counter{Writer: terminal.Data(streams.Err)}
	command := remote.Command{
		Namespace: namespace, Pod: pod.Name, Container: member.Container(pod), Argv: o.command,
		Stdin: streams.In, Stdout: terminal.Data(streams.Out), Stderr: said,
		TTY: terminal.Is(streams.In) && terminal.Is(streams.Out),
	}
	if command.TTY {
		command.Stdout = terminal.Bare(streams.Out)
		sizes := watchSize(streams.Out)
		defer sizes.stop()
		command.Sizes = sizes
		restore, err := terminal.Raw(streams.In)
		if err != nil {
			return err
		}
		defer restore()
	}
	code, err := remote.Run(ctx, config, set, command)
	if err != nil {
		return err
	}
	return ended(pod.Name, command, code, said.bytes)
}

// ended turns a command's exit code into the error that carries it. Of a
// program that could not be started nobody has said anything.
func ended(pod string, command remote.Command, code int, said int64) error {
	switch {
	case code == 0:
		return nil
	case code == notFound && said == 0 && !command.TTY:
		return exit.With(exit.Code(code), fmt.Errorf("%s: there is no such program in %s", command.Argv[0], pod))
	case code == notExecutable && said == 0 && !command.TTY:
		return exit.With(exit.Code(code), fmt.Errorf("%s cannot be executed in %s", command.Argv[0], pod))
	}
	return exit.With(exit.Code(code), nil)
}

// The exit codes of a program that could not be started, as shells have them.
const (
	notExecutable = 126
	notFound      = 127
)

// counter counts what passes through it, in bytes.
type counter struct {
	io.Writer
	bytes int64
}

// Write implements io.Writer.
func (c *counter) Write(p []byte) (int, error) {
	n, err := c.Writer.Write(p)
	c.bytes += int64(n)
	return n, err
}

// sizes tells the size of the terminal each time it changes.
type sizes struct {
	out     io.Writer
	signals <-chan os.Signal
	ignore  func()
	quit    chan struct{}
	once    sync.Once
	first   bool
}

func watchSize(out io.Writer) *sizes {
	s := &sizes{out: out, quit: make(chan struct{}), first: true}
	s.signals, s.ignore = terminal.Resized()
	return s
}

// Next implements remotecommand.TerminalSizeQueue.
func (s *sizes) Next() *remotecommand.TerminalSize {
	if !s.first {
		select {
		case <-s.quit:
			return nil
		case <-s.signals:
		}
	}
	s.first = false
	columns, rows, ok := terminal.Size(s.out)
	if !ok {
		return nil
	}
	return &remotecommand.TerminalSize{Width: uint16(min(columns, 1<<16-1)), Height: uint16(min(rows, 1<<16-1))}
}

func (s *sizes) stop() {
	s.ignore()
	s.once.Do(func() { close(s.quit) })
}
