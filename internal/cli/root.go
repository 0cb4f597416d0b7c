package cli

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/muster-dev/muster/internal/cli/apply"
	"github.com/muster-dev/muster/internal/cli/completion"
	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/console"
	"github.com/muster-dev/muster/internal/cli/cp"
	"github.com/muster-dev/muster/internal/cli/credential"
	"github.com/muster-dev/muster/internal/cli/data"
	"github.com/muster-dev/muster/internal/cli/delete"
	"github.com/muster-dev/muster/internal/cli/describe"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/get"
	"github.com/muster-dev/muster/internal/cli/install"
	"github.com/muster-dev/muster/internal/cli/kubectl"
	"github.com/muster-dev/muster/internal/cli/logs"
	"github.com/muster-dev/muster/internal/cli/node"
	"github.com/muster-dev/muster/internal/cli/pause"
	"github.com/muster-dev/muster/internal/cli/pipeline"
	"github.com/muster-dev/muster/internal/cli/plan"
	"github.com/muster-dev/muster/internal/cli/queue"
	"github.com/muster-dev/muster/internal/cli/release"
	"github.com/muster-dev/muster/internal/cli/resume"
	"github.com/muster-dev/muster/internal/cli/run"
	"github.com/muster-dev/muster/internal/cli/session"
	"github.com/muster-dev/muster/internal/cli/shell"
	"github.com/muster-dev/muster/internal/cli/simulate"
	"github.com/muster-dev/muster/internal/cli/suspend"
	"github.com/muster-dev/muster/internal/cli/terminal"
	"github.com/muster-dev/muster/internal/cli/token"
	"github.com/muster-dev/muster/internal/cli/top"
	"github.com/muster-dev/muster/internal/cli/uninstall"
	"github.com/muster-dev/muster/internal/cli/unpause"
	"github.com/muster-dev/muster/internal/cli/user"
	"github.com/muster-dev/muster/internal/cli/version"
	"github.com/muster-dev/muster/internal/cli/why"
)

// Verb makes a command.
type Verb func(*connection.Factory) *cobra.Command

// Main runs the command line args and returns the exit code. The first ^C (or
// SIGTERM) ends the command's context; a second one ends the process at once.
// More verbs may be given beside the package's own: those that only the whole
// program links.
func Main(args []string, streams terminal.Streams, more ...Verb) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	unhook := context.AfterFunc(ctx, stop)
	defer unhook()
	return int(Execute(ctx, args, streams, more...))
}

// Execute runs the command line args within ctx and returns the exit code.
func Execute(ctx context.Context, args []string, streams terminal.Streams, more ...Verb) exit.Code {
	streams = streams.Guarded()
	defer streams.Flush()
	factory := connection.New(streams, version.Client().Version)
	root := New(factory, more...)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if ctx.Err() != nil && err != nil {
		if _, said := errors.AsType[*exit.Error](err); !said {
			// The ^C is what went wrong, whatever it broke. The terminal
			// echoed it: what comes next begins on a line of its own.
			if terminal.Is(streams.Err) {
				_, _ = fmt.Fprintln(streams.Err)
			}
			return exit.Interrupted
		}
	}
	explained := factory.Explain(err)
	code, say := exit.Of(explained)
	if say {
		style := streams.ErrStyle()
		_, _ = fmt.Fprintln(streams.Err, style.Paint(terminal.Red, "error:")+" "+explained.Error())
	}
	return code
}

// verbs are the package's own, in the order of the groups that help shows.
var verbs = map[string][]Verb{
	"run":     {run.New, apply.New, suspend.New, resume.New, release.New, delete.New},
	"look":    {get.New, describe.New, logs.New, why.New, plan.New, top.New, console.New},
	"inside":  {shell.New, cp.New, kubectl.New},
	"data":    {data.New, pipeline.New},
	"cluster": {install.New, uninstall.New, node.New, user.New},
	"other":   {completion.New, credential.New, pause.New, unpause.New, queue.New, session.New, simulate.New, token.New, version.New},
}

