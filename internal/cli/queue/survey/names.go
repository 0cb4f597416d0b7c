package survey

import (
	"context"
	"slices"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/suggestion"
)

// Named lists the names of queues, sorted, with the default one, which need not
// be made.
func Named(objects []v1alpha1.Queue) []string {
	names := []string{v1alpha1.DefaultQueue}
	for i := range objects {
		names = append(names, objects[i].Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Missing is the error, of exit code 3, for a queue that is not among these and
// is not the default one; nil if it is there.
func Missing(name string, objects []v1alpha1.Queue) error {
	names := Named(objects)
	if slices.Contains(names, name) {
		return nil
	}
	return exit.NotFound("there is no queue %s%s", name, suggestion.Phrase(name, names))
}

// Complete proposes the names of queues that were made and are not among args;
// errors propose nothing.
func Complete(ctx context.Context, f *connection.Factory, args []string) []string {
	var queues v1alpha1.QueueList
	if !f.Propose(ctx, &queues) {
		return nil
	}
	var names []string
	for i := range queues.Items {
		if name := queues.Items[i].Name; !slices.Contains(args, name) {
			names = append(names, name)
		}
	}
	return names
}

// CompleteAny proposes the names of all queues that a job may be in.
func CompleteAny(ctx context.Context, f *connection.Factory) []string {
	var queues v1alpha1.QueueList
	f.Propose(ctx, &queues)
	return Named(queues.Items)
}
