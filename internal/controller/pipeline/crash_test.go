package pipeline

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/data/commit"
	"github.com/muster-dev/muster/internal/pipeline"
)

// lines is a pipeline whose first stage copies each file and notes that it did, and whose
// second puts them together; TRACE is where it notes that.
const lines = `
metadata: {name: lines}
spec:
  stages:
  - {name: copy, tries: 1, input: {dataset: things, glob: "/*"}, command: [sh, -c, 'echo $MUSTER_DATUM >> TRACE; grep -v bad $MUSTER_INPUT_THINGS/* > $MUSTER_OUTPUT/$MUSTER_DATUM']}
  - {name: all, input: {stage: copy}, command: [sh, -c, 'echo all >> TRACE; cat $MUSTER_INPUT_COPY/* > $MUSTER_OUTPUT/all']}
`

// single is its first stage alone.
var single, _, _ = strings.Cut(lines, "  - {name: all")

// model is a pipeline of a stage in a training job, and one that reads what that made.
const model = `
metadata: {name: model}
spec:
  stages:
  - name: train
    input: {dataset: things}
    training: {roles: [{name: worker, replicas: 1, command: [sh, -c, 'echo trained >> TRACE; cat $MUSTER_INPUT_THINGS/* > $MUSTER_OUTPUT/model']}]}
  - name: use
    input: {stage: train}
    command: [sh, -c, 'echo used >> TRACE; cp $MUSTER_INPUT_TRAIN/model $MUSTER_OUTPUT/copy']
`

