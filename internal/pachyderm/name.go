package pachyderm

import (
	"regexp"
	"strings"

	"github.com/muster-dev/muster/api/v1alpha1"
)

var (
	pipelineName  = regexp.MustCompile(`^[a-z]([-a-z0-9]*[a-z0-9])?$`)
	datasetName   = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)
	inputName     = regexp.MustCompile(`^[A-Za-z][-A-Za-z0-9_]*$`)
	branchName    = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`)
	namespaceName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)
)

const (
	// theirBranch is the branch that Pachyderm means where none is named. It is
	// v1alpha1.DefaultBranch here.
	theirBranch = "master"
	// theirProject is the project that is meant where none is named.
	theirProject = "default"
)

// tame is a name of Pachyderm's as objects of Kubernetes may have it.
func tame(name string) string { return strings.ReplaceAll(strings.ToLower(name), "_", "-") }

// repo is the dataset that a repo is.
func (c *conversion) repo(at, repo string) string {
	name := tame(repo)
	if !datasetName.MatchString(name) || len(name) < 3 || len(name) > 63 {
		c.refuse(at, "%s cannot be the name of a dataset, which has 3 to 63 letters, digits, '-' and '_', of which these two are neither first nor last: rename it", describe(repo))
		return name
	}
	if before, known := c.repos[name]; known && before != repo {
		c.refuse(at, "the repos %s and %s would both be the dataset %s: rename one", before, repo, name)
	}
	c.repos[name] = repo
	return name
}

// branch is the branch of a dataset that a branch of a repo is: empty for the one
// that is meant where none is named.
func (c *conversion) branch(at, repo, branch string) v1alpha1.DatasetRef {
	out := branch
	if branch == "" || branch == theirBranch {
		branch, out = theirBranch, ""
	}
	here := out
	if here == "" {
		here = v1alpha1.DefaultBranch
	}
	if !branchName.MatchString(here) || len(here) > 63 {
		c.refuse(at, "%s: branches have up to 63 letters, digits, '.', '_' and '-', a letter or digit first and last", describe(branch))
		return ""
	}
	key := tame(repo) + "@" + here
	if before, known := c.branches[key]; known && before != branch {
		c.refuse(at, "%s and %s of %s would both be %s here, where %s is named so: rename one", before, branch, repo, here, theirBranch)
	}
	c.branches[key] = branch
	return v1alpha1.DatasetRef(out)
}

// namespace is the namespace that a project is: empty, for the one that is
// applied to, for the project that is meant where none is named.
func (c *conversion) namespace(at, project string) string {
	if project == "" || project == theirProject {
		return ""
	}
	name := tame(project)
	if !namespaceName.MatchString(name) || len(name) > 63 {
		c.refuse(at, "%s cannot be the name of a namespace, which a project is here: rename it", describe(project))
		return ""
	}
	if name != project {
		c.note(at, "is the namespace %s here", name)
	}
	return name
}

// sameProject refuses what is in another project than its pipeline.
func (c *conversion) sameProject(at, given, pipeline string) {
	if given == "" {
		return
	}
	if pipeline == "" {
		pipeline = theirProject
	}
	if given != pipeline {
		c.refuse(at, "is another project than the pipeline's, %s; a project is a namespace here, and a pipeline reads the datasets of its own: put a copy there, or move the pipeline", pipeline)
	}
}
