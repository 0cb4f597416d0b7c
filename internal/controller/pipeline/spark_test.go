package pipeline

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/environment"
	"github.com/muster-dev/muster/internal/pipeline"
)

// sparked is the job of a Spark stage that is written so.
func sparked(t *testing.T, fields string, elsewhere bool) *v1alpha1.TrainingJob {
	t.Helper()
	spec := &v1alpha1.PipelineSpec{}
	text := "stages: [{name: count, input: {dataset: texts}, spark: {script: s.py, " + fields + "}]"
	if err := yaml.UnmarshalStrict([]byte(text), spec); err != nil {
		t.Fatal(err)
	}
	graph, err := pipeline.Parse("words", spec)
	if err != nil {
		t.Fatal(err)
	}
	run := &v1alpha1.PipelineRun{}
	run.Name = "words-1"
	w := &resolved{code: "sha256:c", java: "/jre"}
	if elsewhere {
		w.java = ""
		return (&Machine{Elsewhere: true}).sparkElsewhere(run, graph.Stages[0], w)
	}
	return sparkJob(run, graph.Stages[0], w, "/bin/muster", "/work/0")
}

// TestSparkJob: the driver's end is the job's, executors may come and go, and each
// member says what it asks for.
func TestSparkJob(t *testing.T) {
	for _, c := range []struct {
		name, fields string
		least, most  int32
		driver       string
		executor     string
		asks         corev1.ResourceList
	}{
		{
			"what nobody says", "}", 0, 1,
			"--script s.py --tries 3 --executor-heap 512 --heap 512 --", "--heap 512 --slots 1",
			corev1.ResourceList{"cpu": resource.MustParse("1"), "memory": resource.MustParse("1Gi")},
		},
		{
			"elastic, and larger", `args: [a, --b], executors: {min: 2, max: 5}, driverResources: {limits: {memory: 2Gi}}, resources: {requests: {cpu: "2"}, limits: {memory: 4Gi}}}, tries: 1, timeout: 90s`, 2, 5,
			"--script s.py --tries 1 --executor-heap 1920 --heap 896 --timeout 1m30s -- a --b", "--heap 1920 --slots 2",
			corev1.ResourceList{"cpu": resource.MustParse("2")},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			job := sparked(t, c.fields, false)
			driver, executor := &job.Spec.Roles[0], &job.Spec.Roles[1]
			least := int32(0)
			if executor.MinReplicas != nil {
				least = *executor.MinReplicas
			}
			if *driver.Replicas != 1 || *executor.Replicas != c.most || least != c.least || len(job.Spec.DoneWhen) != 1 || job.Spec.DoneWhen[0] != driver.Name {
				t.Errorf("%d and %d..%d members, done when %v", *driver.Replicas, least, *executor.Replicas, job.Spec.DoneWhen)
			}
			if diff := cmp.Diff(c.asks, executor.Resources.Requests); diff != "" {
				t.Errorf("executors ask for: %s", diff)
			}
			for role, want := range map[*v1alpha1.Role]string{
				driver:   "/bin/muster spark driver --datum /work/0 --python python3 " + c.driver,
				executor: "/bin/muster spark executor --datum /work/0 --python python3 " + c.executor,
			} {
				if got := strings.Join(role.Command, " "); got != want {
					t.Errorf("%s runs\n%s, want\n%s", role.Name, got, want)
				}
			}
			env := map[string]string{}
			for _, v := range job.Spec.Env {
				env[v.Name] = v.Value
			}
			if diff := cmp.Diff(map[string]string{"MUSTER_INPUT_TEXTS": "/work/0/in/texts", "MUSTER_OUTPUT": "/work/0/out", "JAVA_HOME": "/jre"}, env); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestSparkJobElsewhere: all members begin anew together as often as the script is tried;
// executors beyond the least may go and come.
func TestSparkJobElsewhere(t *testing.T) {
	job := sparked(t, `args: [a], executors: {min: 2, max: 5}}, tries: 4, mountPath: /pfs`, true)
	driver, executor := &job.Spec.Roles[0], &job.Spec.Roles[1]
	if job.Spec.Restart != v1alpha1.RestartScopeGang || *job.Spec.BackoffLimit != 3 || *executor.Replicas != 5 || *executor.MinReplicas != 2 {
		t.Errorf("restarts %s, %d times; %d executors, at least %d", job.Spec.Restart, *job.Spec.BackoffLimit, *executor.Replicas, *executor.MinReplicas)
	}
	const member = "/muster/foreman/muster-worker member --post /muster/foreman --work .count --datum /muster/datum --grace "
	for role, want := range map[*v1alpha1.Role]string{
		driver: member + "30s --mount /pfs --leads -- /muster/foreman/muster-worker spark driver --leaves --apart --scratch /muster/spark --datum /muster/datum --python python3" +
			" --script s.py --tries 1 --executor-heap 512 --heap 512 -- a",
		executor: member + "120s --mount /pfs --follows --leaves -- /muster/foreman/muster-worker spark executor --leaves --apart --scratch /muster/spark --datum /muster/datum --python python3 --heap 512 --slots 1",
	} {
		if got := strings.Join(role.Command, " "); got != want || role.RestartPolicy != v1alpha1.RestartOnFailure {
			t.Errorf("%s (%s) runs\n%s, want\n%s", role.Name, role.RestartPolicy, got, want)
		}
	}
}

// TestSparkInImages: members in images on one machine share the folder of the datum, which
// they may write to whoever they are, and are started by the program for images.
func TestSparkInImages(t *testing.T) {
	spec := &v1alpha1.PipelineSpec{}
	if err := yaml.UnmarshalStrict([]byte("stages: [{name: count, input: {dataset: texts}, environment: {image: box:1}, mountPath: /pfs, spark: {script: s.py}}]"), spec); err != nil {
		t.Fatal(err)
	}
	graph, err := pipeline.Parse("words", spec)
	if err != nil {
		t.Fatal(err)
	}
	work := t.TempDir()
	run, datum, m := &v1alpha1.PipelineRun{}, filepath.Join(work, "0"), &Machine{Worker: "/opt/muster/muster-worker"}
	for _, name := range []string{"out", "in/texts"} {
		if err := os.MkdirAll(filepath.Join(datum, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	run.Name = "words-1"
	job, err := m.sparkInImages(run, graph.Stages[0], &resolved{code: "sha256:c", setting: setting{apart: true}}, datum)
	if err != nil {
		t.Fatal(err)
	}
	for role, want := range map[*v1alpha1.Role]string{
		&job.Spec.Roles[0]: "/muster/bin/muster-worker spark driver --own --scratch /muster/spark --datum /muster/datum --python python",
		&job.Spec.Roles[1]: "/muster/bin/muster-worker spark executor --scratch /muster/spark --datum /muster/datum --python python",
	} {
		if got := strings.Join(role.Command, " "); !strings.HasPrefix(got, want) {
			t.Errorf("%s runs\n%s, want\n%s", role.Name, got, want)
		}
		mounts, volumes := map[string]string{}, map[string]string{}
		for _, v := range role.Template.Spec.Volumes {
			volumes[v.Name] = "of its own"
			if v.HostPath != nil {
				volumes[v.Name] = v.HostPath.Path
			}
		}
		for _, mount := range role.Template.Spec.Containers[0].VolumeMounts {
			mounts[mount.MountPath] = volumes[mount.Name]
		}
		if diff := cmp.Diff(map[string]string{"/muster/spark": "of its own", "/muster/bin": "/opt/muster", "/muster/datum": datum, "/pfs": filepath.Join(work, "shown")}, mounts); diff != "" {
			t.Errorf("%s sees: %s", role.Name, diff)
		}
	}
	for name, want := range map[string]string{"texts": "/muster/datum/in/texts", "out": "/muster/datum/out"} {
		if to, err := os.Readlink(filepath.Join(work, "shown", name)); err != nil || to != want {
			t.Errorf("%s below /pfs leads to %q, %v", name, to, err)
		}
	}
	for folder, want := range map[string]os.FileMode{"": 0o777, "out": 0o777} {
		if info, err := os.Stat(filepath.Join(datum, folder)); err != nil || info.Mode().Perm() != want {
			t.Errorf("%q: %v, %v", folder, info.Mode(), err)
		}
	}
}

// Members of a Spark stage that share nothing: what executors wrote until the driver was
// done is the output; what the driver says of why it failed is why the stage did.
func TestSparkElsewhere(t *testing.T) {
	const executor = `mkdir $MUSTER_OUTPUT/t; cat $MUSTER_INPUT_TEXTS/a > $MUSTER_OUTPUT/t/$INDEX; trap 'exit 143' TERM; touch GATE/$INDEX; while :; do sleep 0.02; done`
	const waits = `until [ -e GATE/0 -a -e GATE/1 ]; do sleep 0.02; done; `
	for name, c := range map[string]struct {
		driver, executor, says string
		phase                  v1alpha1.RunPhase
		want                   map[string]string
	}{
		"whole":            {waits + `mkdir $MUSTER_OUTPUT/t; echo said > $MUSTER_OUTPUT/../log`, executor, "computed", v1alpha1.RunSucceeded, map[string]string{"t/0": "1", "t/1": "1"}},
		"links to inputs":  {waits + `ln -s $MUSTER_INPUT_TEXTS/a $MUSTER_OUTPUT/l; ln -s l $MUSTER_OUTPUT/m`, executor, "computed", v1alpha1.RunSucceeded, map[string]string{"t/0": "1", "t/1": "1", "l": "1", "m": "-> l"}},
		"a link elsewhere": {waits + `ln -s /etc/shadow $MUSTER_OUTPUT/l`, executor, "/etc/shadow", v1alpha1.RunFailed, nil},
		"the script fails": {waits + `echo '{"exit":7,"error":"the script s.py gave up"}' > $MUSTER_OUTPUT/../outcome.json; exit 7`, executor, "the script s.py gave up", v1alpha1.RunFailed, nil},
		"at one path":      {waits, `echo $INDEX > $MUSTER_OUTPUT/t; ` + strings.Replace(executor, "mkdir $MUSTER_OUTPUT/t; cat $MUSTER_INPUT_TEXTS/a > $MUSTER_OUTPUT/t/$INDEX;", "", 1), "executor/0 and executor/1 both wrote t", v1alpha1.RunFailed, nil},
		"without Java":     {`while :; do sleep 0.02; done`, `echo '{"exit":-2,"error":"no Java was found"}' > $MUSTER_OUTPUT/../outcome.json; exit 1`, "cannot run: no Java was found", v1alpha1.RunFailed, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := elsewhere(t, nil)
			gate := t.TempDir()
			r.instead = map[string]string{driverRole: strings.ReplaceAll(c.driver, "GATE", gate), executorRole: strings.ReplaceAll(c.executor, "GATE", gate)}
			r.put("texts", map[string]string{"a": "1"})
			r.apply(`
metadata: {name: words}
spec:
  stages:
  - name: count
    input: {dataset: texts}
    code: {snapshot: "sha256:c"}
    spark: {script: s.py, executors: {min: 2, max: 2}}
`)
			run := r.finish("words")
			if run.Status.Phase != c.phase || !strings.Contains(run.Status.Message, c.says) {
				t.Fatalf("%s: %s", run.Status.Phase, run.Status.Message)
			}
			if c.want != nil {
				if diff := cmp.Diff(c.want, r.files("words-count")); diff != "" {
					t.Error(diff)
				}
			}
			if heads, err := r.dataset(PartsDataset).Heads(r.ctx); err != nil || len(heads) > 0 {
				t.Errorf("what members wrote is left: %v, %v", heads, err)
			}
		})
	}
}

// ready is an environment that is there.
type ready string

func (r ready) EnsureFor(_ *v1alpha1.PipelineRun, _ []v1alpha1.Role, q environment.Request) environment.State {
	if q.Path != string(r) {
		return environment.State{Phase: environment.Failed, Message: "no environment " + q.Path}
	}
	return environment.State{Phase: environment.Ready, Path: q.Path}
}

// mapped has every image stand for an environment of the machine.
type mapped string

func (mapped) Check(string) error { return nil }

func (s mapped) Ensure(string, time.Time) ImageState { return ImageState{Host: true, Path: string(s)} }

// TestSparkOfWhatAnImageStandsFor: it is looked for in the environment of the machine that
// members will run with.
func TestSparkOfWhatAnImageStandsFor(t *testing.T) {
	r, folder := newRig(t, nil), t.TempDir()
	if err := os.Mkdir(filepath.Join(folder, "bin"), 0o700); err != nil {
		t.Fatal(err)
	}
	python := "#!/bin/sh\necho '{\"looked\": [\"what the image stands for\"]}'\n"
	if err := os.WriteFile(filepath.Join(folder, "bin", "python"), []byte(python), 0o700); err != nil {
		t.Fatal(err)
	}
	r.machine.Images, r.machine.Environments = mapped(folder), ready(folder)
	namespaces := map[string]bool{}
	r.machine.Run = func(ctx context.Context, namespace string, argv ...string) (string, error) {
		namespaces[namespace] = true
		out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).Output()
		return string(out), err
	}
	r.put("texts", map[string]string{"a": "1"})
	r.apply(`
metadata: {name: words}
spec:
  stages:
  - name: count
    input: {dataset: texts}
    code: {snapshot: "sha256:c"}
    environment: {image: "spark:1"}
    spark: {script: s.py}
`)
	run := r.finish("words")
	if run.Status.Phase != v1alpha1.RunFailed || !strings.Contains(run.Status.Message, "looks in what the image stands for") {
		t.Errorf("%s: %s", run.Status.Phase, run.Status.Message)
	}
	if len(namespaces) != 1 || !namespaces[space] {
		t.Errorf("the stage's program is run for the namespaces %v", namespaces)
	}
}

// TestNoSpark: what is missing is said before there is a job.
func TestNoSpark(t *testing.T) {
	t.Setenv("PYTHONPATH", "")
	r := newRig(t, nil)
	r.put("texts", map[string]string{"a": "1"})
	r.apply(`
metadata: {name: words}
spec:
  stages:
  - name: count
    input: {dataset: texts}
    code: {snapshot: "sha256:c"}
    env: [{name: JAVA_HOME, value: /nowhere}]
    spark: {script: s.py}
`)
	run := r.finish("words")
	if run.Status.Phase != v1alpha1.RunFailed || !strings.Contains(run.Status.Message, "stage count: spark: ") || r.started > 0 {
		t.Errorf("%s: %s, and %d jobs", run.Status.Phase, run.Status.Message, r.started)
	}
}

// TestSparkIsLookedForAgain: a Python that is killed, as by a machine that is short of
// memory, says nothing of the stage.
func TestSparkIsLookedForAgain(t *testing.T) {
	bin := t.TempDir()
	python := fmt.Sprintf("#!/bin/sh\nif [ ! -e %[1]s ]; then : > %[1]s; kill -9 $$; fi\necho '{}'\n", filepath.Join(bin, "asked"))
	if err := os.WriteFile(filepath.Join(bin, "python3"), []byte(python), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	r := newRig(t, nil)
	r.put("texts", map[string]string{"a": "1"})
	r.apply(`
metadata: {name: words}
spec:
  stages:
  - name: count
    input: {dataset: texts}
    code: {snapshot: "sha256:c"}
    spark: {script: s.py}
`)
	run := r.finish("words")
	if run.Status.Phase != v1alpha1.RunFailed || !strings.Contains(run.Status.Message, "has no pyspark") {
		t.Errorf("%s: %s, want what the second Python says", run.Status.Phase, run.Status.Message)
	}
}
