package trainingjob

import (
	"errors"
	"fmt"
	"path"
	"strings"

	apiequality "k8s.io/apimachinery/pkg/api/equality"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/dataset/reading"
	"github.com/muster-dev/muster/internal/environment"
	"github.com/muster-dev/muster/internal/environment/source"
)

// preparation is how far code, environment and data are.
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
	// inImage says that the environment is for the Python of an image, and searchPath
	// is PATH as that has it.
	inImage    bool
	searchPath string
	// architecture is that of the nodes on which the environment can be used. Empty: any.
	architecture string
	// data is what the job reads, as far as that is known.
	data []v1alpha1.JobDataStatus
	// hostImage is what members run in that name no image. Empty: the machine's
	// own programs.
	hostImage string
	// shareProcesses gives members a first process that is not theirs.
	shareProcesses bool
	// ownCode gives members each a copy of the code.
	ownCode bool
	// reports is who reads how far members say that they are.
	reports Reports
	// servesData has members served what they read as they ask for it by a container of
	// their own.
	servesData bool
	// agentNodes are the labels of the nodes that have agents.
	agentNodes map[string]string
}

// image is what a role's members run in.
func (p preparation) image(job *v1alpha1.TrainingJob, role *v1alpha1.Role) string {
	if named := image(job, role); named != hostImage || p.hostImage == "" {
		return named
	}
	return p.hostImage
}

func (p preparation) ready() bool { return p.failure == "" && p.message == "" }

// owner is the name under which the job asks for its code.
func owner(job *v1alpha1.TrainingJob) string {
	return job.Namespace + "/" + job.Name + "/" + string(job.UID)
}

// prepare asks for code, environment and data, all at once.
func (c *Controller) prepare(job *v1alpha1.TrainingJob) preparation {
	if problem := check(job); problem != "" {
		return preparation{failure: problem}
	}
	if problem := c.lacks(job); problem != "" {
		return preparation{failure: problem}
	}
	if problem := passwordIn(job); problem != "" {
		return preparation{failure: problem}
	}
	p := c.prepareCode(job)
	p.hostImage, p.shareProcesses, p.ownCode = c.deps.HostImage, c.deps.ShareProcesses, c.deps.OwnCode
	p.reports, p.agentNodes, p.servesData = c.deps.Reports, c.deps.AgentNodes, c.deps.ServesData
	env := c.prepareEnvironment(job, p.code)
	p.environment, p.environmentPath, p.searchPath, p.inImage = env.environment, env.environmentPath, env.searchPath, env.inImage
	p.join(env)
	data := c.prepareData(job)
	p.data = data.data
	p.join(data)
	return p
}

// join adds how far another part is.
func (p *preparation) join(part preparation) {
	switch {
	case p.failure != "":
	case part.failure != "":
		p.failure, p.message = part.failure, ""
	case p.message != "" && part.message != "":
		p.message += "; " + part.message
	case p.message == "":
		p.message = part.message
	}
}

// prepareData asks for what the job reads. It is ready once the job's status says
// which commits that are: what runs can always be traced.
func (c *Controller) prepareData(job *v1alpha1.TrainingJob) preparation {
	if len(job.Spec.Data) == 0 {
		return preparation{}
	}
	state := c.deps.Data.Ensure(job)
	p := preparation{data: state.Data}
	switch {
	case state.Phase == reading.Failed:
		p.failure = "data: " + state.Message
	case state.Phase != reading.Ready:
		p.message = "data: " + state.Message
	case !apiequality.Semantic.DeepEqual(job.Status.Data, state.Data):
		p.message = "data: noting which commits it reads"
	}
	return p
}

