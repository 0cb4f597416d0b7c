// Package list is the command `muster queue list`: the tree of queues with what
// each is guaranteed, uses and borrows.
package list

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/output"
	"github.com/muster-dev/muster/internal/cli/queue/describe"
	"github.com/muster-dev/muster/internal/cli/queue/survey"
	"github.com/muster-dev/muster/internal/cli/terminal"
	"github.com/muster-dev/muster/internal/scheduling/queue"
	"github.com/muster-dev/muster/internal/scheduling/queue/manifest"
)

var formats = []output.Format{output.Wide, output.JSON, output.YAML, output.Name}

// New returns the command.
func New(f *connection.Factory) *cobra.Command {
	var format *output.Format
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls", "get"},
		Short:   "List the queues as a tree, with what each uses and borrows",
		Long: `Lists the queues as a tree: what each is guaranteed, what it uses with all queues
below it, what of that it borrows, its limit, and how many jobs wait. CPU and
memory in use are shown where a queue has terms for them, and with -o wide.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return exit.Usage("list takes no arguments; `muster queue describe %s` shows one queue", args[0])
			}
			return nil
		},
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := format.Validate(formats...); err != nil {
				return err
			}
			server, err := f.Client()
			if err != nil {
				return err
			}
			logins := describe.LoginsOn(cmd.Context(), f.AsksDoor(), describe.AtDoor(f))
			return run(cmd.Context(), server, logins, f.Streams, *format)
		},
	}
	format = output.Flag(cmd, formats...)
	return cmd
}

func run(ctx context.Context, reader client.Reader, logins describe.Logins, streams terminal.Streams, format output.Format) error {
	now, err := survey.Read(ctx, reader)
	if apierrors.IsForbidden(err) {
		return told(ctx, reader, logins, streams, format)
	}
	if err != nil {
		return err
	}
	switch format {
	case output.Name:
		for i := range now.Objects {
			if _, err := fmt.Fprintln(streams.Out, output.Reference(v1alpha1.GroupVersion.WithKind("Queue").GroupKind(), now.Objects[i].Name)); err != nil {
				return err
			}
		}
		return nil
	case output.JSON, output.YAML:
		return output.Print(streams.Out, format, named(documents(now), logins))
	}
	return table(now, logins, format == output.Wide).Write(streams.Out, streams.OutStyle(), "")
}

// documents are the objects with their status as it is now.
func documents(now *survey.Survey) *v1alpha1.QueueList {
	list := &v1alpha1.QueueList{TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "QueueList"}, Items: []v1alpha1.Queue{}}
	for i := range now.Objects {
		object := now.Objects[i].DeepCopy()
		object.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Queue"}
		object.ManagedFields = nil
		if q, ok := now.Tree.Find(object.Name); ok {
			running, waiting := now.Count(q)
			object.Status.Running, object.Status.Waiting = int32(running), int32(waiting)
			object.Status.Used = manifest.Quantities(now.Tree.Classes(), func(c queue.Class) int64 { return now.Tree.Used(q, c) })
			object.Status.Borrowed = manifest.Quantities(now.Tree.Classes(), func(c queue.Class) int64 { return now.Tree.Borrowed(q, c) })
		}
		list.Items = append(list.Items, *object)
	}
	return list
}

// page is a table that is being made.
type page struct {
	now    *survey.Survey
	logins describe.Logins
	wide   bool
	table  *terminal.Table
}

func table(now *survey.Survey, logins describe.Logins, wide bool) *terminal.Table {
	header := []string{"QUEUE", "GUARANTEED", "USED", "BORROWED", "LIMIT", "WAITING"}
	if wide {
		header = append(header, "RUNNING", "WEIGHT", "SHARE")
	}
	p := &page{now: now, logins: logins, wide: wide, table: terminal.NewTable(append(header, "NOTE")...)}
	p.below(queue.Root, "")
	return p.table
}

// below adds the queues below one, each behind the lines of the tree.
func (p *page) below(above queue.Queue, lines string) {
	children := p.now.Tree.Children(above, nil)
	for i, q := range children {
		branch, stem := "├─ ", "│  "
		if i == len(children)-1 {
			branch, stem = "└─ ", "   "
		}
		if above == queue.Root {
			branch, stem = "", ""
		}
		p.row(q, lines+branch)
		p.below(q, lines+stem)
	}
}

func (p *page) row(q queue.Queue, lines string) {
	tree, name := p.now.Tree, p.now.Tree.Name(q)
	guaranteed := func(c queue.Class) int64 { return tree.Guaranteed(q, c) }
	show := func(c queue.Class) bool {
		_, limited := tree.Limit(q, c)
		return p.wide || c >= queue.GPU || limited || tree.Guaranteed(q, c) > 0
	}
	running, waiting := p.now.Count(q)
	limit, weight := "-", "1"
	if object := p.now.Object(name); object != nil {
		spec := manifest.Spec(object)
		weight = strconv.FormatInt(spec.Weight, 10)
		limit = Limits(tree, spec)
	}
	cells := []string{
		lines + p.logins.Show(name), survey.Amounts(tree.Classes(), guaranteed, nil),
		survey.Amounts(tree.Classes(), func(c queue.Class) int64 { return tree.Used(q, c) }, show),
		survey.Amounts(tree.Classes(), func(c queue.Class) int64 { return tree.Borrowed(q, c) }, show), limit, strconv.Itoa(waiting),
	}
	if p.wide {
		cells = append(cells, strconv.Itoa(running), weight, strconv.FormatFloat(100*tree.Share(q), 'f', 1, 64)+"%")
	}
	note, colour := p.note(q, name)
	p.table.Row(append(cells, note)...)
	p.table.Paint(len(cells), colour)
}

// Limits writes the limits of a queue, 0 too; "none" of a class is left out.
func Limits(tree *queue.Tree, spec queue.Spec) string {
	amounts := tree.Classes().Zero()
	given := map[queue.Class]bool{}
	for name, amount := range spec.Limit {
		if c, ok := tree.Classes().Find(name); ok {
			amounts[c], given[c] = amount, true
		}
	}
	text := survey.Amounts(tree.Classes(), func(c queue.Class) int64 { return amounts[c] }, nil)
	for c := range queue.Class(tree.Classes().Len()) {
		if given[c] && amounts[c] == 0 {
			if text == "-" {
				text = ""
			} else {
				text += ","
			}
			text += tree.Classes().Name(c) + "=0"
		}
	}
	return text
}

func (p *page) note(q queue.Queue, name string) (string, terminal.Colour) {
	object := p.now.Object(name)
	problems := p.now.Of(name)
	switch {
	case p.now.Tree.Gone(q):
		return "not there; jobs name it", terminal.Red
	case len(problems) > 0:
		return fmt.Sprintf("invalid: %s; see muster queue describe %s", problems[0].Field, name), terminal.Red
	case object == nil:
		return "implied", terminal.Dim
	case object.Spec.Stopped:
		return "stopped", terminal.Yellow
	}
	return "", 0
}