// courses are what happens to pipelines and must come to one end whichever write to the
// API server goes wrong.
var courses = map[string]func(c *course){
	"commits": func(c *course) {
		c.apply(c.text(lines))
		c.stands("lines", v1alpha1.PipelineReady)
		c.put("things", map[string]string{"a": "one\n", "b": "two\n"})
		c.ends("lines", v1alpha1.RunSucceeded)
		c.put("things", map[string]string{"c": "three\n"})
		c.ends("lines", v1alpha1.RunSucceeded)
		c.apply(c.text(strings.Replace(lines, "/all'", "/everything'", 1)))
		c.ends("lines", v1alpha1.RunSucceeded)
	},
	"a datum that fails": func(c *course) {
		c.fails = "b"
		c.put("things", map[string]string{"b": "bad\n"})
		c.apply(c.text(lines))
		c.ends("lines", v1alpha1.RunFailed)
		c.put("things", map[string]string{"a": "one\n", "b": "two\n"})
		c.ends("lines", v1alpha1.RunSucceeded)
	},
	"a datum that is left out": func(c *course) {
		c.fails = "b"
		c.put("things", map[string]string{"a": "one\n", "b": "bad\n"})
		c.apply(c.text(strings.Replace(single, "tries: 1", "tries: 1, onFailure: Collect", 1)))
		c.ends("lines", v1alpha1.RunSucceeded)
	},
	"again": func(c *course) {
		c.put("things", map[string]string{"a": "one\n", "b": "two\n"})
		c.apply(c.text(single))
		c.again(c.ends("lines", v1alpha1.RunSucceeded), "lines-again", "copy")
		c.until("it has run again", func() bool { return c.run("lines-again").Status.Phase == v1alpha1.RunSucceeded })
	},
	"training": func(c *course) {
		c.put("things", map[string]string{"a": "one\n", "b": "two\n"})
		c.apply(c.text(model))
		c.ends("model", v1alpha1.RunSucceeded)
	},
	"training that fails": func(c *course) {
		c.fails = "trained"
		c.put("things", map[string]string{"a": "one\n"})
		c.apply(c.text(strings.Replace(model, "cat", "exit 3; cat", 1)))
		c.ends("model", v1alpha1.RunFailed)
	},
	"training elsewhere": func(c *course) {
		c.elsewhere()
		c.put("things", map[string]string{"a": "one\n", "b": "two\n"})
		c.apply(c.text(strings.NewReplacer("replicas: 1", "replicas: 2", "/* > $MUSTER_OUTPUT/model'", "/* > $MUSTER_OUTPUT/model$INDEX'", "TRAIN/model", "TRAIN/model0").Replace(model)))
		c.ends("model", v1alpha1.RunSucceeded)
	},
	"a commit comes while it computes": func(c *course) {
		c.must(syscall.Mkfifo(c.trace+".gate", 0o600))
		c.put("things", map[string]string{"a": "one\n"})
		c.apply(c.text(waiting("read go < TRACE.gate")))
		c.until("it computes", func() bool { return c.there("waits") })
		c.put("things", map[string]string{"b": "another\n"})
		c.until("that is seen", func() bool { return strings.Contains(c.pipeline("lines").Status.Message, "follows") })
		c.must(os.WriteFile(c.trace+".gate", []byte("go\n"), 0))
		c.until("both have run", func() bool { return c.pipeline("lines").Status.Runs == 2 })
		c.ends("lines", v1alpha1.RunSucceeded)
	},
	"cancelled": func(c *course) {
		run := c.computes()
		run.Spec.Cancel = true
		c.must(c.server.Update(c.ctx, run))
		c.ends("lines", v1alpha1.RunCancelled)
		c.put("things", map[string]string{"a": "another\n"})
		c.ends("lines", v1alpha1.RunSucceeded)
	},
	"deleted": func(c *course) {
		run := c.computes()
		c.must(c.server.Delete(c.ctx, run))
		c.leaves()
		c.put("things", map[string]string{"a": "another\n"})
		c.ends("lines", v1alpha1.RunSucceeded)
	},
	"deleted while members train": func(c *course) {
		c.elsewhere()
		c.put("things", map[string]string{"a": "one\n"})
		c.apply(c.text(strings.NewReplacer("replicas: 1", "replicas: 2", "echo trained >> TRACE; ", "test $INDEX = 0 || { echo waits > TRACE.waits; exec sleep 1000; }; ").Replace(model)))
		c.until("a member trains and another has sent what it wrote", func() bool {
			return c.there("waits") && c.parts() > 0 && c.pipeline("model").Status.LastRun != ""
		})
		c.must(c.server.Delete(c.ctx, c.run(c.pipeline("model").Status.LastRun)))
		c.leaves()
	},
	"more than are kept": func(c *course) {
		c.put("things", map[string]string{"a": "one\n"})
		c.apply(c.text(strings.Replace(single, "spec:", "spec:\n  historyLimit: 1", 1)))
		c.ends("lines", v1alpha1.RunSucceeded)
		c.put("things", map[string]string{"b": "two\n"})
		c.ends("lines", v1alpha1.RunSucceeded)
		c.until("one run is kept", func() bool { return len(c.all()) == 1 })
	},
	"a dry run": func(c *course) {
		c.put("things", map[string]string{"a": "one\n"})
		c.apply(c.text(single))
		run := c.ends("lines", v1alpha1.RunSucceeded)
		run.Spec.DryRun = true
		c.again(run, "lines-dry")
		c.until("it has ended", func() bool { return Ended(c.run("lines-dry").Status.Phase) })
		c.wind(2 * dryRunTTL)
		c.until("it is gone", func() bool { return c.run("lines-dry") == nil })
	},
	"times": func(c *course) {
		c.apply(c.text(strings.Replace(single, `input: {dataset: things, glob: "/*"}`, `input: {name: things, cron: {schedule: "0 0 1 1 *"}, glob: "/*"}`, 1)))
		c.ends("lines", v1alpha1.RunSucceeded)
		c.wind(366 * 24 * time.Hour)
		c.ends("lines", v1alpha1.RunSucceeded)
	},
	"one reads another": func(c *course) {
		c.put("things", map[string]string{"a": "one\n"})
		c.apply(c.text(single))
		c.apply(c.text(`
metadata: {name: next}
spec: {stages: [{name: last, input: {dataset: lines-copy}, command: [sh, -c, 'echo last >> TRACE; cp $MUSTER_INPUT_LINES_COPY/* $MUSTER_OUTPUT']}]}
`))
		c.ends("lines", v1alpha1.RunSucceeded)
		c.ends("next", v1alpha1.RunSucceeded)
	},
	"a Secret that changes": func(c *course) {
		c.changing(fmt.Sprintf(said, ""))
	},
	"a Secret that changes, elsewhere": func(c *course) {
		c.elsewhere()
		c.changing(fmt.Sprintf(said, ""))
	},
	"a tag that moves when workers begin": func(c *course) {
		c.moving(c.text(single))
		c.ends("lines", v1alpha1.RunSucceeded)
	},
	"a tag that moves when members that train begin": func(c *course) {
		c.moving(c.text(model))
		c.ends("model", v1alpha1.RunSucceeded)
	},
	"a Secret that changes for members that train": func(c *course) {
		c.elsewhere()
		c.changing(saidTogether)
	},
}

// moving has the tag of the image name another one once workers begin in the one before.
func (c *course) moving(text string) {
	c.Helper()
	c.elsewhere()
	images := newTagged("sha256:a")
	c.images = images
	c.hired = func() bool {
		images.move("sha256:b")
		return true
	}
	c.put("things", map[string]string{"a": "one\n", "b": "two\n"})
	c.apply(text)
}

