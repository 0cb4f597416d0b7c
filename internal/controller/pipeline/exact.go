package pipeline

import (
	"context"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"

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

// found is what an image is. What the members of a stage run already it is until they have
// ended, whatever its tag names by then and whoever looks: else a tag that moves would have
// what they compute count for nothing.
func (c *Runs) found(ctx context.Context, run *v1alpha1.PipelineRun, stage *pipeline.Stage, name string) (ImageState, error) {
	state := c.deps.Machine.Images.Ensure(name)
	asked := state.Digest == "" || state.Exact != "" // by its name alone it is what it is
	if !c.deps.Machine.Elsewhere || !asked || state.Exact == name || run.Spec.DryRun {
		return state, nil
	}
	job, err := c.ownJob(ctx, run, stage)
	if err != nil {
		return ImageState{}, err
	}
	terms, _ := versionsOf(job)
	if exact := terms[imageTerm+name]; exact != "" {
		_, digest, _ := strings.Cut(exact, "@")
		return ImageState{Digest: digest, Exact: exact}, nil
	}
	return state, nil
}

// pin has the members of a job run what was found under the name of their image.
func (s *setting) pin(job *v1alpha1.TrainingJob) {
	if s.exact == "" || s.exact == s.image {
		return
	}
	own := false
	for i := range job.Spec.Roles {
		main := mainOf(&job.Spec.Roles[i])
		own = own || main != nil && main.Image != ""
		if main != nil && main.Image == s.image {
			main.Image = s.exact
		}
	}
	env := v1alpha1.Environment{}
	if job.Spec.Environment != nil {
		env = *job.Spec.Environment
	}
	if env.Image == s.image || env.Image == "" && !own {
		env.Image = s.exact
		job.Spec.Environment = &env
	}
}

// mainOf is the container that a role's template has for its members; nil: none.
func mainOf(role *v1alpha1.Role) *corev1.Container {
	if role.Template == nil || len(role.Template.Spec.Containers) == 0 {
		return nil
	}
	return &role.Template.Spec.Containers[0]
}
