// Package kind owns how users name kinds and objects on a command line: "tj",
// "pods,services", "pod/mnist-worker-0", or just a training job's name.
//
// It must not know any command.
package kind

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/suggestion"
)

// Wanted is objects of one kind.
type Wanted struct {
	// Mapping is the kind and where the server keeps it.
	Mapping *meta.RESTMapping
	// Names are the objects that were named; none: all.
	Names []string
}

// Namespaced reports whether the kind's objects are in namespaces.
func (w Wanted) Namespaced() bool { return w.Mapping.Scope.Name() == meta.RESTScopeNameNamespace }

// TrainingJobs is the group and kind that is meant where none is named.
var TrainingJobs = v1alpha1.GroupVersion.WithKind("TrainingJob").GroupKind()

// common are the kinds that "did you mean" proposes.
var common = []string{
	"tfjobs", "pytorchjobs",
	"trainingjobs", "datasets", "gangs", "placements", "pods", "nodes", "services", "configmaps", "secrets", "events", "namespaces",
	"deployments", "statefulsets", "jobs", "cronjobs", "persistentvolumeclaims", "persistentvolumes", "endpointslices",
}

// Parse reads the arguments of commands such as get:
//
//	(nothing)            all training jobs
//	KIND[,KIND]          all objects of these kinds
//	KIND NAME...         these objects
//	KIND/NAME...         these objects
//	NAME...              these training jobs
//
// A word that is a kind is one, even if a job bears it as its name.
func Parse(mapper meta.RESTMapper, args []string) ([]Wanted, error) {
	if len(args) == 0 {
		jobs, err := mapper.RESTMapping(TrainingJobs)
		if err != nil {
			return nil, err
		}
		return []Wanted{{Mapping: jobs}}, nil
	}
	if strings.Contains(args[0], "/") {
		return parsePairs(mapper, args)
	}
	var wanted []Wanted
	for word := range strings.SplitSeq(args[0], ",") {
		mapping, err := Find(mapper, word)
		if meta.IsNoMatchError(err) && !strings.Contains(args[0], ",") {
			return parseJobs(mapper, args)
		}
		if err != nil {
			return nil, unknown(word, err)
		}
		wanted = append(wanted, Wanted{Mapping: mapping, Names: args[1:]})
	}
	return wanted, nil
}

func parsePairs(mapper meta.RESTMapper, args []string) ([]Wanted, error) {
	var wanted []Wanted
	for _, arg := range args {
		word, name, found := strings.Cut(arg, "/")
		if !found || word == "" || name == "" || strings.Contains(name, "/") {
			return nil, exit.Usage("%s: give KIND/NAME, like the others", arg)
		}
		mapping, err := Find(mapper, word)
		if err != nil {
			return nil, unknown(word, err)
		}
		wanted = append(wanted, Wanted{Mapping: mapping, Names: []string{name}})
	}
	return wanted, nil
}

func parseJobs(mapper meta.RESTMapper, args []string) ([]Wanted, error) {
	jobs, err := mapper.RESTMapping(TrainingJobs)
	if err != nil {
		return nil, err
	}
	return []Wanted{{Mapping: jobs, Names: args}}, nil
}

// unknown is the error for a word that is no kind.
func unknown(word string, err error) error {
	if meta.IsNoMatchError(err) {
		return exit.NotFound("the server knows no kind %q%s", word, suggestion.Phrase(word, common))
	}
	return fmt.Errorf("asking the server for its kinds: %w", err)
}

// Find returns the kind that word names: in singular or plural, in short, with
// its group (jobs.batch) or group and version (jobs.v1.batch).
func Find(mapper meta.RESTMapper, word string) (*meta.RESTMapping, error) {
	full, group := schema.ParseResourceArg(strings.ToLower(word))
	var found schema.GroupVersionKind
	var err error
	if full != nil {
		found, err = mapper.KindFor(*full)
	}
	if full == nil || err != nil {
		found, err = mapper.KindFor(group.WithVersion(""))
	}
	if err != nil {
		return nil, err
	}
	return mapper.RESTMapping(found.GroupKind(), found.Version)
}
