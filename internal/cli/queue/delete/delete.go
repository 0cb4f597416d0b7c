// Package delete is the command `muster queue delete`.
package delete

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/output"
	"github.com/muster-dev/muster/internal/cli/queue/survey"
	"github.com/muster-dev/muster/internal/cli/terminal"
	"github.com/muster-dev/muster/internal/scheduling/queue"
)

type options struct {
	streams terminal.Streams
	format  *output.Format
	force   bool
	ignore  bool
}

// New returns the command.
func New(f *connection.Factory) *cobra.Command {
	o := &options{streams: f.Streams}
	cmd := &cobra.Command{
		Use:     "delete QUEUE...",
		Aliases: []string{"rm"},
		Short:   "Delete queues in which no job is left",
		Long: `Deletes queues. A queue that jobs run or wait in, or that has queues below it, is
not deleted, unless --force is given: then what runs goes on, what waits goes on
waiting and says that its queue is gone, and queues below become children of the
root until they name another parent.`,
		Example: "  muster queue delete ocr",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			return survey.Complete(cmd.Context(), f, args), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return exit.Usage("delete which queue? Give names; `muster queue list` lists them")
			}
			if err := o.format.Validate(output.Name); err != nil {
				return err
			}
			server, err := f.Client()
			if err != nil {
				return err
			}
			return o.run(cmd.Context(), server, args)
		},
	}
	o.format = output.Flag(cmd, output.Name)
	cmd.Flags().BoolVar(&o.force, "force", false, "delete them although jobs or other queues are in them")
	cmd.Flags().BoolVar(&o.ignore, "ignore-not-found", false, "a queue that does not exist is no error")
	return cmd
}

// run looks at all queues before any is deleted, so that a misspelt name
// deletes none.
func (o *options) run(ctx context.Context, server client.Client, names []string) error {
	now, err := survey.ForChange(ctx, server, "delete")
	if err != nil {
		return err
	}
	chosen := map[string]bool{}
	for _, name := range names {
		chosen[name] = true
	}
	var objects []*v1alpha1.Queue
	var errs []error
	for _, name := range names {
		object := now.Object(name)
		switch {
		case object != nil:
			objects = append(objects, object)
			if used := inUse(now, name, chosen); used != "" && !o.force {
				errs = append(errs, exit.With(exit.Failure, fmt.Errorf("queue %s is not deleted: %s; move jobs away first (muster queue move JOB --to QUEUE), or end them, give queues below another parent (muster queue edit), or give --force", name, used)))
			}
		case o.ignore:
		case name == queue.Default:
			errs = append(errs, exit.With(exit.Failure, errors.New("queue default is implied: it is where jobs are that name no queue, and cannot be deleted")))
		default:
			errs = append(errs, now.Missing(name))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for _, object := range objects {
		err := server.Delete(ctx, object, client.Preconditions{UID: &object.UID})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("deleting queue %s: %w", object.Name, err)
		}
		if err := o.report(now, object.Name, chosen); err != nil {
			return err
		}
	}
	return nil
}

// most is how many names are listed.
const most = 5

// inUse says what is in a queue: jobs, and queues that are not deleted too.
func inUse(now *survey.Survey, name string, chosen map[string]bool) string {
	var running, waiting, below []string
	for _, work := range now.Work {
		switch {
		case work.Queue != name || name == queue.Default:
		case work.Holds:
			running = append(running, work.Name)
		default:
			waiting = append(waiting, work.Name)
		}
	}
	for i := range now.Objects {
		if object := &now.Objects[i]; object.Spec.Parent == name && !chosen[object.Name] {
			below = append(below, object.Name)
		}
	}
	var parts []string
	for _, one := range []struct {
		names []string
		verb  string
	}{{running, "runs in it"}, {waiting, "waits in it"}, {below, "is below it"}} {
		if len(one.names) > 0 {
			parts = append(parts, phrase(one.names, one.verb))
		}
	}
	return strings.Join(parts, ", ")
}

// phrase says "a, b and 3 more run in it".
func phrase(names []string, verb string) string {
	if len(names) > 1 {
		verb = map[string]string{"runs in it": "run in it", "waits in it": "wait in it", "is below it": "are below it"}[verb]
	}
	shown := strings.Join(names[:min(most, len(names))], ", ")
	if more := len(names) - most; more > 0 {
		shown += fmt.Sprintf(" and %d more", more)
	}
	return shown + " " + verb
}

func (o *options) report(now *survey.Survey, name string, chosen map[string]bool) error {
	line := "queue " + name + " deleted"
	if *o.format == output.Name {
		line = output.Reference(v1alpha1.GroupVersion.WithKind("Queue").GroupKind(), name)
	}
	if _, err := fmt.Fprintln(o.streams.Out, line); err != nil {
		return err
	}
	if used := inUse(now, name, chosen); used != "" {
		_, _ = fmt.Fprintln(o.streams.Err, o.streams.ErrStyle().Paint(terminal.Yellow, "warning:")+" "+used+
			": what runs goes on; what waits does so until the queue is made again")
	}
	return nil
}
