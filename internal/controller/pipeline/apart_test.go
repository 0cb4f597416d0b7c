package pipeline

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/foreman"
	"github.com/muster-dev/muster/internal/pipeline"
)

// inImageSpec is a pipeline whose program runs in an image.
func inImageSpec(image string) string {
	return fmt.Sprintf(`
metadata: {name: boxed}
spec:
  stages:
  - name: upper
    input: {dataset: things, glob: "/*"}
    environment: {image: %q}
    gpus: 1
    parallelism: {max: 2}
    mountPath: /pfs
    command: [sh, -c, 'echo said; tr a-z A-Z < $MUSTER_INPUT_THINGS/$(ls $MUSTER_INPUT_THINGS) > $MUSTER_OUTPUT/$(ls $MUSTER_INPUT_THINGS)']
`, image)
}

// A stage in an image: its workers are carried their files.
func TestInImage(t *testing.T) {
	r := newRig(t, nil)
	r.put("things", map[string]string{"a": "one", "b": "two"})
	// The folder that its pods would mount is not at /pfs here, and is one for all of them: a
	// single worker shows its datum there.
	spec := strings.ReplaceAll(inImageSpec("box:1"), "mountPath: /pfs", "mountPath: "+t.TempDir())
	r.apply(strings.ReplaceAll(spec, "parallelism: {max: 2}", "parallelism: {max: 1}"))
	if run := r.finish("boxed"); run.Status.Phase != v1alpha1.RunSucceeded {
		t.Fatalf("%s: %s", run.Status.Phase, run.Status.Message)
	}
	if diff := cmp.Diff(map[string]string{"a": "ONE", "b": "TWO"}, r.files("boxed-upper")); diff != "" {
		t.Fatal(diff)
	}
}

// What counts is what is in the image, not how it is called.
func TestImageCounts(t *testing.T) {
	r := newRig(t, nil)
	r.put("things", map[string]string{"a": "one", "b": "two"})
	for _, c := range []struct {
		image    string
		computed int64
	}{{"box:1", 2}, {"same:2", 0}, {"box:3", 2}, {"host", 2}, {"box:1", 0}} {
		r.apply(strings.ReplaceAll(inImageSpec(c.image), "    mountPath: /pfs\n", ""))
		run := r.finish("boxed")
		if run.Status.Phase != v1alpha1.RunSucceeded || computed(run)["upper"] != c.computed {
			t.Errorf("%s: %s: %s; computed %v, want %d", c.image, run.Status.Phase, run.Status.Message, computed(run), c.computed)
		}
	}
	r.apply(inImageSpec("none:1"))
	if run := r.finish("boxed"); run.Status.Phase != v1alpha1.RunFailed || !strings.Contains(run.Status.Message, "no registry has none:1") {
		t.Errorf("%s: %s", run.Status.Phase, run.Status.Message)
	}
}

// What pods of such workers are shown: the program, the post, and a folder of their
// own; nothing else of the machine.
func TestApartJob(t *testing.T) {
	r := newRig(t, nil)
	r.hired = func() bool { return false }
	r.put("things", map[string]string{"a": "one"})
	r.apply(inImageSpec("box:1"))
	p := r.look("boxed")
	var job v1alpha1.TrainingJob
	key := types.NamespacedName{Namespace: space, Name: p.Status.LastRun + "-upper"}
	for r.server.Get(r.ctx, key, &job) != nil {
		if run := r.step(p.Status.LastRun); Ended(run.Status.Phase) {
			t.Fatalf("%s: %s", run.Status.Phase, run.Status.Message)
		}
	}
	role := &job.Spec.Roles[0]
	main := role.Template.Spec.Containers[0]
	mounts := map[string]string{}
	for _, m := range main.VolumeMounts {
		mounts[m.MountPath] = fmt.Sprint(m.Name, " ", m.ReadOnly)
	}
	want := map[string]string{"/pfs": "datum false", programDir: "bin true", postDir: "foreman true", scratchDir: "datums false"}
	if diff := cmp.Diff(want, mounts); diff != "" {
		t.Error(diff)
	}
	var folders []string
	for _, v := range role.Template.Spec.Volumes {
		if v.HostPath != nil {
			folders = append(folders, v.HostPath.Path)
		}
	}
	post := r.machine.Foreman.Post(workName(&v1alpha1.PipelineRun{}, "upper"))
	if len(folders) != 2 || folders[0] != path.Dir(r.machine.Worker) || path.Dir(folders[1]) != path.Dir(post) {
		t.Errorf("it is shown %v", folders)
	}
	if job.Spec.Environment.Image != "box:1" || main.ImagePullPolicy != corev1.PullIfNotPresent || role.Command[0] != programDir+"/muster-worker" {
		t.Errorf("%+v, %+v", job.Spec.Environment, role.Command)
	}
}

// A training stage in an image is shown the folder of its datum.
func TestTrainingInImage(t *testing.T) {
	r := newRig(t, nil)
	r.put("things", map[string]string{"a": "1", "b": "2"})
	r.apply(`
metadata: {name: model}
spec:
  stages:
  - name: train
    input: {dataset: things}
    training: {environment: {image: "box:1"}, roles: [{name: worker, command: [sh, -c, 'cat $MUSTER_INPUT_THINGS/* > $MUSTER_OUTPUT/model']}]}
`)
	run := r.finish("model")
	if diff := cmp.Diff(map[string]string{"model": "12"}, r.files("model-train")); diff != "" || run.Status.Phase != v1alpha1.RunSucceeded {
		t.Errorf("%s: %s: %s", run.Status.Phase, run.Status.Message, diff)
	}
}