// lacks says what the job needs and this Muster does not have, and what will do
// instead; empty if it has everything. Waiting would be of no use.
func (c *Controller) lacks(job *v1alpha1.TrainingJob) string {
	env := job.Spec.Environment
	switch {
	case len(job.Spec.Data) > 0 && c.deps.Data == nil:
		return v1alpha1.ReasonUnsupported + ": data: there is no store of data on this cluster, or no agents that bring it to nodes; have them set (muster install --set agent.create=true, and a bucket for data)," +
			" or leave data out and mount a volume with the files (volumes; muster run --volume CLAIM:PATH)"
	case job.Spec.Code != nil && c.deps.Sources == nil:
		return v1alpha1.ReasonUnsupported + ": code: there is no store for code on this cluster; have one set (muster install --set agent.create=true,store.persistentVolumeClaim=NAME, or store.s3)," +
			" or put the code into an image and name it (environment.image; muster run --image IMAGE --code none)"
	case env != nil && env.Image == "" && c.deps.Environments == nil && env.Path != "":
		return v1alpha1.ReasonUnsupported + ": environment.path: " + env.Path +
			" is a folder of one machine, and this is a cluster; put the environment into an image and name it (environment.image; muster run --image IMAGE)"
	case env != nil && c.deps.Environments == nil && (env.Requirements != "" || env.Image == "" && env.Python != ""):
		return v1alpha1.ReasonUnsupported + ": environment: environments are not built from requirements on this cluster: that takes agents and a store" +
			" (muster install --set agent.create=true --set store.persistentVolumeClaim=NAME, or store.s3);" +
			" or install them into an image and name it (environment.image; muster run --image IMAGE)"
	}
	if c.deps.HostImage != "" {
		return ""
	}
	for i := range job.Spec.Roles {
		if role := &job.Spec.Roles[i]; image(job, role) == hostImage {
			return v1alpha1.ReasonUnsupported + ": role " + role.Name + ": it names no image, and this cluster has none for such jobs; name one" +
				" (environment.image; muster run --image IMAGE), or have one set for all (muster serve --default-image IMAGE)"
		}
	}
	return ""
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
		if known := job.Status.CodeSnapshot; known != "" && job.Status.ObservedGeneration == job.Generation && c.has(job, known) {
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
	stored, err := c.deps.Sources.Has(owner(job), digest)
	if err != nil {
		return preparation{message: awaits(err)}
	}
	if !stored {
		return preparation{failure: fmt.Sprintf("code: the snapshot %s is not stored here; submit the job with muster run from the code's folder", digest)}
	}
	for i := range job.Spec.Roles {
		script := scriptOf(job, &job.Spec.Roles[i])
		if script == "" || path.IsAbs(script) || strings.Contains(script, "$(") {
			continue
		}
		found, err := c.deps.Sources.Contains(owner(job), digest, script)
		if errors.Is(err, source.ErrAway) || errors.Is(err, source.ErrAsked) {
			return preparation{message: awaits(err)}
		}
		if err != nil {
			return preparation{failure: "code: " + err.Error()}
		}
		if !found {
			return preparation{failure: fmt.Sprintf("role %s: the script %s is not in the job's code; its path is relative to the code folder, and ignored files are left out", job.Spec.Roles[i].Name, script)}
		}
	}
	return preparation{code: digest}
}

// awaits says that it is not known yet what the store has.
func awaits(err error) string {
	if errors.Is(err, source.ErrAsked) {
		return "code: " + err.Error()
	}
	return "code: " + err.Error() + "; trying again"
}

// has reports whether a snapshot that was made before is still stored.
func (c *Controller) has(job *v1alpha1.TrainingJob, digest string) bool {
	stored, err := c.deps.Sources.Has(owner(job), digest)
	return stored || err != nil
}

func (c *Controller) prepareEnvironment(job *v1alpha1.TrainingJob, code string) preparation {
	env := job.Spec.Environment
	if env == nil || env.Requirements == "" && (env.Image != "" || env.Path == "" && env.Python == "") {
		return preparation{}
	}
	request := environment.Request{Namespace: job.Namespace, Requirements: env.Requirements, Python: env.Python, Path: env.Path, Secret: environment.SecretIn(job.Namespace, env.IndexSecret)}
	var problem string
	if request.Image, problem = c.imageFor(job); problem != "" {
		return preparation{failure: problem}
	}
	packages, missing := c.packagesOf(job, code)
	if missing != nil {
		return *missing
	}
	if request.Packages = packages; packages != nil {
		request.Code = code
	}
	state := c.deps.Environments.Ensure(job, request)
	p := preparation{environment: state.Key, searchPath: state.SearchPath}
	if state.Lock != nil {
		p.inImage, p.architecture = true, architectures[state.Lock.Platform]
	}
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

// imageFor is the image whose Python the job's environment is for, or what is
// wrong with it. Where members may run as the machine's own processes it is that
// of the environment alone: which Python another image means is for the node.
func (c *Controller) imageFor(job *v1alpha1.TrainingJob) (name, problem string) {
	if c.deps.HostImage == hostImage {
		return job.Spec.Environment.Image, ""
	}
	p := preparation{hostImage: c.deps.HostImage}
	for i := range job.Spec.Roles {
		switch named := p.image(job, &job.Spec.Roles[i]); {
		case i == 0:
			name = named
		case named != name:
			return "", fmt.Sprintf("environment: roles %s and %s run in different images (%s and %s), and an environment is for the Python of one: give them the same (environment.image; muster run --image IMAGE)",
				job.Spec.Roles[0].Name, job.Spec.Roles[i].Name, name, named)
		}
	}
	return name, ""
}
