// Package why is the command `muster why`: the exact reason why a training job, a pod, or
// what belongs to a Deployment or a pipeline, is where it is.
package why

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/explanation"
	"github.com/muster-dev/muster/internal/cli/member"
	"github.com/muster-dev/muster/internal/cli/output"
	"github.com/muster-dev/muster/internal/cli/standstill"
	"github.com/muster-dev/muster/internal/cli/terminal"
	"github.com/muster-dev/muster/internal/scheduling"
	"github.com/muster-dev/muster/internal/snapshot"
	"github.com/muster-dev/muster/internal/visibility"
)

// explain accounts for a gang, or a lone pod, from the state of the cluster now.
type explain func(ctx context.Context, reader client.Reader, key scheduling.Key, pod bool) (scheduling.Explanation, error)

// Answer is what `muster why -o json` prints.
type Answer struct {
	// Job is the training job's name; of another object pod/NAME, gang/NAME, tfjob/NAME or
	// pytorchjob/NAME.
	Job string `json:"job"`
	// Phase is where in its life it is.
	Phase v1alpha1.JobPhase `json:"phase"`
	// Code names the kind of reason, for programs: a code of the scheduler's, or the reason in the
	// job's status. Empty if the phase needs no explanation.
	Code string `json:"code,omitempty"`
	// Reason is the reason in a sentence.
	Reason string `json:"reason"`
	// Details are the reason's figures.
	Details any `json:"details,omitempty"`
	// Document is its turn, when it is expected to start, and what would start
	// it sooner.
	explanation.Document
	// Paused are the pauses that keep the job from starting, whatever else
	// does.
	Paused []standstill.Standstill `json:"paused,omitempty"`
}

// New returns the command.
func New(f *connection.Factory) *cobra.Command {
	var format *output.Format
	cmd := &cobra.Command{
		SuggestFor: []string{"explain"},
		Use:        "why JOB|KIND/NAME",
		Short:      "Say why a training job or a pod waits, or is where it is",
		Long: `Says what a training job waits for: what it needs at once, what is free, and who
holds the rest since when; its place in the order of turns, when it is expected
to start, and the smallest changes that would start it now. Of a job that runs
it says since when, and whether it may have to make room for others. Why a job
has no place is computed now, from what is free now. For a job that has its place
it gives the reason of the status: an image that cannot be pulled, a node that
does not answer, the end of the last attempt.

It answers in the same way for pod/NAME and gang/NAME. Of deployment/NAME,
statefulset/NAME, replicaset/NAME and job/NAME it takes the first pod that does not
run, and of pipeline/NAME and pipelinerun/NAME the stages that are computed.`,
		Example: "  muster why mnist\n  muster why pod/debug\n  muster why deployment/web",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 && len(args) != 2 {
				return exit.Usage("why is what? Give one training job's name, or another object: muster why JOB, muster why pod/NAME")
			}
			return nil
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return f.CompleteJobs(cmd.Context(), args), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := format.Validate(output.JSON, output.YAML); err != nil {
				return err
			}
			return run(cmd.Context(), f, *format, strings.Join(args, "/"))
		},
	}
	format = output.Flag(cmd, output.JSON, output.YAML)
	return cmd
}

func run(ctx context.Context, f *connection.Factory, format output.Format, word string) error {
	reader, namespace, err := f.Reach()
	if err != nil {
		return err
	}
	named, err := parse(word)
	if err != nil {
		return err
	}
	found, err := resolve(ctx, reader, namespace, named)
	if err != nil {
		return err
	}
	answers := make([]Answer, 0, len(found.subjects))
	for _, one := range found.subjects {
		answer, err := askOrDoor(ctx, f, reader, namespace, one)
		if err != nil {
			return err
		}
		answers = append(answers, answer)
	}
	switch {
	case format != output.Human && len(answers) == 1:
		return output.Print(f.Streams.Out, format, answers[0])
	case format != output.Human:
		return output.Print(f.Streams.Out, format, answers)
	}
	if found.words != "" {
		if _, err := fmt.Fprintln(f.Streams.Out, found.words); err != nil {
			return err
		}
	}
	for i := range answers {
		if err := answers[i].write(f.Streams.Out, f.Streams.OutStyle()); err != nil {
			return err
		}
	}
	return nil
}

// askOrDoor answers from what the caller may read, or has the manager answer. Not everybody may look
// at nodes and at the jobs of others: the manager may, and says of them what the reason needs. On a
// machine of several users it also knows their logins.
func askOrDoor(ctx context.Context, f *connection.Factory, reader client.Reader, namespace string, one subject) (Answer, error) {
	if f.AsksDoor() {
		return atDoor(ctx, f, namespace, one)
	}
	answer, err := ask(ctx, reader, explanation.Of, namespace, one)
	if apierrors.IsForbidden(err) {
		return atDoor(ctx, f, namespace, one)
	}
	return answer, err
}

// atDoor has the manager answer.
func atDoor(ctx context.Context, f *connection.Factory, namespace string, one subject) (Answer, error) {
	manager, err := f.Visitor()
	if err != nil {
		return Answer{}, err
	}
	var answer Answer
	err = manager.Ask(ctx, namespace, "/why/"+one.String(), nil, &answer)
	return answer, err
}