// changing has a Secret be another one before workers begin.
func (c *course) changing(text string) {
	c.Helper()
	c.token("one")
	c.hired = func() bool {
		if c.started == 0 {
			c.token("dos")
		}
		return true
	}
	c.put("things", map[string]string{"a": "1"})
	c.apply(text)
	c.ends("said", v1alpha1.RunSucceeded)
}

// waiting is a pipeline whose program does something first for files that do not say
// "another".
func waiting(does string) string {
	return strings.Replace(single, "echo $MUSTER_DATUM >> TRACE;", "echo $MUSTER_DATUM >> TRACE; grep -q another $MUSTER_INPUT_THINGS/* || { echo waits > TRACE.waits; "+does+"; };", 1)
}

// computes has a run compute, which does not end by itself.
func (c *course) computes() *v1alpha1.PipelineRun {
	c.Helper()
	c.put("things", map[string]string{"a": "one\n"})
	c.apply(c.text(waiting("exec sleep 1000")))
	c.until("it computes", func() bool { return c.there("waits") && c.pipeline("lines").Status.LastRun != "" })
	return c.run(c.pipeline("lines").Status.LastRun)
}

// TestEveryWriteMayFail runs every course once for each write of it and a way or two in
// which that write can go wrong: every sixth write in each way. With MUSTER_TEST_LONG each
// goes wrong in all of them, in short tests some in one of them, in turn.
func TestEveryWriteMayFail(t *testing.T) {
	for name, run := range courses {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clean := follow(t, run, fault{})
			want := map[loss]standing{}
			for _, l := range []loss{nothing, counts, reasons} {
				want[l] = clean.end(l)
			}
			if testing.Short() {
				everyWrite(t, run, want, 1, 13, func(at int) mishap { return mishaps[at%len(mishaps)] })
				return
			}
			step := 6
			if os.Getenv("MUSTER_TEST_LONG") != "" {
				step = 1
			}
			for i, how := range mishaps {
				t.Run(string(how), func(t *testing.T) {
					t.Parallel()
					everyWrite(t, run, want, 1+i%step, step, func(int) mishap { return how })
				})
			}
		})
	}
}

// everyWrite runs a course once for each write from the first to go wrong on, or one of so
// many, until there are no more.
func everyWrite(t *testing.T, run func(*course), want map[loss]standing, first, step int, how func(at int) mishap) {
	for at, more := first, true; more; at += step {
		f := fault{at: at, how: how(at)}
		more = false // where the test fails, or is not run
		t.Run(fmt.Sprintf("%s %d", f.how, at), func(t *testing.T) {
			c := follow(t, run, f)
			more = c.struck() != ""
			if diff := cmp.Diff(want[c.lost()], c.end(c.lost())); diff != "" {
				t.Errorf("where %s went wrong: %s", c.struck(), diff)
			}
		})
	}
}

// follow runs a course to its end.
func follow(t *testing.T, run func(*course), f fault) *course {
	c := newCourse(t, f)
	run(c)
	c.leaves()
	return c
}

// standing is how everything stands at the end of a course.
type standing struct {
	// Runs are the runs, as their statuses say.
	Runs []string
	// Heads are how many commits outputs have and Files what is in them.
	Heads map[string]int
	Files map[string]map[string]string
	// Results are how many there are.
	Results map[string]int
	// Computed is how often each datum was.
	Computed map[string]int
}

// loss is what a death takes with it: of a datum that failed.
type loss int

const (
	nothing loss = iota
	// counts: the failure was recorded, and an output that leaves the datum out is committed
	// again.
	counts
	// reasons: it was not recorded. The datum is tried again, and the process that comes after
	// does not know why it failed.
	reasons
)

// lost is what was lost in this course.
func (c *course) lost() loss {
	switch {
	case c.fails == "" || !c.fault.how.deadly() || c.struck() == "":
		return nothing
	case c.recorded:
		return counts
	}
	return reasons
}

// end is how everything stands now, without what may be lost.
func (c *course) end(lost loss) standing {
	c.Helper()
	s := standing{Heads: map[string]int{}, Files: map[string]map[string]string{}, Computed: traced(c.t, c.trace)}
	for _, run := range c.all() {
		if lost == reasons {
			forgets(&run.Status)
		}
		s.Runs = append(s.Runs, c.says(&run))
	}
	list := &v1alpha1.DatasetList{}
	c.must(c.server.List(c.ctx, list))
	for i := range list.Items {
		switch d := &list.Items[i]; {
		case len(d.Spec.Branches) == 0:
		case d.Name == ResultsDataset:
			s.Results = c.results()
		case !strings.HasPrefix(d.Name, "muster-"):
			s.Files[d.Name] = c.files(d.Name)
			c.must(c.dataset(d.Name).Log(c.ctx, "main", func(commit.Commit) error { s.Heads[d.Name]++; return nil }))
		}
	}
	if lost >= counts {
		clear(s.Heads)
	}
	if lost == reasons {
		delete(s.Computed, c.fails)
	}
	return s
}

