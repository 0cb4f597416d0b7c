package run

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/queue/survey"
	"github.com/muster-dev/muster/internal/cli/suggestion"
	"github.com/muster-dev/muster/internal/cli/terminal"
)

// longestExpectation is the longest --expect that an object can hold.
const longestExpectation = 99999 * time.Hour

// parseExpect reads --expect; nil: nothing is expected.
func (f *Flags) parseExpect() (*metav1.Duration, error) {
	if f.Expect == "" {
		return nil, nil
	}
	span, err := parseSpan("--expect", f.Expect)
	if err != nil {
		return nil, err
	}
	if span > longestExpectation {
		return nil, exit.Usage("--expect %s: give at most %d days", f.Expect, longestExpectation/(24*time.Hour))
	}
	if most, err := parseMaxTime(f.MaxTime); err == nil && most != nil && span > time.Duration(*most)*time.Second {
		return nil, exit.Usage("--expect %s and --max-time %s: the job would be stopped before it is expected to end: raise --max-time, or lower --expect", f.Expect, f.MaxTime)
	}
	return &metav1.Duration{Duration: span}, nil
}

// warn prints a warning on standard error, unless it is empty.
func (o *options) warn(warning string) {
	if warning != "" {
		streams := o.factory.Streams
		_, _ = fmt.Fprintln(streams.Err, streams.ErrStyle().Paint(terminal.Yellow, "warning:")+" "+warning)
	}
}

// adviseStanding warns on standard error if a job starts a launcher that does not work in members,
// or names a queue or a priority class that does not exist. These are warnings: the job waits, and
// queues and classes may be created later. Where they cannot be asked for nothing is said.
func (o *options) adviseStanding(ctx context.Context, reader client.Reader, job *v1alpha1.TrainingJob) {
	o.warn(launcherAdvice(&job.Spec, tellsUUIDs(ctx, reader, &job.Spec)))
	if name := job.Spec.Queue; name != "" {
		var queues v1alpha1.QueueList
		if err := reader.List(ctx, &queues); err == nil {
			o.warn(queueAdvice(name, queues.Items))
		}
	}
	if name := job.Spec.PriorityClassName; name != "" {
		var classes schedulingv1.PriorityClassList
		if err := reader.List(ctx, &classes); err == nil {
			o.warn(priorityAdvice(name, classes.Items))
		}
	}
}

// queueAdvice is what to say of the queue that a job names; "" if it is there.
func queueAdvice(name string, queues []v1alpha1.Queue) string {
	names := survey.Named(queues)
	if slices.Contains(names, name) {
		return ""
	}
	return fmt.Sprintf("there is no queue %s%s: the job waits until there is (`muster queue create %s` makes it)", name, inBrackets(name, names), name)
}

// priorityAdvice is the same of its priority class.
func priorityAdvice(name string, classes []schedulingv1.PriorityClass) string {
	names := make([]string, len(classes))
	for i := range classes {
		names[i] = classes[i].Name
	}
	if slices.Contains(names, name) {
		return ""
	}
	return fmt.Sprintf("there is no priority class %s%s: the job waits until there is (`muster get priorityclasses` lists them)", name, inBrackets(name, names))
}

func inBrackets(word string, names []string) string {
	if near := suggestion.Nearest(word, names); near != "" {
		return " (did you mean " + near + "?)"
	}
	return ""
}

// completeStanding proposes the queues and priority classes that there are.
func completeStanding(cmd *cobra.Command, f *connection.Factory) {
	_ = cmd.RegisterFlagCompletionFunc("queue", func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return survey.CompleteAny(cmd.Context(), f), cobra.ShellCompDirectiveNoFileComp
	})
	_ = cmd.RegisterFlagCompletionFunc("priority", func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return priorityNames(cmd.Context(), f), cobra.ShellCompDirectiveNoFileComp
	})
}

func priorityNames(ctx context.Context, f *connection.Factory) []string {
	var classes schedulingv1.PriorityClassList
	f.Propose(ctx, &classes)
	names := make([]string, len(classes.Items))
	for i := range classes.Items {
		names[i] = fmt.Sprintf("%s\t%d", classes.Items[i].Name, classes.Items[i].Value)
	}
	return names
}
