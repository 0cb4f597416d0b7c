package list

import (
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/output"
	"github.com/muster-dev/muster/internal/cli/queue/describe"
	"github.com/muster-dev/muster/internal/cli/terminal"
)

// told lists the status of the queues. It is for users without the right to list nodes and the work
// of others.
func told(ctx context.Context, reader client.Reader, logins describe.Logins, streams terminal.Streams, format output.Format) error {
	list := &v1alpha1.QueueList{}
	if err := reader.List(ctx, list); err != nil {
		return fmt.Errorf("listing the queues: %w", err)
	}
	// A client reads objects without their kinds.
	list.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "QueueList"}
	list.ListMeta = metav1.ListMeta{}
	slices.SortFunc(list.Items, func(a, b v1alpha1.Queue) int { return strings.Compare(a.Name, b.Name) })
	for i := range list.Items {
		list.Items[i].TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Queue"}
		list.Items[i].ManagedFields = nil
	}
	switch format {
	case output.Name:
		for i := range list.Items {
			if _, err := fmt.Fprintln(streams.Out, output.Reference(v1alpha1.GroupVersion.WithKind("Queue").GroupKind(), list.Items[i].Name)); err != nil {
				return err
			}
		}
		return nil
	case output.JSON, output.YAML:
		return output.Print(streams.Out, format, named(list, logins))
	}
	table := terminal.NewTable("QUEUE", "BELOW", "GUARANTEED", "USED", "BORROWED", "LIMIT", "WAITING", "RUNNING")
	for i := range list.Items {
		q := &list.Items[i]
		table.Row(logins.Show(q.Name), dash(logins.Show(q.Spec.Parent)), amounts(q.Spec.Guaranteed), amounts(q.Status.Used), amounts(q.Status.Borrowed), amounts(q.Spec.Limit),
			fmt.Sprint(q.Status.Waiting), fmt.Sprint(q.Status.Running))
	}
	return table.Write(streams.Out, streams.OutStyle(), "")
}

// amounts are quantities in words: "gpu=8, cpu=64"; "-" for none.
func amounts(of v1alpha1.ResourceAmounts) string {
	var parts []string
	for class, quantity := range of {
		parts = append(parts, class+"="+quantity.String())
	}
	slices.Sort(parts)
	return dash(strings.Join(parts, ", "))
}

func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