// forgets leaves out why a datum failed.
func forgets(status *v1alpha1.PipelineRunStatus) {
	status.Message, _, _ = strings.Cut(status.Message, "1 try: ")
	for i := range status.Stages {
		s := &status.Stages[i]
		s.Message, _, _ = strings.Cut(s.Message, "1 try: ")
	}
}

// results is how many there are of datums that were computed and that failed.
func (c *course) results() map[string]int {
	c.Helper()
	n := map[string]int{}
	for path := range c.files(ResultsDataset) {
		switch {
		case !strings.HasSuffix(path, "/"+pipeline.RecordFile):
		case strings.HasPrefix(path, "failed/"):
			n["failed"]++
		default:
			n["computed"]++
		}
	}
	return n
}

// says is what the status of a run says, without what differs from one course to another.
func (c *course) says(run *v1alpha1.PipelineRun) string {
	words := fmt.Sprintf("%s %d: %s %s: %s", run.Spec.Pipeline, run.Spec.Number, run.Status.Phase, run.Status.Done, run.Status.Message)
	for _, s := range run.Status.Stages {
		words += fmt.Sprintf("\n%s: %s: %+v: %s", s.Name, s.Phase, s.Datums, s.Message)
		if s.Output != nil {
			words += " in " + s.Output.Dataset
		}
	}
	return strings.ReplaceAll(words, run.Name, "RUN")
}

// leaves waits until nothing is left of runs that have ended or are gone, long after that.
func (c *course) leaves() {
	c.Helper()
	c.wind(2 * leaving)
	c.until("nothing is left", func() bool { return c.left() == "" })
}

// left says what is left of runs.
func (c *course) left() string {
	c.Helper()
	jobs := &v1alpha1.TrainingJobList{}
	c.must(c.server.List(c.ctx, jobs))
	for i := range jobs.Items {
		if phase := jobs.Items[i].Status.Phase; phase != v1alpha1.JobSucceeded && phase != v1alpha1.JobFailed {
			return "job " + jobs.Items[i].Name
		}
	}
	known, err := c.machine.Foreman.Known()
	c.must(err)
	if len(known) > 0 {
		return fmt.Sprintf("works %q", known)
	}
	if n := c.parts(); n > 0 {
		return fmt.Sprintf("what members wrote, of %d stages", n)
	}
	c.runs.mu.Lock()
	active := len(c.runs.active)
	c.runs.mu.Unlock()
	if active > 0 {
		return fmt.Sprintf("%d runs in memory", active)
	}
	if c.runs.desk.mu.Lock(); len(c.runs.desk.holders)+len(c.runs.desk.claims)+len(c.runs.desk.waiting) > 0 {
		defer c.runs.desk.mu.Unlock()
		return fmt.Sprintf("on the desk: %v", c.runs.desk.holders)
	}
	c.runs.desk.mu.Unlock()
	leases, err := filepath.Glob(filepath.Join(c.home, "store", "leases", "*"))
	c.must(err)
	if len(leases) > 0 {
		return fmt.Sprintf("%d leases", len(leases))
	}
	return ""
}

// parts is of how many stages the store has what members wrote.
func (c *course) parts() int {
	c.Helper()
	d := &v1alpha1.Dataset{}
	if err := c.server.Get(c.ctx, request(PartsDataset).NamespacedName, d); err != nil {
		c.must(client.IgnoreNotFound(err))
		return 0
	}
	return len(d.Spec.Branches)
}

// there says whether a program has made a file beside its trace.
func (c *course) there(name string) bool {
	_, err := os.Lstat(c.trace + "." + name)
	return err == nil
}

// text is a pipeline that knows where to note what it computes.
func (c *course) text(pipeline string) string { return strings.ReplaceAll(pipeline, "TRACE", c.trace) }

// all are the runs, in order.
func (c *course) all() []v1alpha1.PipelineRun {
	c.Helper()
	list := &v1alpha1.PipelineRunList{}
	c.must(c.server.List(c.ctx, list))
	slices.SortFunc(list.Items, func(a, b v1alpha1.PipelineRun) int { return pipeline.Order(&a, &b) })
	return list.Items
}
