package pipeline

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/foreman"
	"github.com/muster-dev/muster/internal/pipeline/programs"
)

// TestSharedMachine: no job of a stage has a folder of this machine where users share it, and each reaches
// the foreman by a post, at paths that hold in both tiers.
func TestSharedMachine(t *testing.T) {
	r := newRig(t, nil)
	m := r.machine
	m.Shared, m.Images = true, library{"box:1": "sha256:a"}
	for name, c := range map[string]struct {
		stage string
		apart bool
		env   string // the value of MUSTER_OUTPUT in the job; empty: the worker sets it
	}{
		"a command":         {"command: [x]", false, ""},
		"a command, images": {"command: [x], environment: {image: box:1}", true, ""},
		"training":          {"training: {roles: [{name: a, replicas: 2, command: [x]}]}", false, "$(MUSTER_ROOT)/datum/out"},
		"training, images":  {"training: {roles: [{name: a, replicas: 2, command: [x]}]}, environment: {image: box:1}", true, "$(MUSTER_ROOT)/datum/out"},
		"Spark":             {"code: {snapshot: 'sha256:ab'}, spark: {script: a.py}", false, "$(MUSTER_ROOT)/datum/out"},
	} {
		t.Run(name, func(t *testing.T) {
			graph := graphOf(t, "input: {dataset: things}, "+c.stage)
			if says := m.cannot(graph.Stages[0]); says != "" {
				t.Fatal(says)
			}
			run, stage := &v1alpha1.PipelineRun{}, graph.Stages[0]
			run.Name, run.UID = "p-1", "uid"
			w := &work{run: run, stage: stage, resolved: &resolved{setting: setting{apart: c.apart}}}
			w.spec.Datums = append(w.spec.Datums, foreman.Datum{ID: "d"})
			job, err := (&Runs{deps: Deps{Machine: m}}).plainJob(&step{run: run, stage: stage}, w)
			if err != nil {
				t.Fatal(err)
			}
			for i := range job.Spec.Roles {
				role := &job.Spec.Roles[i]
				if words := strings.Join(role.Command, " "); !strings.HasPrefix(words, "$(MUSTER_ROOT)/foreman/muster-worker ") || !strings.Contains(words, "--post $(MUSTER_ROOT)/foreman ") {
					t.Errorf("role %s runs %q", role.Name, words)
				}
				posts := 0
				for _, v := range role.Template.Spec.Volumes {
					if v.HostPath != nil {
						t.Errorf("role %s sees %s of the machine", role.Name, v.HostPath.Path)
					}
					if v.CSI != nil && v.CSI.Driver == v1alpha1.StageDriver {
						posts++
					}
				}
				if posts != 1 {
					t.Errorf("role %s has %d posts", role.Name, posts)
				}
			}
			env := ""
			for _, v := range job.Spec.Env {
				if v.Name == "MUSTER_OUTPUT" {
					env = v.Value
				}
			}
			if env != c.env {
				t.Errorf("MUSTER_OUTPUT=%q, want %q", env, c.env)
			}
		})
	}
	ontop := graphOf(t, "input: {dataset: things}, command: [x], environment: {image: box:1, requirements: numpy}")
	if says := m.cannot(ontop.Stages[0]); !strings.Contains(says, "on top of the image box:1 where users share one Muster") {
		t.Errorf("packages on top of an image: %q", says)
	}
	wordless := graphOf(t, "input: {dataset: things}, training: {roles: [{name: a, template: {spec: {containers: [{name: m, args: [x]}]}}}]}")
	if says := m.cannot(wordless.Stages[0]); !strings.Contains(says, "names no program: where users share one Muster") {
		t.Errorf("a role without a program: %q", says)
	}
}

// TestRunOfAUser: on a shared machine results are those of one user's machine, by workers that bring files;
// files that a stage names are looked at as the owner of the namespace.
func TestRunOfAUser(t *testing.T) {
	r := newRig(t, nil)
	var asked []string
	r.machine.Shared = true
	r.machine.Run = func(ctx context.Context, namespace string, argv ...string) (string, error) {
		asked = append(asked, namespace+" "+argv[0]+" "+argv[1])
		var said strings.Builder
		if code := programs.Main(ctx, argv[2:], &said); code != 0 {
			t.Errorf("looking ended with %d: %s", code, said.String())
		}
		return said.String(), nil
	}
	program := filepath.Join(t.TempDir(), "upper.sh")
	r.must(os.WriteFile(program, []byte("for f in $MUSTER_INPUT_THINGS/*; do tr a-z A-Z < $f > $MUSTER_OUTPUT/${f##*/}; done\n"), 0o600))
	r.put("things", map[string]string{"a": "one", "b": "two"})
	r.apply(`
metadata: {name: two}
spec:
  stages:
  - name: upper
    input: {dataset: things, glob: /*}
    command: [sh, ` + program + `]
    parallelism: {max: 2}
  - name: join
    input: {stage: upper}
    training: {roles: [{name: w, replicas: 1, command: [sh, -c, 'cat $MUSTER_INPUT_UPPER/* > $MUSTER_OUTPUT/all']}]}
`)
	run := r.finish("two")
	if run.Status.Phase != v1alpha1.RunSucceeded {
		t.Fatalf("%s: %s", run.Status.Phase, run.Status.Message)
	}
	if diff := cmp.Diff(map[string]string{"all": "ONETWO"}, r.files("two-join")); diff != "" {
		t.Error(diff)
	}
	if want := space + " " + r.machine.Worker + " look"; len(asked) == 0 || slices.ContainsFunc(asked, func(got string) bool { return got != want }) {
		t.Errorf("programs were looked at by %q, want %q", asked, want)
	}
	print := stageStatus(&run.Status, "upper").Recipe
	r.must(os.WriteFile(program, []byte("for f in $MUSTER_INPUT_THINGS/*; do tr a-z x < $f > $MUSTER_OUTPUT/${f##*/}; done\n"), 0o600))
	r.put("things", map[string]string{"c": "three"})
	if again := r.finish("two"); stageStatus(&again.Status, "upper").Recipe == print {
		t.Error("another program has the same key")
	}
}
