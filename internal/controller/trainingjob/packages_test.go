package trainingjob

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

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