// TestAppear: members that share the datum's folder see links to it at the path that the
// stage names, which lead to where they see it; a job that is made again, or by another
// Muster, finds them as they were for the first, whatever is there by then.
func TestAppear(t *testing.T) {
	for name, c := range map[string]struct{ fields, seen string }{
		"training on the machine": {`training: {roles: [{name: ps, command: [sh]}, {name: worker, command: [sh]}]}`, "DATUM"},
		"training in an image":    {`training: {environment: {image: "box:1"}, roles: [{name: ps, command: [sh]}, {name: worker, command: [sh]}]}`, datumDir},
		"Spark on the machine":    {`spark: {script: s.py}`, "DATUM"},
		"Spark in an image":       {`spark: {script: s.py}, environment: {image: "box:1"}`, datumDir},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			graph := graphOf(t, "input: {dataset: things}, mountPath: /pfs/, "+c.fields)
			s := &step{run: &v1alpha1.PipelineRun{}, stage: graph.Stages[0]}
			s.run.Namespace, s.run.Name, s.run.UID = space, "p-1", "u"
			w := &work{resolved: &resolved{setting: setting{apart: strings.Contains(name, "image")}}}
			w.spec.Datums = []foreman.Datum{{ID: "0"}}
			datum := filepath.Join(r.machine.Foreman.Folder(workName(s.run, s.stage.Name)), "0")
			for _, folder := range []string{"in/things", "out"} {
				r.must(os.MkdirAll(filepath.Join(datum, folder), 0o700))
			}
			for range 2 {
				job, err := r.runs.plainJob(s, w)
				r.must(err)
				at := shown(job, shownVolume)
				seen := strings.ReplaceAll(c.seen, "DATUM", datum)
				for link, want := range map[string]string{"things": seen + "/in/things", "out": seen + "/out"} {
					if to, err := os.Readlink(filepath.Join(at, link)); err != nil || to != want {
						t.Errorf("%s leads to %q, %v, want %q", link, to, err, want)
					}
				}
				for i := range job.Spec.Roles {
					mounts := job.Spec.Roles[i].Template.Spec.Containers[0].VolumeMounts
					if last := mounts[len(mounts)-1]; last.Name != shownVolume || last.MountPath != "/pfs" || !last.ReadOnly {
						t.Errorf("%s sees %+v", job.Spec.Roles[i].Name, mounts)
					}
				}
				r.must(os.Remove(filepath.Join(at, "out"))) // of the next one something else is there
				r.must(os.Mkdir(filepath.Join(at, "out"), 0o700))
			}
		})
	}
}

// graphOf is a pipeline of one stage, s, that is written so.
func graphOf(t *testing.T, stage string) *pipeline.Graph {
	t.Helper()
	p := &v1alpha1.Pipeline{}
	if err := yaml.UnmarshalStrict([]byte("metadata: {name: p}\nspec: {stages: [{name: s, "+stage+"}]}"), p); err != nil {
		t.Fatal(err)
	}
	graph, err := pipeline.Parse(p.Name, &p.Spec)
	if err != nil {
		t.Fatal(err)
	}
	return graph
}

// On a cluster the pods of workers are shown a volume of the agent, and nothing of
// the machine; what cannot be done there is refused in words.
func TestElsewhere(t *testing.T) {
	most := resource.MustParse("200Gi")
	m := &Machine{Elsewhere: true, Images: library{"box:1": "sha256:a"}, Scratch: most}
	parsed := func(stage string) (*pipeline.Graph, string) {
		t.Helper()
		p := &v1alpha1.Pipeline{}
		if err := yaml.UnmarshalStrict([]byte("metadata: {name: p}\nspec: {stages: [{name: s, input: {dataset: things}, "+stage+"}]}"), p); err != nil {
			t.Fatal(err)
		}
		return parse(p.Name, &p.Spec, m)
	}
	for stage, says := range map[string]string{
		"training: {roles: [{name: a, template: {spec: {containers: [{name: m, args: [x]}]}}}]}, environment: {image: box:1}": "training: role a names no program",
		"command: [x], environment: {image: box:1, requirements: numpy}":                                                      "environment: environments are not built from requirements on this cluster",
		"command: [x], environment: {image: box:1, path: /opt/env}":                                                           "environment.path: /opt/env is a folder of one machine",
		"command: [x], environment: {image: box:1, python: '3.11'}":                                                           "environment.python: the image box:1 has the Python that it has",
		"command: [x], environment: {requirements: numpy}":                                                                    "environment.image: it names none",
		"command: [x]": "environment.image: it names none",
	} {
		if _, problem := parsed(stage); !strings.Contains(problem, "Unsupported: "+says) {
			t.Errorf("%s: %q", stage, problem)
		}
	}
	graph, problem := parsed("command: [x], environment: {image: box:1}, gpus: 2")
	if problem != "" {
		t.Fatal(problem)
	}
	run := &v1alpha1.PipelineRun{}
	job := workersJob(run, graph.Stages[0], "", "muster", "/work", 3)
	m.apart(job, "uid.s", "", 2)
	role := &job.Spec.Roles[0]
	yes := true
	want := []corev1.Volume{
		{Name: "foreman", VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: v1alpha1.StageDriver, ReadOnly: &yes, VolumeAttributes: map[string]string{"work": "uid.s"}}}},
		{Name: "datums", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: &most}}},
	}
	if diff := cmp.Diff(want, role.Template.Spec.Volumes); diff != "" {
		t.Error(diff)
	}
	words := "/muster/foreman/muster-worker --post /muster/foreman --work uid.s --scratch /muster/datums --gpus 2"
	if got := strings.Join(role.Command, " "); got != words {
		t.Errorf("they run %q, want %q", got, words)
	}
	m.DefaultImage = "box:1"
	if _, problem := parsed("command: [x]"); problem != "" {
		t.Error(problem)
	}
}
