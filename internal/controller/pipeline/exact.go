package pipeline

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/pipeline"
)

// imageTerm begins the name of the term that says what was found under the name of an
// image, which follows. None of a Secret or ConfigMap begins so.
const imageTerm = "image "

// terms are those of a job whose variables come from what has these versions.
func (s *setting) terms(versions map[string]string) map[string]string {
	if s.exact == "" || s.exact == s.image {
		return versions
	}
	out := map[string]string{imageTerm + s.image: s.exact}
	maps.Copy(out, versions)
	return out
}

// found is what an image is. What the members of a stage's job have it is for as long as
// that job is there, whatever its tag names by then, whoever looks, and whether tags are
// looked up by then or were when they began: else what they compute would count for nothing.
func (c *Runs) found(ctx context.Context, run *v1alpha1.PipelineRun, stage *pipeline.Stage, name string) (ImageState, error) {
	m := c.deps.Machine
	if !m.Elsewhere || run.Spec.DryRun || strings.Contains(name, "@") {
		return m.Images.Ensure(name, run.CreationTimestamp.Time), nil
	}
	if unused(stage) {
		return ImageState{Digest: name}, nil
	}
	state := m.Images.Ensure(name, run.CreationTimestamp.Time)
	job, err := c.ownJob(ctx, run, stage)
	if err != nil {
		return ImageState{}, err
	}
	terms, _ := versionsOf(job)
	exact := terms[imageTerm+name]
	switch {
	case exact != "":
		_, digest, _ := strings.Cut(exact, "@")
		return ImageState{Digest: digest, Exact: exact}, nil
	case job == nil, state.Digest != "" && state.Exact == "":
		return state, nil
	}
	return ImageState{Digest: name}, nil // its members have what the name meant when they began
}

// unused says that nobody runs the image of the stage: each of its roles names one of its
// own.
func unused(stage *pipeline.Stage) bool {
	env, t := environmentOf(stage), stage.Spec.Training
	if t == nil || env != nil && env.Image != "" || packaged(env) {
		return false
	}
	return !slices.ContainsFunc(t.Roles, func(r v1alpha1.Role) bool { return imageOfRole(&r) == "" })
}

// imageOfRole is the image that the template of a role names for its members; empty: none.
func imageOfRole(role *v1alpha1.Role) string {
	if role.Template == nil || len(role.Template.Spec.Containers) == 0 {
		return ""
	}
	return role.Template.Spec.Containers[0].Image
}

// pin has the members of a job run what was found under the name of their image. Where the
// job names no image for all it still names none: it would mean that its members have no
// folder of code and no Python but the image's.
func (s *setting) pin(job *v1alpha1.TrainingJob) {
	if s.exact == "" || s.exact == s.image {
		return
	}
	named := job.Spec.Environment != nil && job.Spec.Environment.Image != ""
	if named && job.Spec.Environment.Image == s.image {
		env := *job.Spec.Environment
		env.Image = s.exact
		job.Spec.Environment = &env
	}
	for i := range job.Spec.Roles {
		role := &job.Spec.Roles[i]
		if has := imageOfRole(role); has == s.image || has == "" && !named {
			into(role).Image = s.exact
		}
	}
}
