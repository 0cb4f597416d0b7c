// Package cp is the command `muster cp`: files and folders into and out of
// members that run.
package cp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/member"
	"github.com/muster-dev/muster/internal/cli/remote"
	"github.com/muster-dev/muster/internal/cli/terminal"
)

// place is one end of a copy.
type place struct {
	// job is empty for a path of this machine.
	job, member, path string
}

func (p place) String() string {
	switch {
	case p.job == "":
		return p.path
	case p.member == "":
		return p.job + ":" + p.path
	}
	return p.job + "/" + p.member + ":" + p.path
}

// New returns the command.
func New(f *connection.Factory) *cobra.Command {
	return &cobra.Command{
		Use:   "cp SOURCE DESTINATION",
		Short: "Copy files into and out of members that run",
		Long: `Copies a file or folder out of a running member of a training job, or into it.
The member's end is written JOB/MEMBER:PATH, or JOB:PATH for the first that
runs; a relative path is below the member's working directory. The member needs
the program tar.`,
		Example: `  muster cp mnist/worker-0:model.keras .
  muster cp data.csv mnist/worker-0:data/`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return exit.Usage("copy what to where? muster cp JOB/MEMBER:PATH PATH, or the other way round")
			}
			return nil
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 1 || strings.ContainsAny(typed, "/:") {
				return nil, cobra.ShellCompDirectiveDefault
			}
			var names []string
			for _, name := range f.CompleteJobs(cmd.Context(), nil) {
				job, _, _ := strings.Cut(name, "\t")
				names = append(names, job+":")
			}
			return names, cobra.ShellCompDirectiveNoSpace
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			from, to := parsePlace(args[0]), parsePlace(args[1])
			if err := check(from, to); err != nil {
				return err
			}
			return run(cmd.Context(), f, from, to)
		},
	}
}

// parsePlace reads "job/member:path", "job:path" or a local path. A local path
// with a colon is written with a ./ before it.
func parsePlace(text string) place {
	before, after, found := strings.Cut(text, ":")
	if !found || before == "" || strings.HasPrefix(before, ".") || strings.HasPrefix(before, "/") || strings.Count(before, "/") > 1 {
		return place{path: text}
	}
	job, name, _ := strings.Cut(before, "/")
	return place{job: job, member: name, path: after}
}

func check(from, to place) error {
	switch {
	case from.job != "" && to.job != "":
		return exit.Usage("%s and %s are both in members: one end must be a path of this machine", from, to)
	case from.job == "" && to.job == "":
		return exit.Usage("%s and %s are both of this machine: one end must be JOB/MEMBER:PATH", from, to)
	case from.path == "":
		return exit.Usage("%s: give a path after the colon", from)
	}
	return nil
}

// machine is a member, as the end of a copy.
type machine struct {
	config    *rest.Config
	set       kubernetes.Interface
	namespace string
	pod       string
	container string
}

func run(ctx context.Context, f *connection.Factory, from, to place) error {
	end := from
	if from.job == "" {
		end = to
	}
	if from.job == "" {
		if _, err := os.Lstat(from.path); err != nil {
			return exit.NotFound("%s: there is no such file or folder", from.path)
		}
	}
	m, err := reach(ctx, f, end)
	if err != nil {
		return err
	}
	progress := terminal.NewProgress(f.Streams.Err, "Copying", terminal.Bytes)
	defer progress.Stop()
	if from.job != "" {
		return m.download(ctx, from, to.path, progress, f.Streams.Err)
	}
	return m.upload(ctx, from.path, to, progress)
}

// reach finds the member.
func reach(ctx context.Context, f *connection.Factory, end place) (*machine, error) {
	server, namespace, err := f.Reach()
	if err != nil {
		return nil, err
	}
	if _, err := member.Job(ctx, server, namespace, end.job); err != nil {
		return nil, err
	}
	pods, err := member.Pods(ctx, server, namespace, end.job)
	if err != nil {
		return nil, err
	}
	pod, err := member.Choose(pods, end.job, end.member)
	if err != nil {
		return nil, err
	}
	config, set, err := f.Remote(ctx)
	if err != nil {
		return nil, err
	}
	return &machine{config: config, set: set, namespace: namespace, pod: pod.Name, container: member.Container(pod)}, nil
}

