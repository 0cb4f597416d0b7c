package pipeline

import (
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/pipeline"
)

// tagged is a registry where box:1 names an image that changes.
type tagged struct{ digest atomic.Value }

func newTagged(digest string) *tagged {
	t := &tagged{}
	t.move(digest)
	return t
}

func (t *tagged) move(digest string) { t.digest.Store(digest) }

func (t *tagged) Check(string) error { return nil }

func (t *tagged) Ensure(name string, _ time.Time) ImageState {
	digest, _ := t.digest.Load().(string)
	switch {
	case strings.Contains(name, "@"):
		_, digest, _ = strings.Cut(name, "@")
		return ImageState{Digest: digest, Exact: name}
	case digest == "":
		return ImageState{Message: "its registry is away"}
	}
	return ImageState{Digest: digest, Exact: "box@" + digest}
}

// runsIn is the image of the job of a run's first stage.
func (r *rig) runsIn(run *v1alpha1.PipelineRun) string {
	r.Helper()
	job := &v1alpha1.TrainingJob{}
	r.must(r.server.Get(r.ctx, client.ObjectKey{Namespace: space, Name: jobName(run, run.Status.Stages[0].Name)}, job))
	return imageOfRole(&job.Spec.Roles[0])
}

// What a tag names when a stage is planned counts, and runs; once it names another image,
// all is computed by that.
func TestTagElsewhere(t *testing.T) {
	r := elsewhere(t, nil)
	images := newTagged("sha256:a")
	r.machine.Images = images
	single := strings.ReplaceAll(single, "TRACE", filepath.Join(t.TempDir(), "trace"))
	r.put("things", map[string]string{"a": "one\n"})
	r.apply(single)
	run := r.succeed("lines", 1)
	if got := r.runsIn(run); got != "box@sha256:a" {
		t.Errorf("it ran in %q", got)
	}
	r.rerun()
	r.succeed("lines", 0)
	images.move("sha256:b")
	r.rerun()
	run = r.succeed("lines", 1)
	if got, why := r.runsIn(run), run.Status.Stages[0].Why; got != "box@sha256:b" || !strings.Contains(why, "environment: image: sha256:a -> sha256:b") {
		t.Errorf("it ran in %q: %s", got, why)
	}
	// Given by its digest it is the same image.
	r.apply(strings.Replace(single, "name: copy,", `name: copy, environment: {image: "box@sha256:b"},`, 1))
	r.succeed("lines", 0)
	// A registry that does not answer is waited for.
	images.move("")
	r.apply(strings.Replace(single, "name: copy,", `name: copy, environment: {image: "box:2"},`, 1))
	run = r.finishUnless("lines", func(run *v1alpha1.PipelineRun) bool {
		return strings.Contains(run.Status.Message, "its registry is away")
	})
	if Ended(run.Status.Phase) {
		t.Errorf("%s: %s", run.Status.Phase, run.Status.Message)
	}
}

