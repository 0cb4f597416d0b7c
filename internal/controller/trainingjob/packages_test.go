package trainingjob

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/environment/source"
)

// TestPackagesOfTheCode: packages of the code count by their contents, and a package that cannot be
// had fails the job at once, with a message.
func TestPackagesOfTheCode(t *testing.T) {
	parts := map[string]source.Part{
		"pkg":  {Digest: "sha256:a", Folder: true, Files: []string{"setup.py"}},
		"bare": {Digest: "sha256:b", Folder: true, Files: []string{"x.py"}},
	}
	for name, c := range map[string]struct {
		text    string
		code    *v1alpha1.Code
		digest  string
		unread  error
		failure string
		message string
		want    map[string]string
	}{
		"none":              {text: "numpy\n"},
		"one":               {text: "-e ./pkg\nnumpy\n", code: &v1alpha1.Code{Snapshot: digest}, digest: digest, want: map[string]string{"pkg": "sha256:a"}},
		"no code":           {text: "./pkg\n", failure: "the job has no code"},
		"code on its way":   {text: "./pkg\n", code: &v1alpha1.Code{URL: "http://x.test/a.py"}, message: "waiting for the code"},
		"not in the code":   {text: "./gone\n", code: &v1alpha1.Code{Snapshot: digest}, digest: digest, failure: "./gone: it is not in the code"},
		"no package":        {text: "./bare\n", code: &v1alpha1.Code{Snapshot: digest}, digest: digest, failure: "neither pyproject.toml nor setup.py"},
		"out of the code":   {text: "../pkg\n", code: &v1alpha1.Code{Snapshot: digest}, digest: digest, failure: "leads out of the code folder"},
		"not known yet":     {text: "./pkg\n", code: &v1alpha1.Code{Snapshot: digest}, digest: digest, unread: source.ErrAsked, message: "code: "},
		"a store that fell": {text: "./pkg\n", code: &v1alpha1.Code{Snapshot: digest}, digest: digest, unread: source.ErrAway, message: "trying again"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMakers()
			m.parts, m.unread = parts, c.unread
			controller := &Controller{deps: Deps{Sources: fetches{m}}}
			job := &v1alpha1.TrainingJob{}
			job.Spec.Code, job.Spec.Environment = c.code, &v1alpha1.Environment{Requirements: c.text}
			got, p := controller.packagesOf(job, c.digest)
			if p == nil {
				p = &preparation{}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			if (p.failure == "") != (c.failure == "") || !strings.Contains(p.failure, c.failure) || (p.message == "") != (c.message == "") || !strings.Contains(p.message, c.message) {
				t.Errorf("failure %q, message %q", p.failure, p.message)
			}
		})
	}
}

// TestPasswordsInVariables: a variable of pip or uv with a password is named with where it
// is, and without the password.
func TestPasswordsInVariables(t *testing.T) {
	secret := corev1.EnvVar{Name: "UV_INDEX_URL", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{Key: "url"}}}
	plain := corev1.EnvVar{Name: "UV_EXTRA_INDEX_URL", Value: "https://a.test/simple https://ada:geheim@b.test/simple"}
	for name, c := range map[string]struct {
		edit func(*v1alpha1.TrainingJob)
		want string
	}{
		"none": {func(j *v1alpha1.TrainingJob) {
			j.Spec.Env = []corev1.EnvVar{secret, {Name: "PIP_INDEX_URL", Value: "https://a.test/simple"}}
		}, ""},
		"no index": {func(j *v1alpha1.TrainingJob) {
			j.Spec.Env = []corev1.EnvVar{{Name: "BROKER", Value: "amqp://u:p@b.test"}}
		}, ""},
		"of the job": {func(j *v1alpha1.TrainingJob) { j.Spec.Env = []corev1.EnvVar{plain} }, `env: UV_EXTRA_INDEX_URL: "https://a.test/simple https://****@b.test/simple" has a user or password`},
		"of a role":  {func(j *v1alpha1.TrainingJob) { j.Spec.Roles[0].Env = []corev1.EnvVar{plain} }, "role worker: env: UV_EXTRA_INDEX_URL"},
		"of a template": {func(j *v1alpha1.TrainingJob) {
			j.Spec.Roles[0].Template = &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Env: []corev1.EnvVar{plain}}}}}
		}, "role worker: container main: env: UV_EXTRA_INDEX_URL"},
	} {
		t.Run(name, func(t *testing.T) {
			job := &v1alpha1.TrainingJob{Spec: v1alpha1.TrainingJobSpec{Roles: []v1alpha1.Role{{Name: "worker"}}}}
			c.edit(job)
			got := passwordIn(job)
			if c.want == "" && got != "" || !strings.HasPrefix(got, c.want) || strings.Contains(got, "geheim") {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
