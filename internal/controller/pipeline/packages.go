package pipeline

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/environment"
	"github.com/muster-dev/muster/internal/pipeline"
	"github.com/muster-dev/muster/internal/pipeline/command"
	"github.com/muster-dev/muster/internal/pipeline/programs"
)

// setting is what the programs of a stage run in and with.
type setting struct {
	// print is what of it counts for results.
	print pipeline.Fingerprint
	// apart says that programs do not see the machine's files.
	apart bool
	// image is the image as the stage names it, exact what was found under that name, which
	// is what runs; empty: the name is run as it is.
	image, exact string
}

// environment is what the stage's programs run in and with.
func (c *Runs) environment(ctx context.Context, run *v1alpha1.PipelineRun, stage *pipeline.Stage) (setting, error) {
	m, env := c.deps.Machine, environmentOf(stage)
	if packaged(env) && (m.Elsewhere || m.imageOf(stage) != "") {
		return c.onTop(ctx, run, stage)
	}
	if name := m.imageOf(stage); name != "" {
		state, print, err := c.inImage(ctx, run, stage, name)
		if err != nil || !state.Host {
			return setting{print: print, apart: true, image: name, exact: state.Exact}, err
		}
		env = standsFor(state)
	}
	print, err := c.packages(ctx, run, env)
	if err == nil {
		err = m.countPrograms(ctx, run.Namespace, stage, env, &print)
	}
	return setting{print: print}, err
}

// countPrograms makes the machine's own files that a stage's command runs count for its results.
func (m *Machine) countPrograms(ctx context.Context, namespace string, stage *pipeline.Stage, env *v1alpha1.Environment, print *pipeline.Fingerprint) error {
	folder := ""
	if env != nil {
		folder = env.Path
	}
	found, err := m.look(ctx, namespace, programs.Request{Commands: command.Of(&stage.Spec), Environment: folder})
	if err != nil || len(found.Files) == 0 {
		return err
	}
	h := sha256.New()
	for _, f := range found.Files {
		_, _ = fmt.Fprintf(h, "%s\x00%s\x00", f.Path, f.Digest)
		print.Parts["program "+f.Path] = f.Digest
	}
	print.ID += " programs " + hex.EncodeToString(h.Sum(nil))
	return nil
}

// look looks at files that a user names: as the owner of the namespace, on a machine that users share.
func (m *Machine) look(ctx context.Context, namespace string, r programs.Request) (programs.Answer, error) {
	if !m.Shared {
		return programs.Look(ctx, r)
	}
	words, err := r.Words()
	if err != nil {
		return programs.Answer{}, err
	}
	said, err := m.Run(ctx, namespace, append([]string{m.Worker}, words...)...)
	if err != nil {
		return programs.Answer{}, fmt.Errorf("looking at the programs of the stage as the owner of namespace %s: %w: %.1000s", namespace, err, said)
	}
	return programs.Read(said)
}

// standsFor is the environment of this machine that an image stands for.
func standsFor(state ImageState) *v1alpha1.Environment {
	return &v1alpha1.Environment{Path: state.Path}
}

// packaged says that an environment is more than an image.
func packaged(env *v1alpha1.Environment) bool {
	return env != nil && (env.Requirements != "" || env.Path != "" || env.Python != "")
}

// requestOf is the request for an environment of a run, in an image unless that is empty.
func requestOf(run *v1alpha1.PipelineRun, env *v1alpha1.Environment, image string) environment.Request {
	r := environment.Request{Namespace: run.Namespace, Requirements: env.Requirements, Python: env.Python, Image: image, Secret: environment.SecretIn(run.Namespace, env.IndexSecret)}
	if image == "" {
		r.Path = env.Path
	}
	return r
}

// packages are what programs on this machine run with.
func (c *Runs) packages(ctx context.Context, run *v1alpha1.PipelineRun, env *v1alpha1.Environment) (pipeline.Fingerprint, error) {
	platform := runtime.GOOS + "/" + runtime.GOARCH
	if !packaged(env) {
		python, err := c.deps.Machine.Interpreter(ctx)
		if err != nil {
			python = "no Python"
		}
		return pipeline.Fingerprint{ID: "machine " + platform + " " + python, Parts: map[string]string{"python": python, "platform": platform}}, nil
	}
	if err := environment.Password(env.Requirements); err != nil {
		return pipeline.Fingerprint{}, &unfit{"environment: requirements: " + err.Error()}
	}
	state := c.deps.Machine.Environments.EnsureFor(run, nil, requestOf(run, env, ""))
	switch state.Phase {
	case environment.Failed:
		return pipeline.Fingerprint{}, &unfit{"environment: " + state.Message}
	case environment.Building:
		return pipeline.Fingerprint{}, &notYet{message: "environment: " + state.Message}
	}
	there, err := c.deps.Machine.look(ctx, run.Namespace, programs.Request{Environment: state.Path, Packages: true})
	if err != nil {
		return pipeline.Fingerprint{}, err
	}
	// The key has interpreter and platform in it; of an environment that somebody
	// else made also where it lies, which changes nothing.
	python, _, _ := strings.Cut(strings.TrimPrefix(state.Message, "ready, "), " at ")
	return locked(map[string]string{"python": python, "platform": platform}, there.Packages, platform, python), nil
}

