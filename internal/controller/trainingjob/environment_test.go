package trainingjob

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/environment"
)

// runs gives a role a template whose container runs in an image.
func runs(s *v1alpha1.TrainingJobSpec, role int, image string, env ...corev1.EnvVar) {
	s.Roles[role].Template = &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: image, Env: env}}}}
}

// TestWhichImageAnEnvironmentIsFor: that of the members, which is one; on one
// machine it is for the machine's own Python.
func TestWhichImageAnEnvironmentIsFor(t *testing.T) {
	for name, tt := range map[string]struct {
		hostImage string
		change    func(*v1alpha1.TrainingJobSpec)
		image     string
		says      string
	}{
		"one machine":          {hostImage, func(*v1alpha1.TrainingJobSpec) {}, "", ""},
		"one machine, a role":  {hostImage, func(s *v1alpha1.TrainingJobSpec) { runs(s, 0, "tf:2") }, "", ""},
		"one machine, a clash": {hostImage, func(s *v1alpha1.TrainingJobSpec) { s.Environment.Image = "tf:2" }, "tf:2", ""},
		"the default":          {"python:3.13", func(*v1alpha1.TrainingJobSpec) {}, "python:3.13", ""},
		"the job's":            {"python:3.13", func(s *v1alpha1.TrainingJobSpec) { s.Environment.Image = "tf:2" }, "tf:2", ""},
		"no default":           {"", func(s *v1alpha1.TrainingJobSpec) { runs(s, 0, "tf:2"); runs(s, 1, "tf:2") }, "tf:2", ""},
		"two": {"python:3.13", func(s *v1alpha1.TrainingJobSpec) { runs(s, 1, "tf:2") }, "",
			"roles worker and ps run in different images (python:3.13 and tf:2)"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, newJob("a").role("worker", 1, "train.py").role("ps", 1, "ps.py").requirements("numpy").with(tt.change).TrainingJob)
			w.controller.deps.HostImage = tt.hostImage
			_, err := w.reconcile("a")
			must(t, err)
			if tt.says != "" {
				if job := w.job("a"); job.Status.Phase != v1alpha1.JobFailed || !strings.Contains(job.Status.Message, tt.says) || len(w.makers.asked) != 0 {
					t.Errorf("it is %s: %s; asked for %v", job.Status.Phase, job.Status.Message, w.makers.asked)
				}
				return
			}
			if diff := cmp.Diff([]environment.Request{{Namespace: "vision", Requirements: "numpy", Image: tt.image}}, w.makers.asked[:1]); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestWhosePythonIsSaid: a node is told that an environment is for the Python of an image,
// which a lock is known of.
func TestWhosePythonIsSaid(t *testing.T) {
	for name, tt := range map[string]struct {
		lock *environment.Lock
		want map[string]string
	}{
		"the machine's": {nil, map[string]string{"key": "key"}},
		"an image's":    {&environment.Lock{Python: "3.13.1"}, map[string]string{"key": "key", "image": "true"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, newJob("a").role("worker", 1, "train.py").requirements("numpy").TrainingJob)
			w.makers.build.Lock = tt.lock
			for range 3 {
				_, err := w.reconcile("a")
				must(t, err)
			}
			var got map[string]string
			for _, v := range w.gang("a").Spec.Roles[0].Template.Spec.Volumes {
				if v.CSI != nil && v.CSI.Driver == v1alpha1.EnvironmentDriver {
					got = v.CSI.VolumeAttributes
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestMembersUseTheEnvironment of an image: its programs come first.
func TestMembersUseTheEnvironment(t *testing.T) {
	for name, tt := range map[string]struct {
		env  []corev1.EnvVar
		want string
	}{
		"the image's path": {nil, "/muster/env/bin:/opt/bin:/usr/bin"},
		"one's own":        {[]corev1.EnvVar{{Name: "PATH", Value: "/mine"}}, "/muster/env/bin:/mine"},
	} {
		t.Run(name, func(t *testing.T) {
			job := newJob("a").role("worker", 1, "train.py").requirements("numpy").with(func(s *v1alpha1.TrainingJobSpec) { runs(s, 0, "python:3.13", tt.env...) })
			job.Spec.Roles[0].Template.Labels = map[string]string{v1alpha1.LabelBuild: "x"}
			template := templateFor(job.TrainingJob, &job.Spec.Roles[0], preparation{environment: "key", searchPath: "/opt/bin:/usr/bin"})
			main := template.Spec.Containers[0]
			path := ""
			for _, v := range main.Env {
				if v.Name == "PATH" {
					path = v.Value
				}
			}
			if path != tt.want || main.Env[0].Name != v1alpha1.EnvRoot || main.Command[0] != "python" {
				t.Errorf("PATH is %q, want %q; the first variable is %s, and %v is run", path, tt.want, main.Env[0].Name, main.Command)
			}
			if len(template.Labels[v1alpha1.LabelBuild]) != 0 {
				t.Error("a member passes for a build, to which the network is open")
			}
		})
	}
}
