package kubectl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/component-base/cli"
	upstream "k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"

	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/terminal"
)

// New returns the command.
func New(f *connection.Factory) *cobra.Command {
	return &cobra.Command{
		Use:   "kubectl COMMAND...",
		Short: "Run kubectl, which is inside this program",
		Long: `Runs the kubectl of Kubernetes on the Muster that the other commands talk to. All
its commands and flags work; plugins are off. --home DIR, before the command,
names Muster's data folder.`,
		Example: `  muster kubectl get pods -A
  muster kubectl rollout restart deployment/web
  muster kubectl port-forward svc/web 8080:80`,
		DisableFlagParsing: true,
		ValidArgsFunction: func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
			return complete(cmd.Context(), f, append(slices.Clone(args), word))
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			args, end, err := route(cmd.Context(), f, args)
			if err != nil {
				return err
			}
			streams := f.Streams
			err = run(cmd.Context(), args, genericiooptions.IOStreams{
				In: streams.In, Out: terminal.Bare(streams.Out), ErrOut: terminal.Bare(streams.Err),
			})
			if ending := end(); err == nil {
				err = ending
			}
			return err
		},
	}
}

// route puts the kubeconfig of the chosen Muster before kubectl's arguments, and removes --home
// from them. The caller calls end once kubectl has ended.
func route(ctx context.Context, f *connection.Factory, args []string) (_ []string, end func() error, err error) {
	end = func() error { return nil }
	args, home, err := takeHome(args)
	if err != nil {
		return nil, nil, err
	}
	if named(args, "--kubeconfig") {
		return args, end, nil
	}
	files, err := f.Kubeconfigs(home)
	if kind, finding := f.Kind(); err == nil && finding == nil && kind == connection.Box {
		var path string
		if path, end, err = writeKubeconfig(ctx, f); err != nil && !offline(args) {
			return nil, nil, errors.Join(err, end())
		}
		files = []string{path}
	}
	switch {
	case err != nil && !offline(args):
		return nil, nil, err
	case err == nil && len(files) == 1:
		return append([]string{"--kubeconfig=" + files[0]}, args...), end, nil
	}
	return args, end, nil // of several files, kubectl reads $KUBECONFIG itself
}

// takeHome removes --home DIR or --home=DIR from the flags before kubectl's command.
func takeHome(args []string) (rest []string, home string, err error) {
	for i, arg := range args {
		value, given := strings.CutPrefix(arg, "--home=")
		switch {
		case given:
			return slices.Delete(slices.Clone(args), i, i+1), value, nil
		case arg == "--home" && i+1 == len(args):
			return nil, "", exit.Usage("--home: give Muster's data folder")
		case arg == "--home":
			return slices.Delete(slices.Clone(args), i, i+2), args[i+1], nil
		case !strings.HasPrefix(arg, "-") && (i == 0 || !strings.HasPrefix(args[i-1], "-")), arg == "--":
			return args, "", nil
		}
	}
	return args, "", nil
}

// named reports whether a flag is among the arguments before "--".
func named(args []string, flag string) bool {
	for _, arg := range args {
		if arg == "--" {
			return false
		}
		if name, _, _ := strings.Cut(arg, "="); name == flag {
			return true
		}
	}
	return false
}

// offline reports whether kubectl needs no server for its arguments.
func offline(args []string) bool {
	if len(args) == 0 || slices.ContainsFunc(args, func(arg string) bool {
		return slices.Contains([]string{"-h", "--help", "--client", "--local", "--dry-run=client", "-s"}, arg)
	}) || named(args, "--server") {
		return true
	}
	return slices.Contains([]string{"help", "options", "completion", "kustomize", "config", "kuberc", cobra.ShellCompRequestCmd}, args[0])
}

// patience is the time that an interrupted kubectl has to restore the terminal.
const patience = 500 * time.Millisecond

// run runs kubectl and returns its exit code as an error. kubectl has printed the message. Upstream
// ends the process when a command fails; here the goroutine ends.
func run(ctx context.Context, args []string, streams genericiooptions.IOStreams) error {
	ended := make(chan error, 1)
	util.BehaviorOnFatal(func(message string, code int) {
		if message != "" {
			_, _ = fmt.Fprintln(streams.ErrOut, strings.TrimSuffix(message, "\n"))
		}
		select {
		case ended <- exit.With(exit.Code(cmp.Or(code, int(exit.Failure))), nil):
		default: // it has failed already
		}
		runtime.Goexit()
	})
	go func() {
		cmd := command(args, streams)
		util.CheckErr(cli.RunNoErrOutput(cmd))
		ended <- nil
	}()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-ended:
		if err != nil {
			return err
		}
	case <-time.After(patience):
	}
	return ctx.Err()
}

// command is kubectl without its plugins.
func command(args []string, streams genericiooptions.IOStreams) *cobra.Command {
	flags := genericclioptions.NewConfigFlags(true).WithDeprecatedPasswordFlag().WithDiscoveryBurst(300).WithDiscoveryQPS(50).WithWarningPrinter(streams)
	cmd := upstream.NewKubectlCommand(upstream.KubectlOptions{Arguments: append([]string{"kubectl"}, args...), ConfigFlags: flags, IOStreams: streams})
	for _, sub := range cmd.Commands() {
		if sub.Name() == "plugin" {
			cmd.RemoveCommand(sub)
		}
	}
	cmd.SetArgs(args)
	cmd.SetIn(streams.In)
	cmd.SetOut(streams.Out)
	cmd.SetErr(streams.ErrOut)
	return cmd
}
