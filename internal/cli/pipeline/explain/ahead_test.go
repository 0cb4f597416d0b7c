package explain

import (
	"slices"
	"strings"
	"testing"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// TestChosen: the word behind -f FILE may name a pipeline of the file, a stage, or both one after the
// other.
func TestChosen(t *testing.T) {
	pipeline := func(name string, stages ...string) *v1alpha1.Pipeline {
		p := &v1alpha1.Pipeline{}
		p.Name = name
		for _, s := range stages {
			p.Spec.Stages = append(p.Spec.Stages, v1alpha1.Stage{Name: s})
		}
		return p
	}
	all := []*v1alpha1.Pipeline{pipeline("digits", "prepare", "train"), pipeline("both", "both")}
	for _, c := range []struct{ words, name, stages, says string }{
		{"", "", "", ""},
		{"digits", "digits", "", ""},
		{"digits train", "digits", "train", ""},
		{"train", "", "train", ""},
		{"both", "", "both", ""},
		{"both both", "both", "both", ""},
		{"typo", "", "typo", ""}, // the check of stages returns the error
		{"digit train", "", "", "the files have no pipeline digit"},
	} {
		name, stages, err := chosen(all, strings.Fields(c.words))
		if c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) || c.says == "" && err != nil {
			t.Errorf("%q: %v", c.words, err)
		}
		if name != c.name || !slices.Equal(stages, strings.Fields(c.stages)) {
			t.Errorf("%q: pipeline %q, stages %q", c.words, name, stages)
		}
	}
}