func TestPin(t *testing.T) {
	role := func(image string) v1alpha1.Role {
		if image == "" {
			return v1alpha1.Role{}
		}
		return v1alpha1.Role{Template: &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Image: image}, {Image: "box:1"}}}}}
	}
	tests := []struct {
		name        string
		environment *v1alpha1.Environment
		roles       []v1alpha1.Role
		want        string
		members     []string
	}{
		{"the image for all", nil, []v1alpha1.Role{role("")}, "", []string{"box@sha256:a"}},
		{"with a Python", &v1alpha1.Environment{Python: "3.12"}, []v1alpha1.Role{role("")}, "", []string{"box@sha256:a"}},
		{"named by one role, for the other that of all", nil, []v1alpha1.Role{role("box:1"), role("")}, "", []string{"box@sha256:a", "box@sha256:a"}},
		{"another by one role", nil, []v1alpha1.Role{role("other:1"), role("")}, "", []string{"other:1", "box@sha256:a"}},
		{"named by the stage", &v1alpha1.Environment{Image: "box:1", Requirements: "sums"}, []v1alpha1.Role{role("")}, "box@sha256:a", []string{""}},
		{"named by roles", nil, []v1alpha1.Role{role("box:1"), role("other:1")}, "", []string{"box@sha256:a", "other:1"}},
		{"packages on top of what roles name", &v1alpha1.Environment{Requirements: "sums"}, []v1alpha1.Role{role("box:1")}, "", []string{"box@sha256:a"}},
		{"another image", &v1alpha1.Environment{Image: "other:1"}, []v1alpha1.Role{role("")}, "other:1", []string{""}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			was := test.environment.DeepCopy()
			job := &v1alpha1.TrainingJob{Spec: v1alpha1.TrainingJobSpec{Environment: test.environment, Roles: test.roles}}
			(&setting{image: "box:1", exact: "box@sha256:a"}).pin(job)
			got := ""
			if job.Spec.Environment != nil {
				got = job.Spec.Environment.Image
			}
			var members []string
			for i := range job.Spec.Roles {
				members = append(members, imageOfRole(&job.Spec.Roles[i]))
			}
			if diff := cmp.Diff(test.members, members); diff != "" || got != test.want {
				t.Errorf("it runs in %q: %s", got, diff)
			}
			if diff := cmp.Diff(was, test.environment); diff != "" {
				t.Errorf("the stage itself was changed: %s", diff)
			}
		})
	}
	job := &v1alpha1.TrainingJob{}
	(&setting{image: "box:1"}).pin(job)
	(&setting{image: "box@sha256:a", exact: "box@sha256:a"}).pin(job)
	if job.Spec.Environment != nil {
		t.Errorf("what needs no name was given %+v", job.Spec.Environment)
	}
}

// A stage whose roles all name images of their own does not wait for the one for all.
func TestUnused(t *testing.T) {
	own := v1alpha1.Role{Template: &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Image: "own:1"}}}}}
	for name, c := range map[string]struct {
		spec v1alpha1.Stage
		want bool
	}{
		"workers":                {v1alpha1.Stage{}, false},
		"all roles":              {v1alpha1.Stage{Training: &v1alpha1.TrainingJobSpec{Roles: []v1alpha1.Role{own, own}}}, true},
		"one role":               {v1alpha1.Stage{Training: &v1alpha1.TrainingJobSpec{Roles: []v1alpha1.Role{own, {}}}}, false},
		"the stage names one":    {v1alpha1.Stage{Environment: &v1alpha1.Environment{Image: "box:1"}, Training: &v1alpha1.TrainingJobSpec{Roles: []v1alpha1.Role{own}}}, false},
		"packages on top of own": {v1alpha1.Stage{Environment: &v1alpha1.Environment{Requirements: "sums"}, Training: &v1alpha1.TrainingJobSpec{Roles: []v1alpha1.Role{own}}}, false},
	} {
		if got := unused(&pipeline.Stage{Spec: c.spec}); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// Where looking tags up begins, or ends, while members run, they are kept: they have the
// image that they have.
func TestTagsAreLookedUpFromNowOn(t *testing.T) {
	for _, c := range []struct {
		name          string
		before, after Images
		image         string
	}{
		{"on", library{"box:1": "box:1"}, newTagged("sha256:b"), ""},
		{"off", newTagged("sha256:a"), library{"box:1": "box:1"}, "box@sha256:a"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newCourse(t, fault{})
			r.elsewhere()
			r.images = c.before
			r.must(syscall.Mkfifo(r.trace+".gate", 0o600))
			r.put("things", map[string]string{"a": "one\n"})
			r.apply(r.text(waiting("read go < TRACE.gate")))
			r.until("it computes", func() bool { return r.there("waits") && r.pipeline("lines").Status.LastRun != "" })
			// Another manager plans.
			r.images = c.after
			r.revive()
			r.until("it has planned", func() bool { return len(r.queue) == 0 })
			r.must(os.WriteFile(r.trace+".gate", []byte("go\n"), 0))
			run := r.ends("lines", v1alpha1.RunSucceeded)
			if got := r.runsIn(run); got != c.image || r.started != 1 || computed(run)["copy"] != 1 {
				t.Errorf("it ran in %q, by %d jobs: %v", got, r.started, computed(run))
			}
		})
	}
}