// New returns the root command with its own verbs and those that are added.
func New(f *connection.Factory, more ...Verb) *cobra.Command {
	root := &cobra.Command{
		Use:   "muster",
		Short: "Gather code, data and GPUs, run the work, give every GPU back",
		Long: `Muster gathers code, data and GPUs, all of them or none, runs the work, and
gives every GPU back the moment the work ends.

  muster up --detach                          start Muster on this machine
  muster run --gpus 1 -- python train.py      run a script on one GPU`,
		SilenceErrors: true,
		SilenceUsage:  true,

		SuggestionsMinimumDistance: 2,
		Args:                       cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			return unknownCommand(cmd, args[0])
		},
	}
	root.SetIn(f.Streams.In)
	root.SetOut(f.Streams.Out)
	root.SetErr(f.Streams.Err)
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetFlagErrorFunc(flagError)
	f.AddFlags(root.PersistentFlags())
	// Ours, so that none that a library declares for the whole program is
	// taken over in its place.
	root.PersistentFlags().Bool("version", false, "print the version")
	_ = root.PersistentFlags().MarkHidden("version")
	root.Version = f.Version
	root.SetVersionTemplate("muster {{.Version}}\n")
	root.AddGroup(
		&cobra.Group{ID: "run", Title: "Run jobs:"},
		&cobra.Group{ID: "look", Title: "Look at them:"},
		&cobra.Group{ID: "inside", Title: "Reach into them:"},
		&cobra.Group{ID: "data", Title: "Data in versions, and pipelines on it:"},
		&cobra.Group{ID: "machine", Title: "Muster on this machine:"},
		&cobra.Group{ID: "cluster", Title: "Muster on a cluster:"},
		&cobra.Group{ID: "other", Title: "Other:"},
	)
	for _, group := range []string{"run", "look", "inside", "data", "cluster", "other"} {
		for _, verb := range slices.Concat(verbs[group], verbsOfSystem[group]) {
			cmd := verb(f)
			cmd.GroupID = group
			root.AddCommand(cmd)
		}
	}
	for _, verb := range more {
		cmd := verb(f)
		cmd.GroupID = "machine"
		root.AddCommand(cmd)
	}
	root.AddCommand(exitCodes(f))
	for _, cmd := range root.Commands() {
		checkWords(cmd)
	}
	attend(f, root)
	refuseOnBox(f, root)
	root.SetHelpCommandGroupID("other")
	root.InitDefaultHelpCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() == "help" {
			explainTopics(root, cmd)
		}
	}
	return root
}

// explainTopics makes a topic that help does not have an error.
func explainTopics(root, help *cobra.Command) {
	help.Run = nil
	help.RunE = func(_ *cobra.Command, args []string) error {
		topic, rest, err := root.Find(args)
		if err != nil || len(args) > 0 && len(rest) > 0 && topic == root {
			return unknownCommand(root, args[0])
		}
		topic.InitDefaultHelpFlag()
		return topic.Help()
	}
}

// checkWords makes words that a command does not take an error of exit code 2.
func checkWords(cmd *cobra.Command) {
	check := cmd.Args
	if check == nil {
		return
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		err := check(cmd, args)
		if code, say := exit.Of(err); code != exit.Failure || !say {
			return err
		}
		return exit.Usage("%s: what is %q? `%s --help` shows what it takes", cmd.CommandPath(), strings.Join(args, " "), cmd.CommandPath())
	}
}

// unknownCommand names the commands that are near.
func unknownCommand(cmd *cobra.Command, word string) error {
	hint := "; `muster help` lists them"
	if near := cmd.SuggestionsFor(word); len(near) > 0 {
		hint = "; did you mean muster " + strings.Join(near, ", or muster ") + "?"
	}
	return exit.Usage("muster %s: there is no such command%s", word, hint)
}

// flagError makes a misspelt flag an error of exit code 2.
func flagError(cmd *cobra.Command, err error) error {
	return exit.Usage("%s: %s%s\n`%s --help` lists the flags", cmd.CommandPath(), flagWords(cmd, err), nearFlag(cmd, err), cmd.CommandPath())
}

// exitCodes is the help topic about exit codes.
func exitCodes(f *connection.Factory) *cobra.Command {
	cmd := &cobra.Command{Use: "exit-codes", Short: "What muster's exit codes mean"}
	table := terminal.NewTable("CODE", "MEANING")
	for _, row := range exit.Table() {
		table.Row(row.Code, row.Meaning)
	}
	var text strings.Builder
	_ = table.Write(&text, terminal.Coloured(false), "")
	cmd.Long = strings.TrimRight(text.String(), "\n")
	cmd.SetHelpFunc(func(*cobra.Command, []string) { _, _ = fmt.Fprint(f.Streams.Out, text.String()) })
	return cmd
}

// flagNames lists a command's flags, for "did you mean".
func flagNames(cmd *cobra.Command) []string {
	var names []string
	cmd.Flags().VisitAll(func(flag *pflag.Flag) { names = append(names, "--"+flag.Name) })
	return names
}
