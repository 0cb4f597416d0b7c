package describe

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/output"
	"github.com/muster-dev/muster/internal/cli/queue/survey"
	"github.com/muster-dev/muster/internal/cli/terminal"
)

// told describes queues by the status that the scheduler wrote last. It is for users without the
// right to list nodes and the work of others.
func told(ctx context.Context, reader client.Reader, streams terminal.Streams, format output.Format, names []string) error {
	var list v1alpha1.QueueList
	if err := reader.List(ctx, &list); err != nil {
		return fmt.Errorf("listing the queues: %w", err)
	}
	documents := make([]Document, len(names))
	for i, name := range names {
		if err := survey.Missing(name, list.Items); err != nil {
			return err
		}
		documents[i] = toldOf(name, list.Items)
	}
	_, _ = fmt.Fprintln(streams.Err, "not shown, because you may not list nodes and the jobs of all namespaces: the state and share of a queue, limits, users and jobs")
	return show(documents, nil, streams, format)
}

// show prints documents.
func show(documents []Document, logins Logins, streams terminal.Streams, format output.Format) error {
	switch {
	case format != output.Human && len(documents) == 1:
		return output.Print(streams.Out, format, documents[0])
	case format != output.Human:
		return output.Print(streams.Out, format, documents)
	}
	for i := range documents {
		if i > 0 {
			_, _ = fmt.Fprintln(streams.Out)
		}
		if err := documents[i].write(streams, logins); err != nil {
			return err
		}
	}
	return nil
}

// toldOf describes a queue by the Queue objects. The default queue may have no object.
func toldOf(name string, objects []v1alpha1.Queue) Document {
	d := Document{Name: name, State: "unknown"}
	for i := range objects {
		q := &objects[i]
		switch name {
		case q.Name:
			d.Parent, d.Guaranteed, d.Used, d.Borrowed = q.Spec.Parent, q.Spec.Guaranteed, q.Status.Used, q.Status.Borrowed
			d.Running, d.Waiting = int(q.Status.Running), int(q.Status.Waiting)
		case q.Spec.Parent:
			d.Children = append(d.Children, q.Name)
		}
	}
	slices.Sort(d.Children)
	return d
}

// write writes the queue's spec and status.
func (d Document) write(streams terminal.Streams, logins Logins) error {
	text := logins.title(d.Name) + "\n\n"
	if d.Parent != "" {
		text += "Parent  " + logins.Show(d.Parent) + "\n"
	}
	if len(d.Children) > 0 {
		text += "Below   " + strings.Join(logins.each(d.Children), ", ") + "\n"
	}
	text += fmt.Sprintf("Jobs    %d running, %d waiting\n\n", d.Running, d.Waiting)
	if _, err := fmt.Fprint(streams.Out, text); err != nil {
		return err
	}
	classes := map[string]bool{}
	for _, amounts := range []v1alpha1.ResourceAmounts{d.Guaranteed, d.Used, d.Borrowed} {
		for class := range amounts {
			classes[class] = true
		}
	}
	table := terminal.NewTable("CLASS", "GUARANTEED", "USED", "BORROWED")
	for _, class := range slices.Sorted(maps.Keys(classes)) {
		table.Row(class, amount(d.Guaranteed, class), amount(d.Used, class), amount(d.Borrowed, class))
	}
	for _, one := range []*terminal.Table{table, d.users(), d.jobs()} {
		if one.Len() == 0 {
			continue
		}
		if err := one.Write(streams.Out, streams.OutStyle(), ""); err != nil {
			return err
		}
	}
	return nil
}

// users are those of the queue.
func (d Document) users() *terminal.Table {
	table := terminal.NewTable("USER", "HOLDS", "RUNNING", "WAITING")
	for _, u := range d.Users {
		table.Row(cmp.Or(u.Name, "(unknown)"), amounts(u.Holds), fmt.Sprint(u.Running), fmt.Sprint(u.Waiting))
	}
	return table
}

// jobs are those of the queue.
func (d Document) jobs() *terminal.Table {
	table := terminal.NewTable("JOB", "USER", "STATE", "AMOUNT")
	for i, job := range d.Jobs {
		if i == maxJobs {
			table.Row(fmt.Sprintf("and %d more", len(d.Jobs)-maxJobs))
			break
		}
		state := "waits"
		if job.Runs {
			state = "runs"
		}
		table.Row(cmp.Or(job.Name, "-"), job.User, state, amounts(job.Amounts))
	}
	return table
}

// amounts are quantities in words: "gpu=8,cpu=64"; "-" for none.
func amounts(of v1alpha1.ResourceAmounts) string {
	var parts []string
	for _, class := range slices.Sorted(maps.Keys(of)) {
		parts = append(parts, class+"="+amount(of, class))
	}
	return cmp.Or(strings.Join(parts, ","), "-")
}

func amount(of v1alpha1.ResourceAmounts, class string) string {
	if quantity, known := of[class]; known {
		return quantity.String()
	}
	return "-"
}
