// Package plan is the command `muster plan`: place and time at which training jobs and pods would
// start, without creating them.
package plan

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/device"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/explanation"
	"github.com/muster-dev/muster/internal/cli/imagecheck"
	"github.com/muster-dev/muster/internal/cli/output"
	"github.com/muster-dev/muster/internal/cli/refusal"
	"github.com/muster-dev/muster/internal/cli/terminal"
	"github.com/muster-dev/muster/internal/scheduling"
	"github.com/muster-dev/muster/internal/snapshot"
	"github.com/muster-dev/muster/internal/visibility"
)

// Answer is what `muster plan -o json` prints.
type Answer struct {
	// Job is the training job's name.
	Job string `json:"job"`
	// Starts is true if it would start at once.
	Starts bool `json:"starts"`
	// Members are where its members would go, if it would.
	Members []Member `json:"members,omitempty"`
	// Evictions are what would have to make room for it.
	Evictions []Eviction `json:"evictions,omitempty"`
	// Code names the kind of reason, for programs.
	Code string `json:"code"`
	// Reason is the reason in a sentence.
	Reason string `json:"reason"`
	// Details are the reason's figures.
	Details any `json:"details,omitempty"`
	// Document is its turn, when it is expected to start, and what would start
	// it sooner.
	explanation.Document
	// refused is true for work that the machine would refuse.
	refused bool
}

// Member is where a member would go.
type Member struct {
	Role  string   `json:"role"`
	Index int32    `json:"index"`
	Node  string   `json:"node"`
	GPUs  []string `json:"gpus,omitempty"`
	// Share is how much of the GPU; absent: all of it.
	Share *v1alpha1.GPUShare `json:"share,omitempty"`
}

// Eviction is what would have to make room.
type Eviction struct {
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	// User is whose it is, where its namespace and name are not shown.
	User string `json:"user,omitempty"`
	// Cause is why that is right.
	Cause string `json:"cause"`
	// LostSeconds is by how much its work would be thrown back.
	LostSeconds int64 `json:"lostSeconds"`
}

type options struct {
	factory *connection.Factory
	format  *output.Format
	file    string
}

// New returns the command.
func New(f *connection.Factory) *cobra.Command {
	o := &options{factory: f}
	cmd := &cobra.Command{
		Use:   "plan -f FILE",
		Short: "Say where and when training jobs and pods would start",
		Long: `Says where a training job would start now, and what would have to make room for
it; or why it would wait, when it could be expected to start, and the smallest
changes with which it would start at once. Nothing is created and nothing is
kept free.

A TFJob or PyTorchJob is planned as the training job that Muster makes of it,
and a pod, a Deployment, a StatefulSet or a Kubernetes Job by its pods, if they
are for Muster's scheduler: on a cluster those with schedulerName: muster.
Earlier objects of a file come first; other kinds are skipped. On one machine
the answer also names an image that this machine cannot run.`,
		Example: `  muster plan -f job.yaml
  muster run --dry-run -o yaml --gpus 4 -- python train.py | muster plan -f -`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.file == "" {
				return exit.Usage("plan what? Give a training job: muster plan -f job.yaml")
			}
			if err := o.format.Validate(output.JSON, output.YAML); err != nil {
				return err
			}
			return o.run(cmd.Context())
		},
	}
	o.format = output.Flag(cmd, output.JSON, output.YAML)
	cmd.Flags().StringVarP(&o.file, "filename", "f", "", "file or folder with training jobs or pods, - for standard input")
	_ = cmd.MarkFlagFilename("filename", "yaml", "yml", "json")
	return cmd
}

func (o *options) run(ctx context.Context) error {
	works, err := read(o.factory.Streams.In, o.file, o.factory.Embedded())
	if err != nil {
		return err
	}
	server, namespace, err := o.factory.Reach()
	if err != nil {
		return err
	}
	machine := imagecheck.Of(o.factory)
	for i := range works {
		works[i].refused = machine.Refusal(works[i].images)
		for _, note := range works[i].notes {
			_, _ = fmt.Fprintf(o.factory.Streams.Err, "%s: without effect: %s\n", works[i].at, note)
		}
		if err := works[i].check(ctx, server, namespace); err != nil {
			return err
		}
	}
	answers, err := plan(ctx, server, works, time.Now())
	if apierrors.IsForbidden(err) {
		// Not everybody may look at nodes and at the jobs of others.
		answers, err = o.atDoor(ctx, works)
	}
	if err != nil {
		return err
	}
	return o.print(answers)
}