// locked is what packages come to, beside other words that count.
func locked(parts map[string]string, packages []string, words ...string) pipeline.Fingerprint {
	h := sha256.New()
	for _, word := range slices.Concat(words, packages) {
		_, _ = fmt.Fprintf(h, "%s\x00", word)
	}
	for _, p := range packages {
		name, version, _ := strings.Cut(p, "-")
		parts[name] = version
	}
	return pipeline.Fingerprint{ID: "packages " + hex.EncodeToString(h.Sum(nil)), Parts: parts}
}

// onTop is what programs run with in an image, and packages on top of it. What they were
// resolved to counts, not how they were asked for.
func (c *Runs) onTop(ctx context.Context, run *v1alpha1.PipelineRun, stage *pipeline.Stage) (setting, error) {
	m, env := c.deps.Machine, environmentOf(stage)
	name, problem := m.pythonOf(stage)
	if problem != "" {
		return setting{}, &unfit{problem}
	}
	is, image, err := c.inImage(ctx, run, stage, name)
	if err != nil {
		return setting{}, err
	}
	if is.Host {
		return setting{}, &unfit{fmt.Sprintf("environment.image: %s stands for this machine's own programs, on top of which no packages are put: give requirements without it", name)}
	}
	var roles []v1alpha1.Role
	if t := stage.Spec.Training; t != nil {
		roles = t.Roles
	}
	if err := environment.Password(env.Requirements); err != nil {
		return setting{}, &unfit{"environment: requirements: " + err.Error()}
	}
	state := m.Environments.EnsureFor(run, roles, requestOf(run, env, cmp.Or(is.Exact, name)))
	switch state.Phase {
	case environment.Failed:
		return setting{}, &unfit{"environment: " + state.Message}
	case environment.Building:
		return setting{}, &notYet{message: "building its environment: " + state.Message}
	}
	in := setting{apart: true, image: name, exact: is.Exact}
	lock, parts := state.Lock, maps.Clone(image.Parts)
	parts["python"] = lock.Python
	if lock.Packages == nil { // it was built by a Muster of before, which did not say
		parts["files"] = lock.Hash
		in.print = locked(parts, nil, image.ID, lock.Python, "files", lock.Hash)
		return in, nil
	}
	parts["platform"] = lock.Platform
	in.print = locked(parts, lock.Packages, image.ID, lock.Python, lock.Platform)
	return in, nil
}

// pythonOf is the image whose Python the packages of a stage are for, or why there is not
// one.
func (m *Machine) pythonOf(stage *pipeline.Stage) (name, problem string) {
	name = m.imageOf(stage)
	if env := environmentOf(stage); env != nil && env.Image != "" || stage.Spec.Training == nil {
		return name, ""
	}
	for i := range stage.Spec.Training.Roles {
		role := &stage.Spec.Training.Roles[i]
		named := cmp.Or(imageOfRole(role), m.DefaultImage)
		if i > 0 && named != name {
			return "", fmt.Sprintf("environment: roles %s and %s run in different images (%s and %s), and packages are for the Python of one: give them the same (environment.image)",
				stage.Spec.Training.Roles[0].Name, role.Name, name, named)
		}
		name = named
	}
	return name, ""
}

// cannotBuild says in words why packages cannot be put on top of the image of a stage;
// empty: they can.
func (m *Machine) cannotBuild(stage *pipeline.Stage) string {
	env := environmentOf(stage)
	switch {
	case env.Path != "" && m.Elsewhere:
		return "environment.path: " + env.Path + " is a folder of one machine, and this is a cluster: give environment.requirements, or put the environment into an image and name it (environment.image)"
	case env.Path != "":
		return "environment.path: " + env.Path + " is for this machine's own programs, and not for those of an image: give one of the two"
	case env.Requirements == "" && env.Image != "":
		return "environment.python: the image " + env.Image + " has the Python that it has: leave it out, or give requirements that want it"
	case m.Shared:
		return "environment.requirements: nothing is installed on top of the image " + m.imageOf(stage) + " where users share one Muster: give requirements without an image, or install them into an image and name that"
	case m.Environments == nil:
		return "environment: environments are not built from requirements on this cluster: that takes a store and agents (muster install --set agent.create=true --set store.persistentVolumeClaim=NAME, or store.s3);" +
			" or install them into an image and name it (environment.image)"
	}
	_, problem := m.pythonOf(stage)
	return problem
}
