package pipeline

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/pipeline/glob"
)

type envVar = corev1.EnvVar

// combination is how a node's parts are combined.
type combination int

const (
	single combination = iota // a source alone
	cross
	join
	group
	union
)

// String is the combination as it is written.
func (c combination) String() string {
	return [...]string{"source", "cross", "join", "group", "union"}[c]
}

// node is an input: a source, or parts that are combined.
type node struct {
	how    combination
	source *Source
	parts  []*node
}

// names are the names of all sources that one datum may have.
func (n *node) names() []string {
	if n.how == single {
		return []string{n.source.Name}
	}
	var all []string
	for _, part := range n.parts {
		all = append(all, part.names()...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// twins says that two datums may be given the same, and so have one result: of a
// union whose parts have a name in common.
func (n *node) twins() bool {
	seen := map[string]bool{}
	for _, part := range n.parts {
		if part.twins() {
			return true
		}
		for _, name := range part.names() {
			if n.how == union && seen[name] {
				return true
			}
			seen[name] = true
		}
	}
	return false
}

// inputs reads the input of one stage.
type inputs struct {
	*parser
	stage *Stage
}

func (b *inputs) input(in *v1alpha1.Input) *node {
	parts, how := choose(in.Cross, in.Join, in.Group, in.Union)
	if how == single {
		return b.source(&in.InputSource, how)
	}
	n := &node{how: how}
	for i := range parts {
		n.parts = append(n.parts, b.part(&parts[i], how))
	}
	return b.combined(n)
}

func (b *inputs) part(in *v1alpha1.InputPart, within combination) *node {
	leaves, how := choose(in.Cross, in.Join, in.Group, in.Union)
	if how == single {
		return b.source(&in.InputSource, within)
	}
	if within == join || within == group {
		b.say(b.stage, "a %s within a %s: only datasets, stages and times can be combined so: put the %s outside", how, within, within)
	}
	n := &node{how: how}
	for i := range leaves {
		n.parts = append(n.parts, b.source(&leaves[i].InputSource, how))
	}
	return b.combined(n)
}

// choose is the list that is there, and which one it is.
func choose[P any](crossed, joined, grouped, united []P) ([]P, combination) {
	switch {
	case len(crossed) > 0:
		return crossed, cross
	case len(joined) > 0:
		return joined, join
	case len(grouped) > 0:
		return grouped, group
	case len(united) > 0:
		return united, union
	}
	return nil, single
}

// combined refuses names that a datum would have twice.
func (b *inputs) combined(n *node) *node {
	if n.how == union {
		return n
	}
	seen := map[string]string{}
	for _, part := range n.parts {
		for _, name := range part.names() {
			switch other, ok := seen[EnvName(name)]; {
			case other == name:
				b.say(b.stage, "two inputs of a %s are called %s: give one of them another name", n.how, name)
			case ok:
				b.say(b.stage, "inputs %s and %s of a %s would both be in %s: give one of them another name", other, name, n.how, EnvName(name))
			}
			seen[EnvName(name)] = name
		}
	}
	return n
}

// EnvName is the variable in which a command finds the folder of an input.
func EnvName(input string) string {
	return "MUSTER_INPUT_" + strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z':
			return r - 'a' + 'A'
		case 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
			return r
		}
		return '_'
	}, input)
}

func (b *inputs) source(in *v1alpha1.InputSource, within combination) *node {
	s := &Source{Index: len(b.stage.Sources), Silent: in.Silent, outer: in.OuterJoin, Cron: in.Cron, Stage: in.Stage}
	b.stage.Sources = append(b.stage.Sources, s)
	switch {
	case in.Cron != nil:
		s.Name = cmp.Or(in.Name, "cron")
		if _, err := Schedule(in.Cron.Schedule); err != nil {
			b.say(b.stage, "input %s: %w", s.Name, err)
		}
	case in.Stage != "":
		s.Name = cmp.Or(in.Name, in.Stage)
		if from := b.stages[in.Stage]; from != nil {
			s.Dataset, s.Branch = from.Dataset, from.Branch
		} else {
			b.say(b.stage, "input %s: there is no stage %s: there are %s", s.Name, in.Stage, b.known())
		}
		if in.Branch != "" {
			b.say(b.stage, "input %s names a branch of a stage: it has one, which its output says: leave branch out", s.Name)
		}
	default:
		s.Name, s.Dataset, s.Branch = cmp.Or(in.Name, in.Dataset), in.Dataset, cmp.Or(string(in.Branch), defaultBranch)
		if in.Dataset == "" {
			b.say(b.stage, "an input names nothing: give one of dataset, stage, cron, cross, join, group and union")
		}
	}
	if strings.EqualFold(s.Name, "out") {
		b.say(b.stage, "an input is called %s, as the folder of the output: give it another name", s.Name)
	}
	b.patterns(s, in, within)
	return &node{how: single, source: s}
}

// patterns reads the glob of a source and what refers to it.
func (b *inputs) patterns(s *Source, in *v1alpha1.InputSource, within combination) {
	g, err := glob.Parse(in.Glob)
	if err != nil {
		b.say(b.stage, "input %s: %w", s.Name, err)
		g = glob.Everything()
	}
	s.Glob = g
	for _, t := range []struct {
		field, text string
		how         combination
		to          **glob.Template
	}{{"joinOn", in.JoinOn, join, &s.joinOn}, {"groupBy", in.GroupBy, group, &s.groupBy}} {
		switch {
		case t.how == within && t.text == "":
			b.say(b.stage, "input %s of a %s has no %s: say what its datums have in common with others, such as $1", s.Name, t.how, t.field)
		case t.text == "" || err != nil:
		case t.how != within:
			b.say(b.stage, "input %s has %s, but is no part of a %s: leave it out", s.Name, t.field, t.how)
		default:
			parsed, err := glob.ParseTemplate(t.text, g.Groups())
			if err != nil {
				b.say(b.stage, "input %s: %s %w", s.Name, t.field, err)
			}
			*t.to = parsed
		}
	}
	if in.OuterJoin && within != join {
		b.say(b.stage, "input %s has outerJoin, but is no part of a join: leave it out", s.Name)
	}
}

// known names the stages that there are.
func (b *inputs) known() string {
	names := make([]string, 0, len(b.stages))
	for name := range b.stages {
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}
