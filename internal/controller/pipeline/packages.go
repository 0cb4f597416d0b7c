package pipeline

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/environment"
	"github.com/muster-dev/muster/internal/osfile"
	"github.com/muster-dev/muster/internal/pipeline"
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
		err = countPrograms(ctx, stage, env, &print)
	}
	return setting{print: print}, err
}

// countPrograms makes the machine's own files that a stage's command runs count for its results.
func countPrograms(ctx context.Context, stage *pipeline.Stage, env *v1alpha1.Environment, print *pipeline.Fingerprint) error {
	folder := ""
	if env != nil {
		folder = env.Path
	}
	found, err := programs.OfStage(ctx, &stage.Spec, folder)
	if err != nil || len(found) == 0 {
		return err
	}
	h := sha256.New()
	for _, f := range found {
		_, _ = fmt.Fprintf(h, "%s\x00%s\x00", f.Path, f.Digest)
		print.Parts["program "+f.Path] = f.Digest
	}
	print.ID += " programs " + hex.EncodeToString(h.Sum(nil))
	return nil
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
	packages, err := installed(state.Path)
	if err != nil {
		return pipeline.Fingerprint{}, err
	}
	// The key has interpreter and platform in it; of an environment that somebody
	// else made also where it lies, which changes nothing.
	python, _, _ := strings.Cut(strings.TrimPrefix(state.Message, "ready, "), " at ")
	return locked(map[string]string{"python": python, "platform": platform}, packages, platform, python), nil
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
	case m.Environments == nil:
		return "environment: environments are not built from requirements on this cluster: that takes a store and agents (muster install --set agent.create=true --set store.persistentVolumeClaim=NAME, or store.s3);" +
			" or install them into an image and name it (environment.image)"
	}
	_, problem := m.pythonOf(stage)
	return problem
}

// installed are the packages of an environment with their versions, as they are
// named in it, in order.
func installed(path string) ([]string, error) {
	found, err := filepath.Glob(filepath.Join(path, "lib", "python3*", "site-packages", "*.dist-info"))
	if err != nil {
		return nil, fmt.Errorf("reading what is installed in %s: %w", path, err)
	}
	var out []string
	for _, name := range found {
		if info, err := os.Stat(name); err == nil && info.IsDir() {
			out = append(out, strings.TrimSuffix(filepath.Base(name), ".dist-info")+origin(name))
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// mostOrigin is the most bytes of a file that names the origin of a package.
const mostOrigin = 1 << 20

// origin is, of a package that comes from a place of its own, what was fetched from
// there, or else the place: its version does not say that. The builds of a cluster have
// the same in build.py.
func origin(info string) string {
	folder, err := os.OpenRoot(info + "/.")
	if err != nil {
		return ""
	}
	defer func() { _ = folder.Close() }()
	text, err := osfile.ReadRegular(folder, "direct_url.json", mostOrigin)
	if err != nil {
		return "" // it comes from an index
	}
	var said struct {
		URL     string `json:"url"`
		Archive struct {
			Hash   string            `json:"hash"`
			Hashes map[string]string `json:"hashes"`
		} `json:"archive_info"`
		Repository struct {
			Commit string `json:"commit_id"`
		} `json:"vcs_info"`
	}
	if json.Unmarshal(text, &said) != nil {
		return ""
	}
	hash := said.Archive.Hash
	if hash == "" && len(said.Archive.Hashes) > 0 {
		first := slices.Sorted(maps.Keys(said.Archive.Hashes))[0]
		hash = first + "=" + said.Archive.Hashes[first]
	}
	// What a place is called may have a secret in it.
	place := sha256.Sum256([]byte(said.URL))
	return " @ " + cmp.Or(said.Repository.Commit, hash, "url="+hex.EncodeToString(place[:]))
}
