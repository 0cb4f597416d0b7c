package stores

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/environment"
	"github.com/muster-dev/muster/internal/environment/retention"
	"github.com/muster-dev/muster/internal/osfile"
)

// Grants know which namespace may use which environment. Each is an empty file,
// <namespace>/<key>, so that pods start again after a restart of Muster.
type Grants struct {
	dir string

	mu    sync.Mutex
	known map[grant]bool
}

// grant is the right of the pods of a namespace to use the environment of a key.
type grant struct{ namespace, key string }

func openGrants(dir string) (*Grants, error) {
	if err := osfile.MakeFolder(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the folder of grants: %w", err)
	}
	g := &Grants{dir: dir, known: map[grant]bool{}}
	all, err := g.stored()
	for _, one := range all {
		g.known[one] = true
	}
	return g, err
}

// stored reads all grants.
func (g *Grants) stored() ([]grant, error) {
	namespaces, err := os.ReadDir(g.dir)
	if err != nil {
		return nil, fmt.Errorf("reading which namespace may use which environment: %w", err)
	}
	var all []grant
	for _, n := range namespaces {
		keys, err := os.ReadDir(filepath.Join(g.dir, n.Name()))
		if err != nil {
			return nil, fmt.Errorf("reading which environments namespace %s may use: %w", n.Name(), err)
		}
		for _, k := range keys {
			if one := (grant{n.Name(), k.Name()}); one.check() == nil {
				all = append(all, one)
			}
		}
	}
	return all, nil
}

// check refuses what would be the path of another file.
func (g grant) check() error {
	for _, name := range []string{g.namespace, g.key} {
		odd := strings.ContainsFunc(name, func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' })
		if name == "" || odd {
			return fmt.Errorf("%q in namespace %q is no environment: its key is of lower-case letters, digits and dashes", g.key, g.namespace)
		}
	}
	return nil
}

// Give lets a namespace use an environment. The grant is durable once Give returns.
func (g *Grants) Give(namespace, key string) error {
	one := grant{namespace, key}
	if err := one.check(); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.known[one] {
		return nil
	}
	dir := filepath.Join(g.dir, namespace)
	err := osfile.MakeFolder(dir, 0o700)
	if err == nil {
		err = osfile.Replace(filepath.Join(dir, key), nil, 0o600)
	}
	if err != nil {
		return fmt.Errorf("noting that namespace %s uses environment %s: %w", namespace, key, err)
	}
	g.known[one] = true
	return nil
}

// check returns an error if a namespace may not use an environment.
func (g *Grants) check(namespace, key string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.known[grant{namespace, key}] {
		return nil
	}
	return fmt.Errorf("no job of namespace %s has asked for environment %q: create a job with its requirements, which makes it ready", namespace, key)
}

// ofUser begins the keys of environments that users made. Those are not below the data
// folder, and no object has to name their keys: their grants stay.
const ofUser = "path-"

// sweep removes the grants of environments that are not on disk and that nothing refers to.
func (g *Grants) sweep(environments string, live *retention.References) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	var errs []error
	for one := range g.known {
		_, err := os.Lstat(filepath.Join(environments, one.key))
		if !errors.Is(err, fs.ErrNotExist) || live.Has(one.key) || strings.HasPrefix(one.key, ofUser) {
			continue
		}
		dir := filepath.Join(g.dir, one.namespace)
		if err := os.Remove(filepath.Join(dir, one.key)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
			continue
		}
		delete(g.known, one)
		_ = os.Remove(dir) // the last one's
	}
	return errors.Join(errs...)
}

// Folders has the folders of environments by their keys.
type Folders interface {
	Path(key string) (string, error)
	Bench(key, who string) (string, error)
}

// Environments are the environments as the node sees them: pods find those that their
// namespace may use.
type Environments struct {
	Grants  *Grants
	Folders Folders
}

// Path implements volume.Environments.
func (e Environments) Path(namespace, key string) (string, error) {
	if err := e.Grants.check(namespace, key); err != nil {
		return "", err
	}
	return e.Folders.Path(key)
}

// Bench implements volume.Environments.
func (e Environments) Bench(namespace, key, who string) (string, error) {
	if err := e.Grants.check(namespace, key); err != nil {
		return "", err
	}
	return e.Folders.Bench(key, who)
}

// Outfitter makes environments ready for jobs and runs.
type Outfitter interface {
	Ensure(*v1alpha1.TrainingJob, environment.Request) environment.State
	EnsureFor(*v1alpha1.PipelineRun, []v1alpha1.Role, environment.Request) environment.State
	Changes() <-chan string
}

// Granting is an outfitter that gives a namespace the environments that it asks for.
type Granting struct {
	Outfitter
	Grants *Grants
}

// Ensure is [Outfitter.Ensure].
func (o Granting) Ensure(job *v1alpha1.TrainingJob, r environment.Request) environment.State {
	return o.give(job.Namespace, o.Outfitter.Ensure(job, r))
}

// EnsureFor is [Outfitter.EnsureFor].
func (o Granting) EnsureFor(run *v1alpha1.PipelineRun, roles []v1alpha1.Role, r environment.Request) environment.State {
	return o.give(run.Namespace, o.Outfitter.EnsureFor(run, roles, r))
}

// give grants the environment of a state as soon as its key is known: a pod of the
// namespace may have to build it.
func (o Granting) give(namespace string, s environment.State) environment.State {
	if s.Key == "" || s.Phase == environment.Failed {
		return s
	}
	if err := o.Grants.Give(namespace, s.Key); err != nil {
		return environment.State{Phase: environment.Failed, Key: s.Key, Message: err.Error()}
	}
	return s
}
