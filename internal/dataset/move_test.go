package dataset

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/ref"
)

var (
	one, two = digest.Of([]byte("one")), digest.Of([]byte("two"))
	noon     = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
)

func branch(name string) ref.Name { return ref.Name{Kind: ref.Branch, Name: name} }
func tag(name string) ref.Name    { return ref.Name{Kind: ref.Tag, Name: name} }
func open(name string) ref.Name   { return ref.Name{Kind: ref.Open, Name: name} }

// spec makes one of "b main 1", "t v1 2", "o main 2" and so on.
func spec(heads ...string) v1alpha1.DatasetSpec {
	var s v1alpha1.DatasetSpec
	commits := map[string]v1alpha1.DatasetCommit{"1": v1alpha1.DatasetCommit(one.String()), "2": v1alpha1.DatasetCommit(two.String())}
	for _, head := range heads {
		words := strings.Fields(head)
		switch words[0] {
		case "o":
			s.Open = append(s.Open, v1alpha1.DatasetOpenCommit{Name: v1alpha1.DatasetRef(words[1]), Commit: commits[words[2]], Files: 3, Bytes: 4, Opened: &metav1.Time{Time: noon}, Moved: &metav1.Time{Time: noon}})
		case "b":
			s.Branches = append(s.Branches, v1alpha1.DatasetBranch{Name: v1alpha1.DatasetRef(words[1]), Commit: commits[words[2]], Files: 3, Bytes: 4, Moved: &metav1.Time{Time: noon}})
		default:
			s.Tags = append(s.Tags, v1alpha1.DatasetTag{Name: v1alpha1.DatasetRef(words[1]), Commit: commits[words[2]], Made: &metav1.Time{Time: noon}})
		}
	}
	return s
}

// crowd is so many branches, or tags.
func crowd(kind string, n int) []string {
	var heads []string
	for i := range n {
		heads = append(heads, fmt.Sprintf("%s x%d 1", kind, i))
	}
	return heads
}

