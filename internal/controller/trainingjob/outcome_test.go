package trainingjob

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
)

func TestDoneWhenIsChecked(t *testing.T) {
	for entry, want := range map[string]string{
		"worker":    "",
		"worker/0":  "",
		"worker/1":  "",
		"worker/2":  "doneWhen: worker/2 names a member that the job does not have; the members of worker are worker/0 to worker/1",
		"worker/-1": "doneWhen: worker/-1 names a member",
		"worker/":   "doneWhen: worker/ names a member",
		"worker/00": "doneWhen: worker/00 names a member",
		"chief":     "doneWhen: chief names a role that the job does not have",
	} {
		j := newJob("a").role("worker", 2, "train.py").with(func(s *v1alpha1.TrainingJobSpec) { s.DoneWhen = []string{entry} })
		got := check(j.TrainingJob)
		if !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("%s: %q, want %q", entry, got, want)
		}
		if diff := cmp.Diff([]string{entry}, doneWhen(j.TrainingJob)); diff != "" {
			t.Errorf("%s is not passed on:\n%s", entry, diff)
		}
	}
}

func TestSuccessOfOneMember(t *testing.T) {
	j := newJob("a").role("worker", 2, "train.py").with(func(s *v1alpha1.TrainingJobSpec) { s.DoneWhen = []string{"worker/0"} })
	if got := success(gangFor(j.TrainingJob, preparation{})); got != "worker-0 succeeded" {
		t.Error(got)
	}
}

// TestTheGangFollows passes on what the gang's controller obeys.
func TestTheGangFollows(t *testing.T) {
	j := newJob("a").role("worker", 2, "train.py").with(func(s *v1alpha1.TrainingJobSpec) {
		s.CleanUp, s.SparseCluster = v1alpha1.CleanUpAll, true
		w := &s.Roles[0]
		w.PortName, w.IndexLabels, w.FirstLabels, w.RestartPolicy = "peers", []string{"i"}, map[string]string{"first": "yes"}, v1alpha1.RestartExitCode
	})
	g := gangFor(j.TrainingJob, preparation{}).Spec
	r := g.Roles[0]
	if g.CleanUp != v1alpha1.CleanUpAll || !g.SparseCluster || r.PortName != "peers" || r.RestartPolicy != v1alpha1.RestartExitCode {
		t.Errorf("%+v", g)
	}
	if diff := cmp.Diff([]string{"i"}, r.IndexLabels) + cmp.Diff(map[string]string{"first": "yes"}, r.FirstLabels); diff != "" {
		t.Error(diff)
	}
}

// TestWorkingDirectory is the image's where there is one and no code.
func TestWorkingDirectory(t *testing.T) {
	for name, tt := range map[string]struct {
		image, dir string
		code       bool
		want       string
	}{
		"the machine's programs":     {hostImage, "", false, codeDir},
		"an image":                   {"tf:2", "", false, ""},
		"an image and code":          {"tf:2", "", true, codeDir},
		"an image and a directory":   {"tf:2", "/app", false, "/app"},
		"code above a directory":     {"tf:2", "/app", true, codeDir},
		"the machine's, a directory": {hostImage, "/srv", false, "/srv"},
	} {
		j := newJob("a")
		if !tt.code {
			j.Spec.Code = nil
		}
		j.Spec.Roles = []v1alpha1.Role{{Name: "worker", Template: &corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "main", Image: tt.image, WorkingDir: tt.dir, Command: []string{"true"}}}}}}}
		if got := gangFor(j.TrainingJob, preparation{}).Spec.Roles[0].Template.Spec.Containers[0].WorkingDir; got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}
