package dataset

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/ref"
)

// Size is what the object says of the commit that a branch is at.
type Size struct {
	// Files counts the files of the commit, Bytes is their size together.
	Files, Bytes int64
}

// move is one change of a head.
type move struct {
	name     ref.Name
	from, to digest.ID
	size     Size
	at       time.Time
}

var refName = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`)

// checkName refuses names that the object cannot hold.
func checkName(name ref.Name) error {
	switch name.Kind {
	case ref.Branch, ref.Tag, ref.Open:
	default:
		return fmt.Errorf("%q is no kind of head: it is a branch, a tag, or an open commit", name.Kind)
	}
	if !refName.MatchString(name.Name) {
		return fmt.Errorf("%q is no name for a %s: give up to 63 letters, digits, '.', '_' and '-', beginning and ending with a letter or digit", name.Name, name.Kind)
	}
	return nil
}

// at is where a head is; zero: nowhere. What cannot be read as a commit is an
// error: whoever wrote it by hand has to put it right.
func at(spec *v1alpha1.DatasetSpec, name ref.Name) (digest.ID, error) {
	switch name.Kind {
	case ref.Tag:
		if i := tagIndex(spec, name.Name); i >= 0 {
			return commit(name, spec.Tags[i].Commit)
		}
	case ref.Open:
		if i := openIndex(spec, name.Name); i >= 0 {
			return commit(name, spec.Open[i].Commit)
		}
	default:
		if i := branchIndex(spec, name.Name); i >= 0 {
			return commit(name, spec.Branches[i].Commit)
		}
	}
	return digest.ID{}, nil
}

func commit(name ref.Name, text v1alpha1.DatasetCommit) (digest.ID, error) {
	id, err := digest.Parse(string(text))
	if err != nil {
		return id, fmt.Errorf("reading where %s is: %w", name, err)
	}
	return id, nil
}

func branchIndex(spec *v1alpha1.DatasetSpec, name string) int {
	return slices.IndexFunc(spec.Branches, func(b v1alpha1.DatasetBranch) bool { return string(b.Name) == name })
}

func openIndex(spec *v1alpha1.DatasetSpec, name string) int {
	return slices.IndexFunc(spec.Open, func(o v1alpha1.DatasetOpenCommit) bool { return string(o.Name) == name })
}

func tagIndex(spec *v1alpha1.DatasetSpec, name string) int {
	return slices.IndexFunc(spec.Tags, func(t v1alpha1.DatasetTag) bool { return string(t.Name) == name })
}

// apply makes changes, all of them or none that counts: where one cannot be, the object
// is of no use any more.
func apply(spec *v1alpha1.DatasetSpec, moves []move) error {
	for _, m := range moves {
		if err := m.apply(spec); err != nil {
			return err
		}
	}
	return nil
}

// apply makes the change, or says with a [ref.MovedError] that the head is
// elsewhere than it was thought to be.
func (m move) apply(spec *v1alpha1.DatasetSpec) error {
	found, err := at(spec, m.name)
	if err != nil {
		return err
	}
	if found != m.from {
		return &ref.MovedError{Name: m.name, Thought: m.from, Found: found}
	}
	if m.from == m.to {
		return nil
	}
	if m.from.IsZero() && !m.to.IsZero() {
		if err := m.room(spec); err != nil {
			return err
		}
	}
	if m.name.Kind == ref.Branch && m.to.IsZero() && openIndex(spec, m.name.Name) >= 0 {
		return fmt.Errorf("%s has an open commit: close or discard that first", m.name)
	}
	switch m.name.Kind {
	case ref.Tag:
		m.applyTag(spec)
	case ref.Open:
		m.applyOpen(spec)
	default:
		m.applyBranch(spec)
	}
	return nil
}

// room refuses a new head that the object has no place for.
func (m move) room(spec *v1alpha1.DatasetSpec) error {
	name := m.name.Name
	switch {
	case m.name.Kind == ref.Open && tagIndex(spec, name) >= 0:
		return fmt.Errorf("%s is a tag, and does not move: open a commit of a branch", name)
	case m.name.Kind == ref.Open && len(spec.Open) >= v1alpha1.MaxDatasetBranches:
		return fmt.Errorf("%d commits are open already, and no more are allowed: close or discard one", len(spec.Open))
	case m.name.Kind == ref.Branch && tagIndex(spec, name) >= 0:
		return fmt.Errorf("there is a tag %s already: give the branch another name, so that it is clear which is meant", name)
	case m.name.Kind == ref.Tag && (branchIndex(spec, name) >= 0 || openIndex(spec, name) >= 0):
		return fmt.Errorf("there is a branch %s already: give the tag another name, so that it is clear which is meant", name)
	case m.name.Kind == ref.Branch && len(spec.Branches) >= v1alpha1.MaxDatasetBranches:
		return fmt.Errorf("there are %d branches already, and no more are allowed: delete one that is not needed", len(spec.Branches))
	case m.name.Kind == ref.Tag && len(spec.Tags) >= v1alpha1.MaxDatasetTags:
		return fmt.Errorf("there are %d tags already, and no more are allowed: delete one that is not needed", len(spec.Tags))
	}
	return nil
}

func (m move) applyBranch(spec *v1alpha1.DatasetSpec) {
	i := branchIndex(spec, m.name.Name)
	if m.to.IsZero() {
		if i >= 0 {
			spec.Branches = slices.Delete(spec.Branches, i, i+1)
		}
		return
	}
	branch := v1alpha1.DatasetBranch{
		Name: v1alpha1.DatasetRef(m.name.Name), Commit: v1alpha1.DatasetCommit(m.to.String()),
		Files: m.size.Files, Bytes: m.size.Bytes, Moved: &metav1.Time{Time: m.at},
	}
	if i >= 0 {
		spec.Branches[i] = branch
		return
	}
	spec.Branches = append(spec.Branches, branch)
	slices.SortFunc(spec.Branches, func(a, b v1alpha1.DatasetBranch) int {
		return strings.Compare(string(a.Name), string(b.Name))
	})
}

func (m move) applyOpen(spec *v1alpha1.DatasetSpec) {
	i := openIndex(spec, m.name.Name)
	if m.to.IsZero() {
		if i >= 0 {
			spec.Open = slices.Delete(spec.Open, i, i+1)
		}
		return
	}
	now := metav1.Time{Time: m.at}
	open := v1alpha1.DatasetOpenCommit{
		Name: v1alpha1.DatasetRef(m.name.Name), Commit: v1alpha1.DatasetCommit(m.to.String()),
		Files: m.size.Files, Bytes: m.size.Bytes, Opened: &now, Moved: &now,
	}
	if i >= 0 {
		open.Opened = spec.Open[i].Opened
		spec.Open[i] = open
		return
	}
	spec.Open = append(spec.Open, open)
	slices.SortFunc(spec.Open, func(a, b v1alpha1.DatasetOpenCommit) int {
		return strings.Compare(string(a.Name), string(b.Name))
	})
}

func (m move) applyTag(spec *v1alpha1.DatasetSpec) {
	i := tagIndex(spec, m.name.Name)
	if m.to.IsZero() {
		if i >= 0 {
			spec.Tags = slices.Delete(spec.Tags, i, i+1)
		}
		return
	}
	tag := v1alpha1.DatasetTag{
		Name: v1alpha1.DatasetRef(m.name.Name), Commit: v1alpha1.DatasetCommit(m.to.String()), Made: &metav1.Time{Time: m.at},
	}
	if i >= 0 {
		spec.Tags[i] = tag
		return
	}
	spec.Tags = append(spec.Tags, tag)
	slices.SortFunc(spec.Tags, func(a, b v1alpha1.DatasetTag) int { return strings.Compare(string(a.Name), string(b.Name)) })
}

// all are the heads that an object holds.
func all(spec *v1alpha1.DatasetSpec) (map[ref.Name]digest.ID, error) {
	heads := make(map[ref.Name]digest.ID, len(spec.Branches)+len(spec.Open)+len(spec.Tags))
	for _, branch := range spec.Branches {
		name := ref.Name{Kind: ref.Branch, Name: string(branch.Name)}
		id, err := commit(name, branch.Commit)
		if err != nil {
			return nil, err
		}
		heads[name] = id
	}
	for _, open := range spec.Open {
		name := ref.Name{Kind: ref.Open, Name: string(open.Name)}
		id, err := commit(name, open.Commit)
		if err != nil {
			return nil, err
		}
		heads[name] = id
	}
	for _, tag := range spec.Tags {
		name := ref.Name{Kind: ref.Tag, Name: string(tag.Name)}
		id, err := commit(name, tag.Commit)
		if err != nil {
			return nil, err
		}
		heads[name] = id
	}
	return heads, nil
}
