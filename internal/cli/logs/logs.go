// Package logs is the command `muster logs`: the output of a job's members, also of
// those that are gone, and of the pods of any other workload.
package logs

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/member"
	"github.com/muster-dev/muster/internal/cli/transcript"
)

type options struct {
	factory    *connection.Factory
	follow     bool
	role       string
	index      int
	since      string
	tail       int64
	timestamps bool
	previous   bool

	job    string
	member string
	from   time.Time
}

// New returns the command.
func New(f *connection.Factory) *cobra.Command {
	o := &options{factory: f}
	cmd := &cobra.Command{
		Use:   "logs JOB [MEMBER]|KIND/NAME [CONTAINER]",
		Short: "Print the output of a job's members, or of the pods of a workload",
		Long: `Prints the output of all members of a training job, merged by time, each line
after its member's name; a job with one member needs no names. Members that are
gone are read from the archive in the data folder. With -f it goes on until the
job has ended, and ends with the exit code that muster run would have.

Of a pod, a deployment, a Kubernetes Job, a service or another workload the
output of all containers is printed, one container after the other; with -f, as
it comes, until those that run now have ended.`,
		Example: `  muster logs -f mnist
  muster logs mnist worker-0 --tail 20
  muster logs mnist --role ps --since 10m
  muster logs deploy/web -f
  muster logs job/convert`,
		Args: usage(cobra.RangeArgs(1, 2), "logs of which job? Give its name, and a member's if only that is wanted: muster logs JOB [MEMBER]"),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return f.CompleteJobs(cmd.Context(), args), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if workload := o.workload(args); workload != nil {
				return o.runWorkload(cmd.Context(), *workload, args[1:], cmd.Flags().Changed("index"))
			}
			if err := o.complete(args, cmd.Flags().Changed("index")); err != nil {
				return err
			}
			return o.run(cmd.Context())
		},
	}
	cmd.Flags().BoolVarP(&o.follow, "follow", "f", false, "go on until the job has ended")
	cmd.Flags().StringVar(&o.role, "role", "", "only members of this role")
	cmd.Flags().IntVar(&o.index, "index", -1, "only members of this index in their role")
	cmd.Flags().StringVar(&o.since, "since", "", "only what is younger: 10m, 2h, or a time: 2006-01-02T15:04:05Z")
	cmd.Flags().Int64Var(&o.tail, "tail", -1, "only the last lines of each member; -1 for all")
	cmd.Flags().BoolVar(&o.timestamps, "timestamps", false, "begin every line with its time")
	cmd.Flags().BoolVarP(&o.previous, "previous", "p", false, "what members wrote before they were last restarted")
	return cmd
}

// usage makes a check of arguments say what is missing.
func usage(check cobra.PositionalArgs, words string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if check(cmd, args) != nil {
			return exit.Usage("%s", words)
		}
		return nil
	}
}

func (o *options) complete(args []string, indexGiven bool) error {
	var err error
	if o.job, o.member, err = member.Words(args); err != nil {
		return err
	}
	if err := o.check(time.Now()); err != nil {
		return err
	}
	switch {
	case o.member != "" && (o.role != "" || indexGiven):
		return exit.Usage("a member (%s) and --role or --index say the same thing in two ways: give one", o.member)
	case indexGiven && o.index < 0:
		return exit.Usage("--index %d: members are counted from 0", o.index)
	}
	if o.member != "" {
		m, ok := member.Parse(o.job, o.member)
		if !ok {
			return exit.Usage("%s: a member is named by role and index, such as worker-0", o.member)
		}
		o.role, o.index = m.Role, m.Index
	}
	return nil
}

// check refuses flags that make no sense for any logs.
func (o *options) check(now time.Time) (err error) {
	switch {
	case o.tail < -1:
		return exit.Usage("--tail %d: give a number of lines, or -1 for all", o.tail)
	case o.follow && o.previous:
		return exit.Usage("--previous and --follow do not go together: what is over cannot be followed")
	}
	o.from, err = parseSince(o.since, now)
	return err
}