func (o *options) print(answers []Answer) error {
	switch {
	case *o.format != output.Human && len(answers) == 1:
		return output.Print(o.factory.Streams.Out, *o.format, answers[0])
	case *o.format != output.Human:
		return output.Print(o.factory.Streams.Out, *o.format, answers)
	}
	for _, answer := range answers {
		if err := answer.write(o.factory.Streams.Out, o.factory.Streams.OutStyle()); err != nil {
			return err
		}
	}
	return nil
}

// plan decides on the current state and on work that the server would accept.
func plan(ctx context.Context, reader client.Reader, works []work, now time.Time) ([]Answer, error) {
	return decide(ctx, reader, works, now, visibility.Everything(), nil)
}

// atDoor has the manager answer somebody who may not look at the whole cluster.
func (o *options) atDoor(ctx context.Context, works []work) ([]Answer, error) {
	for _, w := range works {
		if w.job == nil {
			return nil, exit.With(exit.Failure, fmt.Errorf("%s: you may not list the nodes and the pods of all namespaces, which plan needs for a pod; for a training job it needs only the right to create it", w.at))
		}
	}
	manager, err := o.factory.Visitor()
	if err != nil {
		return nil, err
	}
	if len(works) > 1 {
		_, _ = fmt.Fprintln(o.factory.Streams.Err, "Each job is planned as if the others were not there.")
	}
	answers := make([]Answer, len(works))
	for i, w := range works {
		if w.refused != "" {
			answers[i] = refusedAnswer(w.job.Name, w.refused)
			continue
		}
		if err := manager.Ask(ctx, w.job.Namespace, "/plan", w.job, &answers[i]); err != nil {
			return nil, err
		}
	}
	return answers, nil
}

// exceeded is part of the API server's message for an object that exceeds a quota
// (k8s.io/apiserver, pkg/admission/plugin/resourcequota).
const exceeded = "exceeded quota"

// Seen answers for a job of a user, with the names that a caller sees; an empty user is
// nobody in particular. Nothing is believed of the job but what the server would take, and
// least of all whose it is.
func Seen(ctx context.Context, reader client.Reader, server client.Client, rule visibility.Rule, logins visibility.Logins, user string, job *v1alpha1.TrainingJob) (Answer, error) {
	checked := job.DeepCopy()
	// Under another name: one of its own may be there already.
	checked.ObjectMeta = metav1.ObjectMeta{Namespace: job.Namespace, GenerateName: "plan-", Labels: job.Labels}
	if err := server.Create(ctx, checked, client.DryRunAll); err != nil {
		if apierrors.IsForbidden(err) && strings.Contains(err.Error(), exceeded) {
			err = exit.With(exit.Failure, refusal.Explain(job.Name, err)) // the job would be refused, too
		}
		return Answer{}, fmt.Errorf("checking %s: %w", job.Name, err)
	}
	checked.ObjectMeta = submitted(job, user)
	answers, err := decide(ctx, reader, []work{{at: job.Name, job: checked}}, time.Now(), rule, logins)
	if err != nil {
		return Answer{}, err
	}
	return answers[0], nil
}

// submitted is what a job is called that a user submits.
func submitted(job *v1alpha1.TrainingJob, user string) metav1.ObjectMeta {
	out := metav1.ObjectMeta{Namespace: job.Namespace, Name: job.Name, Labels: job.Labels, Annotations: maps.Clone(job.Annotations)}
	delete(out.Annotations, v1alpha1.AnnotationSubmitter)
	delete(out.Annotations, v1alpha1.AnnotationAuthenticated)
	if user != "" {
		metav1.SetMetaDataAnnotation(&out, v1alpha1.AnnotationSubmitter, user)
		metav1.SetMetaDataAnnotation(&out, v1alpha1.AnnotationAuthenticated, "true")
	}
	return out
}