func TestMoves(t *testing.T) {
	for _, c := range []struct {
		name     string
		before   []string
		head     ref.Name
		from, to digest.ID
		after    []string
		err      string
		moved    *ref.MovedError
	}{
		{name: "the first branch", head: branch("main"), to: one, after: []string{"b main 1"}},
		{name: "a branch moves", before: []string{"b main 1", "t v1 1"}, head: branch("main"), from: one, to: two, after: []string{"b main 2", "t v1 1"}},
		{name: "by name, in order", before: []string{"b main 1"}, head: branch("alpha"), to: two, after: []string{"b alpha 2", "b main 1"}},
		{name: "a branch goes", before: []string{"b alpha 2", "b main 1"}, head: branch("alpha"), from: two, after: []string{"b main 1"}},
		{name: "a tag", before: []string{"b main 1"}, head: tag("v1"), to: one, after: []string{"b main 1", "t v1 1"}},
		{name: "a tag goes", before: []string{"b main 1", "t v1 1", "t v2 2"}, head: tag("v1"), from: one, after: []string{"b main 1", "t v2 2"}},
		{name: "a commit is opened", before: []string{"b main 1"}, head: open("main"), to: two, after: []string{"b main 1", "o main 2"}},
		{name: "of a branch to come, in order", before: []string{"o main 1"}, head: open("alpha"), to: two, after: []string{"o alpha 2", "o main 1"}},
		{name: "something is put into it", before: []string{"b main 1", "o main 1"}, head: open("main"), from: one, to: two, after: []string{"b main 1", "o main 2"}},
		{name: "it is closed", before: []string{"b main 1", "o main 2"}, head: open("main"), from: two, after: []string{"b main 1"}},
		{name: "opened twice", before: []string{"o main 2"}, head: open("main"), to: one, moved: &ref.MovedError{Name: open("main"), Found: two}},
		{name: "the branch of one goes", before: []string{"b main 1", "o main 2"}, head: branch("main"), from: one, err: "branch main has an open commit: close or discard that first"},
		{name: "a commit of a tag", before: []string{"t v1 1"}, head: open("v1"), to: one, err: "v1 is a tag, and does not move"},
		{name: "a tag of this name, and a branch to come", before: []string{"o v1 1"}, head: tag("v1"), to: one, err: "there is a branch v1 already: give the tag another name"},
		{name: "too many are open", before: crowd("o", v1alpha1.MaxDatasetBranches), head: open("main"), to: one, err: "256 commits are open already"},
		{name: "nothing becomes nothing", before: []string{"b main 1"}, head: tag("v1"), after: []string{"b main 1"}},
		{name: "overtaken", before: []string{"b main 2"}, head: branch("main"), from: one, to: one, moved: &ref.MovedError{Name: branch("main"), Thought: one, Found: two}},
		{name: "there already", before: []string{"b main 2"}, head: branch("main"), to: one, moved: &ref.MovedError{Name: branch("main"), Found: two}},
		{name: "gone meanwhile", head: branch("main"), from: one, to: two, moved: &ref.MovedError{Name: branch("main"), Thought: one}},
		{name: "a tag of this name", before: []string{"t v1 1"}, head: branch("v1"), to: one, err: "there is a tag v1 already: give the branch another name"},
		{name: "a branch of this name", before: []string{"b v1 1"}, head: tag("v1"), to: one, err: "there is a branch v1 already: give the tag another name"},
		{name: "too many branches", before: crowd("b", v1alpha1.MaxDatasetBranches), head: branch("main"), to: one, err: "there are 256 branches already"},
		{name: "too many tags", before: crowd("t", v1alpha1.MaxDatasetTags), head: tag("v1"), to: one, err: "there are 1024 tags already"},
		{name: "the last of many still moves", before: crowd("t", v1alpha1.MaxDatasetTags), head: tag("x0"), from: one, after: crowd("t", v1alpha1.MaxDatasetTags)[1:]},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := spec(c.before...)
			err := move{name: c.head, from: c.from, to: c.to, size: Size{Files: 3, Bytes: 4}, at: noon}.apply(&got)
			if c.err != "" || c.moved != nil {
				moved, _ := errors.AsType[*ref.MovedError](err)
				if diff := cmp.Diff(c.moved, moved); diff != "" || err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("%v, want %q %s", err, c.err, diff)
				}
				c.after = c.before
			} else if err != nil {
				t.Error(err)
			}
			want := spec(c.after...)
			if diff := cmp.Diff(flat(want), flat(got)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// flat tells no difference between no heads and an empty list of them.
func flat(s v1alpha1.DatasetSpec) string {
	return fmt.Sprintf("%+v %+v %+v", s.Branches, s.Open, s.Tags)
}

// TestOpenedStays: when a commit was opened is kept, whatever is put into it.
func TestOpenedStays(t *testing.T) {
	s := spec("b main 1", "o main 1")
	if err := (move{name: open("main"), from: one, to: two, size: Size{Files: 5, Bytes: 6}, at: noon.Add(time.Hour)}).apply(&s); err != nil {
		t.Fatal(err)
	}
	want := v1alpha1.DatasetOpenCommit{Name: "main", Commit: v1alpha1.DatasetCommit(two.String()), Files: 5, Bytes: 6, Opened: &metav1.Time{Time: noon}, Moved: &metav1.Time{Time: noon.Add(time.Hour)}}
	if diff := cmp.Diff([]v1alpha1.DatasetOpenCommit{want}, s.Open); diff != "" {
		t.Error(diff)
	}
}

func TestNames(t *testing.T) {
	for name, fine := range map[ref.Name]bool{
		branch("main"): true, tag("v1.0_rc-2"): true, branch("A"): true, branch(strings.Repeat("a", 63)): true,
		branch(""): false, branch("a/b"): false, branch("-a"): false, tag("v1."): false, branch("a b"): false, open("main"): true, open("a b"): false,
		branch(strings.Repeat("a", 64)): false, {Kind: "remark", Name: "a"}: false,
	} {
		if err := checkName(name); (err == nil) != fine {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestWhatCannotBeReadIsNotNothing(t *testing.T) {
	s := v1alpha1.DatasetSpec{Branches: []v1alpha1.DatasetBranch{{Name: "main", Commit: "12"}}}
	if _, err := all(&s); err == nil {
		t.Error("listed")
	}
	if err := (move{name: branch("main"), to: one}).apply(&s); err == nil || s.Branches[0].Commit != "12" {
		t.Errorf("%v: %+v", err, s)
	}
}