// exec runs a command in the member; what it says on standard error becomes
// the error.
func (m *machine) exec(ctx context.Context, stdin io.Reader, stdout io.Writer, argv ...string) error {
	var complaint bytes.Buffer
	code, err := remote.Run(ctx, m.config, m.set, remote.Command{
		Namespace: m.namespace, Pod: m.pod, Container: m.container, Argv: argv, Stdin: stdin, Stdout: stdout, Stderr: &complaint,
	})
	if err != nil {
		return err
	}
	if code != 0 {
		words := strings.TrimSpace(complaint.String())
		if words == "" {
			words = fmt.Sprintf("%s ended with exit code %d", argv[0], code)
		}
		return errors.New(words)
	}
	return nil
}

// looks says what is at a path in the member.
const looks = `if [ -d "$1" ]; then echo folder; elif [ -e "$1" ] || [ -L "$1" ]; then echo file; else echo nothing; fi`

func (m *machine) look(ctx context.Context, at string) (string, error) {
	var answer bytes.Buffer
	if err := m.exec(ctx, nil, &answer, "/bin/sh", "-c", looks, "sh", at); err != nil {
		return "", fmt.Errorf("looking at %s in %s: %w", at, m.pod, err)
	}
	return strings.TrimSpace(answer.String()), nil
}

// download copies from the member to a path of this machine.
func (m *machine) download(ctx context.Context, from place, to string, progress *terminal.Progress, notes io.Writer) error {
	what, err := m.look(ctx, from.path)
	if err != nil {
		return err
	}
	source := path.Clean(from.path)
	info, statErr := os.Stat(to)
	into := statErr == nil && info.IsDir()
	target := to
	if into && what == "folder" && path.Base(source) != "." && path.Base(source) != ".." {
		target = filepath.Join(to, path.Base(source))
	}
	var argv []string
	folder, rename := target, ""
	switch what {
	case "nothing":
		return exit.NotFound("%s: there is no such file or folder in the member", from)
	case "folder":
		argv = []string{"tar", "cf", "-", "-C", source, "."}
	default:
		argv = []string{"tar", "cf", "-", "-C", path.Dir(source), "--", path.Base(source)}
		if !into {
			folder, rename = filepath.Dir(target), filepath.Base(target)
		}
	}
	reader, writer := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := m.exec(ctx, nil, writer, argv...)
		_ = writer.CloseWithError(err)
		done <- err
	}()
	err = unpack(counted(reader, progress), folder, rename, notes)
	_ = reader.CloseWithError(err)
	if sent := <-done; sent != nil && (err == nil || errors.Is(err, sent)) {
		err = sent
	}
	if err != nil {
		return fmt.Errorf("copying %s: %w", from, err)
	}
	return nil
}

// upload copies a path of this machine into the member.
func (m *machine) upload(ctx context.Context, from string, to place, progress *terminal.Progress) error {
	destination := to.path
	if destination == "" {
		destination = "."
	}
	what, err := m.look(ctx, destination)
	if err != nil {
		return err
	}
	folder, name := path.Dir(path.Clean(destination)), path.Base(path.Clean(destination))
	if what == "folder" || strings.HasSuffix(destination, "/") {
		absolute, err := filepath.Abs(from)
		if err != nil {
			return fmt.Errorf("finding %s: %w", from, err)
		}
		folder, name = path.Clean(destination), filepath.Base(absolute)
	}
	reader, writer := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := pack(ctx, writer, from, name)
		_ = writer.CloseWithError(err)
		done <- err
	}()
	err = m.exec(ctx, counted(reader, progress), nil, "/bin/sh", "-c", `mkdir -p -- "$1" && exec tar xf - -C "$1"`, "sh", folder)
	_ = reader.CloseWithError(io.ErrClosedPipe)
	packed := <-done
	if packed != nil && !errors.Is(packed, io.ErrClosedPipe) {
		err = packed
	}
	if err != nil {
		return fmt.Errorf("copying %s to %s: %w", from, to, err)
	}
	return nil
}

// counter counts what is read through it.
type counter struct {
	in       io.Reader
	progress *terminal.Progress
	bytes    int64
}

func counted(in io.Reader, progress *terminal.Progress) io.Reader {
	return &counter{in: in, progress: progress}
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.in.Read(p)
	c.bytes += int64(n)
	c.progress.Set(c.bytes, 0)
	return n, err
}
