// Package edit is the command `muster queue edit`: changes a queue by flags, or
// in an editor.
package edit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/output"
	"github.com/muster-dev/muster/internal/cli/queue/survey"
	"github.com/muster-dev/muster/internal/cli/queue/terms"
	"github.com/muster-dev/muster/internal/cli/refusal"
	"github.com/muster-dev/muster/internal/cli/terminal"
	"github.com/muster-dev/muster/internal/scheduling/queue"
)

type options struct {
	streams terminal.Streams
	getenv  func(string) string
}

// change makes the new spec of an object of what it is now.
type change func(ctx context.Context, object *v1alpha1.Queue) error

// New returns the command.
func New(f *connection.Factory) *cobra.Command {
	o := &options{streams: f.Streams, getenv: f.Getenv}
	cmd := &cobra.Command{
		Use:   "edit QUEUE",
		Short: "Change a queue, by flags or in an editor",
		Long: `Changes a queue. With flags, what they name changes and the rest stays: of amounts
too, where gpu=none takes a class out and none takes all out. Without flags, the
queue is opened in $VISUAL or $EDITOR.`,
		Example: `  muster queue edit vision --guaranteed gpu=12 --limit A100=none
  muster queue edit vision --stopped
  muster queue edit vision --parent none
  EDITOR=nano muster queue edit vision`,
		Args: cobra.ArbitraryArgs,
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return survey.Complete(cmd.Context(), f, args), cobra.ShellCompDirectiveNoFileComp
		},
	}
	flags := terms.Add(cmd, f)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch len(args) {
		case 0:
			return exit.Usage("edit which queue? Give its name; `muster queue list` lists them")
		case 1:
		default:
			return exit.Usage("one queue at a time: what is %q?", args[1])
		}
		by := o.inEditor
		if terms.Given(cmd) {
			by = func(_ context.Context, object *v1alpha1.Queue) error { return flags.Read(cmd, &object.Spec) }
			// What makes no sense is told before a server is asked.
			if err := by(cmd.Context(), &v1alpha1.Queue{}); err != nil {
				return err
			}
		}
		server, err := f.Client()
		if err != nil {
			return err
		}
		return o.run(cmd.Context(), server, args[0], by)
	}
	return cmd
}

func (o *options) run(ctx context.Context, server client.Client, name string, by change) error {
	now, err := survey.ForChange(ctx, server, "update")
	if err != nil {
		return err
	}
	before := now.Object(name)
	switch {
	case before == nil && name == queue.Default:
		return exit.NotFound("queue default is implied and has no terms yet: give it some with `muster queue create default`")
	case before == nil:
		return now.Missing(name)
	}
	object := before.DeepCopy()
	if err := by(ctx, object); err != nil {
		return err
	}
	warnings, err := terms.Check(now, object)
	for _, warning := range warnings {
		_, _ = fmt.Fprintln(o.streams.Err, o.streams.ErrStyle().Paint(terminal.Yellow, "warning:")+" "+warning)
	}
	if err != nil {
		return err
	}
	err = server.Update(ctx, object, client.FieldOwner(connection.FieldOwner))
	switch {
	case apierrors.IsConflict(err):
		return exit.With(exit.Failure, fmt.Errorf("somebody else has changed queue %s meanwhile: try again", name))
	case apierrors.IsInvalid(err):
		return refusal.Explain("queue "+name, err)
	case err != nil:
		return fmt.Errorf("changing queue %s: %w", name, err)
	}
	word := "changed"
	if object.Generation == before.Generation && object.ResourceVersion == before.ResourceVersion {
		word = "unchanged"
	}
	_, err = fmt.Fprintf(o.streams.Out, "queue %s %s\n", name, word)
	return err
}

// inEditor lets the user write the spec.
func (o *options) inEditor(ctx context.Context, object *v1alpha1.Queue) error {
	editor := o.getenv("VISUAL")
	if editor == "" {
		editor = o.getenv("EDITOR")
	}
	words := strings.Fields(editor)
	if len(words) == 0 {
		return exit.Usage("change what? Give flags, such as --guaranteed gpu=8, or set EDITOR")
	}
	shown := &v1alpha1.Queue{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Queue"},
		ObjectMeta: metav1.ObjectMeta{Name: object.Name}, Spec: object.Spec,
	}
	tree, err := output.Manifest(shown)
	if err != nil {
		return err
	}
	text, err := yaml.Marshal(tree)
	if err != nil {
		return fmt.Errorf("encoding queue %s: %w", object.Name, err)
	}
	dir, err := os.MkdirTemp("", "muster-queue-")
	if err != nil {
		return fmt.Errorf("making a file to edit: %w", err)
	}
	file := filepath.Join(dir, object.Name+".yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return errors.Join(fmt.Errorf("making a file to edit: %w", err), os.RemoveAll(dir))
	}
	edited, err := o.edit(ctx, words, file)
	if err == nil {
		err = read(edited, object)
	}
	if err != nil {
		// What was typed is not thrown away.
		return exit.With(exit.Failure, fmt.Errorf("%w\nwhat you wrote is in %s", err, file))
	}
	return os.RemoveAll(dir)
}

// edit runs the editor on a file and returns what it holds then.
func (o *options) edit(ctx context.Context, words []string, file string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, words[0], append(words[1:], file)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = o.streams.In, terminal.Bare(o.streams.Out), terminal.Bare(o.streams.Err)
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("running the editor %s: %w", words[0], err)
	}
	edited, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading what was edited: %w", err)
	}
	return edited, nil
}

// read takes the spec of an edited manifest over.
func read(text []byte, object *v1alpha1.Queue) error {
	var edited v1alpha1.Queue
	if err := yaml.UnmarshalStrict(bytes.TrimSpace(text), &edited); err != nil {
		return fmt.Errorf("reading what was edited: %w", err)
	}
	if edited.Name != object.Name {
		return fmt.Errorf("the name %q was changed from %s: a queue cannot be renamed; create another", edited.Name, object.Name)
	}
	object.Spec = edited.Spec
	return nil
}