// Seen answers for a job, pod/NAME or gang/NAME of a namespace with the names that a caller
// sees.
func Seen(ctx context.Context, reader client.Reader, rule visibility.Rule, logins visibility.Logins, namespace, word string) (Answer, error) {
	one, err := parse(word)
	if err != nil {
		return Answer{}, err
	}
	seen := func(ctx context.Context, reader client.Reader, key scheduling.Key, pod bool) (scheduling.Explanation, error) {
		return explanation.Seen(ctx, reader, rule, logins, key, pod)
	}
	answer, err := ask(ctx, reader, seen, namespace, one)
	for i := range answer.Paused {
		answer.Paused[i].Login = rule.Queue(answer.Paused[i].Queue, logins)
	}
	return answer, err
}

// write puts the answer into lines.
func (a Answer) write(out io.Writer, style terminal.Style) error {
	if _, err := fmt.Fprintf(out, "%s %s: %s\n", style.Paint(terminal.Bold, a.Job), style.Phase(string(a.Phase), string(a.Phase)), a.Reason); err != nil {
		return err
	}
	if err := a.Write(out); err != nil {
		return err
	}
	for _, pause := range a.Paused {
		if _, err := fmt.Fprintf(out, "Nothing new starts: %s (`%s` ends it)\n", pause, pause.Remedy()); err != nil {
			return err
		}
	}
	return nil
}

// ask answers for one object.
func ask(ctx context.Context, reader client.Reader, explain explain, namespace string, one subject) (Answer, error) {
	switch one.kind {
	case kindJob:
		return askJob(ctx, reader, explain, namespace, one.name)
	case kindPod:
		return askPod(ctx, reader, explain, namespace, one.name)
	case kindGang:
		return askGang(ctx, reader, explain, namespace, one.name)
	}
	return Answer{}, exit.Usage("%s: give a training job, pod/NAME or gang/NAME", one)
}

// askJob answers for one job. Only while a job is to be placed does the scheduler
// know the reason; otherwise the job itself does.
func askJob(ctx context.Context, reader client.Reader, explain explain, namespace, name string) (Answer, error) {
	job, err := member.Job(ctx, reader, namespace, name)
	if err != nil {
		if u, is := unmade(ctx, reader, namespace, name, err); is {
			return Answer{Job: u.Reference(), Phase: v1alpha1.JobPhase(u.Phase), Code: u.Code, Reason: u.Sentence()}, nil
		}
		return Answer{}, err
	}
	answer := Answer{Job: name, Phase: job.Status.Phase, Code: job.Status.Reason, Reason: job.Status.Message}
	switch job.Status.Phase {
	case v1alpha1.JobPreparing, v1alpha1.JobSucceeded, v1alpha1.JobFailed:
	default:
		key := scheduling.Key{Namespace: namespace, Name: name}
		if err := answer.account(ctx, reader, explain, key, job.Status.Reason != "" && job.Status.Message != ""); err != nil {
			return Answer{}, err
		}
	}
	switch job.Status.Phase {
	case "", v1alpha1.JobPreparing, v1alpha1.JobWaiting:
		if answer.Paused, err = standstill.Of(ctx, reader, job.Spec.Queue); err != nil {
			return Answer{}, err
		}
	}
	if answer.Phase == "" {
		answer.Phase = "Accepted"
	}
	if answer.Reason == "" {
		answer.Reason = fallback(job)
	}
	return answer, nil
}

// account adds the scheduler's explanation of a gang. says reports whether the status has a
// reason.
func (a *Answer) account(ctx context.Context, reader client.Reader, explain explain, key scheduling.Key, says bool) error {
	x, err := explain(ctx, reader, key, false)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("explaining %s: %w", key.Name, err)
	}
	clock := snapshot.Clock(time.Now(), time.Local)
	a.Document = explanation.New(x, clock)
	if !says || !statusKnows(x.Reason) {
		a.Code, a.Reason, a.Details = string(x.Reason.Code()), x.Reason.Render(clock), explanation.Details(x.Reason)
	}
	return nil
}

// statusKnows reports whether the status, and not the scheduler, has the reason for the
// phase of a job or gang. The scheduler knows why one has no place. Controllers see why a
// placed one does not start, go on or end, and write it into the status.
func statusKnows(found scheduling.Reason) bool {
	switch found.(type) {
	case scheduling.Placed, scheduling.Draining, scheduling.Finished:
		return true
	}
	return false
}

// unmade returns the TFJob or PyTorchJob that there is in place of a training job.
func unmade(ctx context.Context, reader client.Reader, namespace, name string, missing error) (member.Unmade, bool) {
	if code, _ := exit.Of(missing); code != exit.Missing {
		return member.Unmade{}, false
	}
	foreign := member.Foreign(ctx, reader, namespace, name)
	if foreign == nil {
		return member.Unmade{}, false
	}
	return member.UnmadeOf(foreign)
}

// fallback is what a condition says, or what the phase means.
func fallback(job *v1alpha1.TrainingJob) string {
	for _, kind := range []string{v1alpha1.ConditionFinished, v1alpha1.ConditionScheduled, v1alpha1.ConditionPrepared} {
		if condition := meta.FindStatusCondition(job.Status.Conditions, kind); condition != nil && condition.Message != "" {
			return condition.Message
		}
	}
	if job.Status.Phase == "" {
		return "no controller has seen it yet; is Muster's controller running? See `muster status`"
	}
	return "nothing holds it up"
}