// parseSince reads a duration before now, or a time.
func parseSince(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, nil
	}
	span, err := time.ParseDuration(text)
	if err != nil || span <= 0 {
		return time.Time{}, exit.Usage("--since %s: give a duration such as 10m, or a time such as %s", text, now.UTC().Format(time.RFC3339))
	}
	return now.Add(-span), nil
}

// want reports whether the user asked for the member.
func (o *options) want(m member.Member) bool {
	return (o.role == "" || m.Role == o.role) && (o.index < 0 || m.Index == o.index)
}

func (o *options) run(ctx context.Context) error {
	server, namespace, err := o.factory.Reach()
	if err != nil {
		return err
	}
	home, err := o.factory.DataFolder()
	if err != nil {
		return err
	}
	set, err := o.factory.Clientset()
	if err != nil {
		return err
	}
	job, err := member.Job(ctx, server, namespace, o.job)
	if err != nil {
		return err
	}
	members, err := o.chosen(job)
	if err != nil {
		return err
	}
	archive, err := transcript.ArchiveAt(ctx, o.factory, home, job)
	if err != nil {
		return err
	}
	source := transcript.Server{Set: set}
	printer := transcript.NewPrinter(o.factory.Streams.Out, o.factory.Streams.OutStyle(), members, o.timestamps)
	if o.follow && !ended(job) {
		attendance := transcript.Attendance{
			Client: server, Source: source, Archive: archive, Printer: printer, Job: job, Want: o.want, Since: o.from, Tail: o.tail,
			Lost: func(err error) {
				_, _ = fmt.Fprintf(o.factory.Streams.Err, "Lost contact, trying again: %v\n", err)
			},
		}
		outcome, err := attendance.Follow(ctx)
		return o.end(ctx, outcome, err)
	}
	pods, err := member.Pods(ctx, server, namespace, job.Name)
	if err != nil {
		return err
	}
	replay := transcript.Replay{Source: source, Archive: archive, Printer: printer, Job: job.Name, Pods: pods, Want: o.want, Since: o.from, Tail: o.tail, Previous: o.previous}
	shown, err := replay.Run(ctx)
	if err != nil {
		return err
	}
	if shown == 0 {
		return o.none(job)
	}
	if !o.follow {
		return nil
	}
	outcome := transcript.Outcome{Job: job, ExitCodes: map[member.Member]int32{}}
	for i := range pods {
		outcome.Learn(&pods[i])
	}
	return o.end(ctx, outcome, nil)
}

func ended(job *v1alpha1.TrainingJob) bool {
	return job.Status.Phase == v1alpha1.JobSucceeded || job.Status.Phase == v1alpha1.JobFailed
}

// chosen lists the members that are wanted; none is an error.
func (o *options) chosen(job *v1alpha1.TrainingJob) ([]member.Member, error) {
	var chosen []member.Member
	var names []string
	for _, m := range member.Of(job) {
		names = append(names, m.String())
		if o.want(m) {
			chosen = append(chosen, m)
		}
	}
	if len(chosen) > 0 {
		return chosen, nil
	}
	wanted := o.role
	if o.index >= 0 {
		wanted += "-" + strconv.Itoa(o.index)
	}
	return nil, member.None(job.Name, wanted, names)
}

// none says why there is no output yet.
func (o *options) none(job *v1alpha1.TrainingJob) error {
	phase := job.Status.Phase
	if phase == "" {
		phase = "accepted"
	}
	words := fmt.Sprintf("%s has written nothing yet; it is %s", job.Name, phase)
	if job.Status.Message != "" {
		words += ": " + job.Status.Message
	}
	if o.previous {
		words = job.Name + ": no earlier output is kept; no member was restarted"
	}
	_, err := fmt.Fprintln(o.factory.Streams.Err, words)
	return err
}

// end turns how the job ended into the command's exit code.
func (o *options) end(ctx context.Context, outcome transcript.Outcome, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return err
	case outcome.Deleted && !ended(outcome.Job):
		return exit.With(exit.Failure, errors.New(o.job+" was deleted before it had ended"))
	}
	if code := outcome.Code(); code != exit.OK {
		return exit.With(code, fmt.Errorf("%s failed: %s", o.job, outcome.Job.Status.Message))
	}
	return nil
}
