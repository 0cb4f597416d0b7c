package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/foreman/excerpt"
	"github.com/muster-dev/muster/internal/pipeline"
)

const training = `{metadata: {name: p}, spec: {stages: [{name: train, input: {dataset: in}%s, training: {framework: PyTorch, checkpoints: {none: true}%s,
	roles: [{name: worker, replicas: 1, command: [sh, -c, "echo made > $MUSTER_OUTPUT/model; exit %d"]}]}}]}}`

// keptLog is the log of the one datum of a run's stage, as the results have it.
func (r *rig) keptLog(run *v1alpha1.PipelineRun, stage string) string {
	r.Helper()
	view, err := r.dataset(ResultsDataset).At(r.ctx, "main")
	r.must(err)
	text := ""
	r.must(view.Walk(r.ctx, pipeline.DatumsPath(run.Name, stage), func(e data.Entry) error {
		from := strings.TrimLeft(e.Target, "./")
		file, err := view.Open(r.ctx, from+"/"+pipeline.LogFile)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		all, err := io.ReadAll(file)
		text = string(all)
		return errors.Join(err, file.Close())
	}))
	return text
}

// TestTranscript: the output of a training stage's members is the log of its datum, bounded, and
// the last lines are in the message of a failure. The job is tried as often as the stage says, and
// stays where it failed.
func TestTranscript(t *testing.T) {
	long := strings.Repeat("an epoch and its loss\n", 2<<20)
	for name, c := range map[string]struct {
		stage, job string
		exit       int
		print      func(to io.Writer) error
		log        string // in it
		message    string // in it
		restarts   int32
	}{
		"success": {exit: 0, print: printing("loss 0.1\n"), log: "loss 0.1\n", message: "1 datum computed", restarts: 2},
		"failure": {exit: 3, print: printing("loss 0.1\nValueError: no labels\n"), log: "ValueError", restarts: 2,
			message: "; its log ends with: loss 0.1 | ValueError: no labels; its log: muster pipeline logs "},
		"tries of its own": {stage: ", tries: 5", print: printing("x\n"), log: "x\n", restarts: 4},
		"the job's":        {stage: ", tries: 5", job: ", backoffLimit: 1", print: printing("x\n"), log: "x\n", restarts: 1},
		"long":             {exit: 1, print: printing(long), log: "[muster left out ", message: "an epoch and its loss", restarts: 2},
		"unreadable": {exit: 1, print: func(to io.Writer) error { return errors.Join(printing("begun\n")(to), errors.New("no node")) },
			log: "begun\n[muster cannot read the rest: no node]\n", message: "stage train: job ", restarts: 2},
		"hostile":     {exit: 1, print: printing("\x1b]0;x\x07\x00\xff\n"), log: "\x00\xff", message: "its log ends with: 0;x?;", restarts: 2},
		"silent":      {exit: 1, print: printing(""), message: "exit status 1: ; its log: ", restarts: 2},
		"only blanks": {exit: 1, print: printing("\n\n"), log: "\n\n", message: "exit status 1: ; its log: ", restarts: 2},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			r.machine.Transcript = func(_ context.Context, _ *v1alpha1.TrainingJob, to io.Writer) error { return c.print(to) }
			r.put("in", map[string]string{"f": "1"})
			r.apply(fmt.Sprintf(training, c.stage, c.job, c.exit))
			run := r.finish("p")
			if failed := run.Status.Phase == v1alpha1.RunFailed; failed != (c.exit != 0) || !strings.Contains(run.Status.Message, c.message) {
				t.Errorf("%s: %s", run.Status.Phase, run.Status.Message)
			}
			log := r.keptLog(run, "train")
			if !strings.Contains(log, c.log) || len(log) > excerpt.Most+200 {
				t.Errorf("%d bytes are kept: %.300q", len(log), log)
			}
			job := &v1alpha1.TrainingJob{}
			r.must(r.server.Get(r.ctx, types.NamespacedName{Namespace: space, Name: jobName(run, "train")}, job))
			if *job.Spec.BackoffLimit != c.restarts {
				t.Errorf("it may be started again %d times, want %d", *job.Spec.BackoffLimit, c.restarts)
			}
		})
	}
}

func printing(text string) func(io.Writer) error {
	return func(to io.Writer) error {
		_, err := io.WriteString(to, text)
		return err
	}
}

// TestTranscriptElsewhere: if members share no folder, they bring their output.
func TestTranscriptElsewhere(t *testing.T) {
	r := newRig(t, nil)
	r.machine.Elsewhere, r.machine.DefaultImage = true, "box:1"
	r.instead = map[string]string{"worker": "echo loss 0.1; echo 'ValueError: no labels' >&2; exit 3"}
	r.put("in", map[string]string{"f": "1"})
	r.apply(fmt.Sprintf(training, "", "", 0))
	run := r.finish("p")
	if want := "; worker/0: the program ended with exit code 3, and its log ends with: "; run.Status.Phase != v1alpha1.RunFailed || !strings.Contains(run.Status.Message, want) || !strings.Contains(run.Status.Message, "ValueError: no labels") {
		t.Errorf("%s: %s", run.Status.Phase, run.Status.Message)
	}
	if log := r.keptLog(run, "train"); !strings.Contains(log, "loss 0.1\n") || !strings.Contains(log, "ValueError: no labels\n") {
		t.Errorf("the log is %q", log)
	}
}
