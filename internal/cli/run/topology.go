package run

import (
	"slices"
	"strings"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/suggestion"
)

// topology reads --within and --near: where all members are to be together.
func (f *Flags) topology() (*v1alpha1.Topology, error) {
	if f.Within != "" && f.Near != "" {
		return nil, exit.Usage("--within %s and --near %s: --within is for what must be, --near for what is better; give one", f.Within, f.Near)
	}
	flag, text := "--within", f.Within
	if f.Near != "" {
		flag, text = "--near", f.Near
	}
	if text == "" {
		return nil, nil
	}
	level, err := parseLevel(flag, text)
	if err != nil {
		return nil, err
	}
	return &v1alpha1.Topology{Within: level, Required: f.Within != ""}, nil
}

// spread reads --apart and --spread: how the members of each role are to be
// apart.
func (f *Flags) spread() (*v1alpha1.Spread, error) {
	if f.Apart != "" && f.Spread != "" {
		return nil, exit.Usage("--apart %s and --spread %s: --apart is for what must be, --spread for what is better; give one", f.Apart, f.Spread)
	}
	flag, text := "--apart", f.Apart
	if f.Spread != "" {
		flag, text = "--spread", f.Spread
	}
	if text == "" {
		return nil, nil
	}
	level, err := parseLevel(flag, text)
	if err != nil {
		return nil, err
	}
	return &v1alpha1.Spread{Over: level, Required: f.Apart != ""}, nil
}

// checkTogether refuses to have members in one domain and in several.
func checkTogether(t *v1alpha1.Topology, s *v1alpha1.Spread) error {
	if t == nil || s == nil || !t.Required || !s.Required {
		return nil
	}
	levels := v1alpha1.Levels()
	if slices.Index(levels, s.Over) > slices.Index(levels, t.Within) {
		return nil
	}
	return exit.Usage("--within %s and --apart %s: members in one %s cannot each have a %s of their own; keep them apart by something narrower, or use --near or --spread, which are wishes", t.Within, s.Over, t.Within, s.Over)
}

func parseLevel(flag, text string) (v1alpha1.Level, error) {
	level := v1alpha1.Level(strings.ToLower(text))
	if !slices.Contains(v1alpha1.Levels(), level) {
		return "", exit.Usage("%s %s: there is zone, rack, nvlink (an NVLink domain) and node%s", flag, text, suggestion.Phrase(text, levelNames()))
	}
	return level, nil
}

// levelNames are what may be given, the widest first.
func levelNames() []string {
	var names []string
	for _, l := range v1alpha1.Levels() {
		names = append(names, string(l))
	}
	return names
}
