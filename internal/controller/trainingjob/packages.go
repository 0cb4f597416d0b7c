package trainingjob

import (
	"errors"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/environment"
	"github.com/muster-dev/muster/internal/environment/source"
)

// packagesOf returns the contents of the packages of the code that a job's requirements name, by
// path; or, if they are not all known, the progress of the job.
func (c *Controller) packagesOf(job *v1alpha1.TrainingJob, code string) (map[string]string, *preparation) {
	fail := func(text string) *preparation { return &preparation{failure: "environment: " + text} }
	text, err := environment.Normalise(job.Spec.Environment.Requirements)
	if err != nil {
		return nil, fail(environment.Mask(err.Error()))
	}
	if err := environment.Password(job.Spec.Environment.Requirements); err != nil {
		return nil, fail("requirements: " + err.Error())
	}
	locals := environment.Locals(text)
	switch {
	case len(locals) == 0:
		return nil, nil
	case job.Spec.Code == nil:
		return nil, fail("requirements: ./" + locals[0] + " is a package of the code folder, and the job has no code; submit it with muster run from the code folder, or leave the line out")
	case code == "":
		return nil, &preparation{message: "environment: waiting for the code, which has its packages"}
	}
	out := map[string]string{}
	for _, at := range locals {
		part, err := c.deps.Sources.Part(owner(job), code, at)
		switch {
		case errors.Is(err, source.ErrAway), errors.Is(err, source.ErrAsked):
			return nil, &preparation{message: awaits(err)}
		case err == nil:
			err = environment.CheckLocal(at, part)
		}
		if err != nil {
			return nil, fail("requirements: ./" + at + ": " + err.Error())
		}
		out[at] = part.Digest
	}
	return out, nil
}

// passwordIn returns a message for the first variable of a job with an index's user or
// password in it; empty if no variable has one.
func passwordIn(job *v1alpha1.TrainingJob) string {
	lists := map[string][]corev1.EnvVar{"env": job.Spec.Env}
	for i := range job.Spec.Roles {
		r := &job.Spec.Roles[i]
		lists["role "+r.Name+": env"] = r.Env
		if r.Template != nil {
			for _, c := range slices.Concat(r.Template.Spec.InitContainers, r.Template.Spec.Containers) {
				lists["role "+r.Name+": container "+c.Name+": env"] = c.Env
			}
		}
	}
	for _, where := range slices.Sorted(maps.Keys(lists)) {
		for _, v := range lists[where] {
			if err := environment.PasswordIn(v.Name, v.Value); err != nil {
				return where + ": " + err.Error()
			}
		}
	}
	return ""
}
