package trainingjob

import (
	"fmt"
	"path"
	"strings"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/environment"
	"github.com/muster-dev/muster/internal/environment/source"
)

// preparation is how far code and environment are.
type preparation struct {
	// failure, when set, fails the job.
	failure string
	// message says what is going on; empty once all is ready.
	message string
	// code is the snapshot's digest; empty where the job has no code, or not
	// yet.
	code string
	// environment is the content key of the environment; environmentPath is
	// set where it is an existing one.
	environment, environmentPath string
}

func (p preparation) ready() bool { return p.failure == "" && p.message == "" }

// owner is the name under which the job asks for its code.
func owner(job *v1alpha1.TrainingJob) string {
	return job.Namespace + "/" + job.Name + "/" + string(job.UID)
}

// prepare asks for code and environment, both at once.
func (c *Controller) prepare(job *v1alpha1.TrainingJob) preparation {
	if problem := check(job); problem != "" {
		return preparation{failure: problem}
	}
	p := c.prepareCode(job)
	env := c.prepareEnvironment(job)
	p.environment, p.environmentPath = env.environment, env.environmentPath
	switch {
	case p.failure != "":
	case env.failure != "":
		p.failure, p.message = env.failure, ""
	case p.message != "" && env.message != "":
		p.message += "; " + env.message
	case p.message == "":
		p.message = env.message
	}
	return p
}

func (c *Controller) prepareCode(job *v1alpha1.TrainingJob) preparation {
	code := job.Spec.Code
	if code == nil {
		return preparation{}
	}
	digest := code.Snapshot
	if digest == "" {
		// A snapshot that was made from this URL stays the job's code, also
		// where the fetcher has forgotten it, or its server is gone.
		if known := job.Status.CodeSnapshot; known != "" && job.Status.ObservedGeneration == job.Generation && c.deps.Sources.Has(known) {
			digest = known
		} else {
			state := c.deps.Sources.Ensure(owner(job), code.URL)
			switch state.Phase {
			case source.Failed:
				return preparation{failure: state.Message}
			case source.Fetching:
				return preparation{message: state.Message}
			}
			digest = state.Digest
		}
	}
	if !c.deps.Sources.Has(digest) {
		return preparation{failure: fmt.Sprintf("code: the snapshot %s is not stored here; submit the job with muster run from the code's folder", digest)}
	}
	for i := range job.Spec.Roles {
		script := scriptOf(job, &job.Spec.Roles[i])
		if script == "" || path.IsAbs(script) || strings.Contains(script, "$(") {
			continue
		}
		found, err := c.deps.Sources.Contains(digest, script)
		if err != nil {
			return preparation{failure: "code: " + err.Error()}
		}
		if !found {
			return preparation{failure: fmt.Sprintf("role %s: the script %s is not in the job's code; its path is relative to the code folder, and ignored files are left out", job.Spec.Roles[i].Name, script)}
		}
	}
	return preparation{code: digest}
}

func (c *Controller) prepareEnvironment(job *v1alpha1.TrainingJob) preparation {
	env := job.Spec.Environment
	if env == nil || env.Image != "" || env.Requirements == "" && env.Path == "" && env.Python == "" {
		return preparation{}
	}
	state := c.deps.Environments.Ensure(environment.Request{Requirements: env.Requirements, Python: env.Python, Path: env.Path})
	p := preparation{environment: state.Key}
	switch state.Phase {
	case environment.Failed:
		p.failure = "environment: " + state.Message
	case environment.Building:
		p.message = "environment: " + state.Message
	default:
		if env.Path != "" {
			p.environmentPath = state.Path
		}
	}
	return p
}