// decide decides on work that the server would accept, and on the current state with the names that
// a caller sees. Work that is earlier in the list counts as created earlier.
func decide(ctx context.Context, reader client.Reader, works []work, now time.Time, rule visibility.Rule, logins visibility.Logins) ([]Answer, error) {
	with := &joined{Reader: reader}
	var planned []unit
	for i := range works {
		to := with
		if works[i].refused != "" && works[i].job != nil {
			to = &joined{} // it fails, and takes no place of the others; a pod stays on its node
		}
		units, err := to.add(&works[i], metav1.NewTime(now.Add(time.Duration(i-len(works)+1)*time.Millisecond)))
		if err != nil {
			return nil, err
		}
		for k := range units {
			units[k].refused = works[i].refused
		}
		planned = append(planned, units...)
	}
	s, err := snapshot.Take(ctx, with, now)
	if err != nil {
		return nil, err
	}
	s, mask := snapshot.Redact(s, rule, logins)
	answers := make([]Answer, 0, len(planned))
	for _, u := range planned {
		if u.refused != "" {
			answers = append(answers, refusedAnswer(u.name, u.refused))
			continue
		}
		preview, ok := scheduling.NewCore(scheduling.Options{}).Preview(s, string(u.uid))
		if !ok {
			return nil, fmt.Errorf("planning %s: the scheduler knows too little of it yet", u.name)
		}
		preview.Explanation = mask.Explanation(preview.Explanation)
		for i := range preview.Evictions {
			if mask.Key != nil {
				preview.Evictions[i].Key = mask.Key(preview.Evictions[i].Key)
			}
		}
		answers = append(answers, answerOf(u.name, preview, snapshot.Clock(now, time.Local)))
	}
	return answers, nil
}

// refusedAnswer is the answer for work that the machine would refuse, wherever there is place for it.
func refusedAnswer(name, why string) Answer {
	return Answer{Job: name, Code: string(scheduling.CodeUnsupported), Reason: why, refused: true}
}

// answerOf puts a preview into the answer's terms.
func answerOf(job string, p scheduling.Preview, clock scheduling.Clock) Answer {
	a := Answer{
		Job: job, Starts: p.Plan != nil, Code: string(p.Reason.Code()), Reason: p.Reason.Render(clock), Details: explanation.Details(p.Reason),
		Document: explanation.New(p.Explanation, clock),
	}
	if p.Plan != nil {
		for _, m := range p.Plan.Members {
			one := Member{Role: m.Role, Index: m.Index, Node: m.Node, GPUs: m.GPUs}
			if m.Share != (scheduling.Share{}) {
				one.Share = &v1alpha1.GPUShare{Milli: int32(m.Share.Milli), MemoryMiB: m.Share.MiB}
			}
			a.Members = append(a.Members, one)
		}
	}
	for _, e := range p.Evictions {
		one := Eviction{Namespace: e.Namespace, Name: e.Name, Cause: string(e.Cause), LostSeconds: int64(time.Duration(e.Lost) / time.Second)}
		if e.Name == "" {
			one.Namespace, one.User = "", e.Namespace
		}
		a.Evictions = append(a.Evictions, one)
	}
	return a
}

// write puts the answer into lines.
func (a Answer) write(out io.Writer, style terminal.Style) error {
	head := style.Paint(terminal.Bold, a.Job)
	if a.refused {
		_, err := fmt.Fprintf(out, "%s would not start: %s\n", head, a.Reason)
		return err
	}
	if !a.Starts {
		if _, err := fmt.Fprintf(out, "%s would wait: %s\n", head, a.Reason); err != nil {
			return err
		}
		for _, e := range a.Evictions {
			what := e.Namespace + "/" + e.Name
			if e.User != "" {
				what = "a job of " + e.User
			}
			if _, err := fmt.Fprintf(out, "  Stopped for it: %s, which would lose %s of work\n", what, terminal.Span(time.Duration(e.LostSeconds)*time.Second)); err != nil {
				return err
			}
		}
		return a.Write(out)
	}
	if _, err := fmt.Fprintf(out, "%s would start now\n", head); err != nil {
		return err
	}
	table := terminal.NewTable("MEMBER", "NODE", "GPUS")
	for _, m := range a.Members {
		gpus := "-"
		if len(m.GPUs) > 0 {
			gpus = cmp.Or(device.Counted(m.GPUs), strings.Join(m.GPUs, ","))
			if text := (device.Holder{Share: m.Share}).ShareText(); text != "" {
				gpus = text + " of " + gpus
			}
		}
		name := fmt.Sprintf("%s-%d", m.Role, m.Index)
		if pod, alone := strings.CutPrefix(a.Job, podPrefix); alone {
			name = pod
		}
		table.Row(name, m.Node, gpus)
	}
	return table.Write(out, style, "  ")
}
