package pachyderm

import (
	"regexp"
	"slices"
	"strings"

	"github.com/muster-dev/muster/api/v1alpha1"
)

const (
	// maxParts is how many inputs are combined in one.
	maxParts = 8
	// maxNesting is how deep combinations are nested: one of sources, and one
	// of these.
	maxNesting = 2
	outName    = "out"
)

// shortcuts are the schedules that Muster writes in another way. Source of their
// meaning: crontab(5).
var shortcuts = map[string]string{"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@midnight": "@daily"}

// fancyGlob finds what Pachyderm's patterns have and Muster's have not:
// repetitions and negations of a group.
var fancyGlob = regexp.MustCompile(`(^|[^\\])[!@+?*]\(`)

// node is an input: a source, or a combination.
type node struct {
	at     string
	source v1alpha1.InputSource
	how    string
	parts  []node
}

// input makes what a stage reads of it.
func (c *conversion) input(m *message, project string) v1alpha1.Input {
	n := c.node(m, project)
	if n.nesting() > maxNesting {
		c.refuse(n.at, "combinations are nested %d deep here, at most: give the inner one a pipeline of its own", maxNesting)
	}
	return v1alpha1.Input{
		InputSource: n.source,
		Cross:       parts(n, "cross"), Join: parts(n, "join"), Group: parts(n, "group"), Union: parts(n, "union"),
	}
}

// node reads an input, whatever it is.
func (c *conversion) node(m *message, project string) node {
	out := node{at: m.path}
	var given []string
	for _, how := range inputShape.honours {
		if m.has(how) {
			given = append(given, how)
		}
	}
	if len(given) != 1 {
		if !m.retired() {
			c.refuse(m.path, "give one of pfs, cron, cross, join, group and union")
		}
		return out
	}
	switch how := given[0]; how {
	case "pfs":
		out.source = c.pfs(m.message(how, pfsShape), project)
	case "cron":
		out.source = c.cron(m.message(how, cronShape), project)
	default:
		out.how = how
		for _, part := range m.messages(how, inputShape) {
			inner := c.node(part, project)
			// A cross in a cross is one cross, and a union in a union.
			if inner.how == how && (how == "cross" || how == "union") {
				out.parts = append(out.parts, inner.parts...)
			} else {
				out.parts = append(out.parts, inner)
			}
		}
		c.combination(m.field(how), out)
	}
	return out
}

// retired says whether a field of Pachyderm 1 was given.
func (m *message) retired() bool {
	for name := range m.shape.retired {
		if m.spelled[name] != "" {
			return true
		}
	}
	return false
}

// combination refuses what cannot be combined.
func (c *conversion) combination(at string, n node) {
	if len(n.parts) > maxParts {
		c.refuse(at, "combines %d inputs: give at most %d, or give some of them a pipeline of their own", len(n.parts), maxParts)
	}
	for _, part := range n.parts {
		switch {
		case part.how != "":
		case n.how == "join" && part.source.JoinOn == "":
			c.refuse(part.at, "give join_on, such as $1: it says what the datums of a join have in common")
		case n.how == "group" && part.source.GroupBy == "":
			c.refuse(part.at, "give group_by, such as $1: it says what the datums of a group have in common")
		}
	}
}

// nesting is how deep combinations are nested.
func (n node) nesting() int {
	deepest := 0
	for _, part := range n.parts {
		deepest = max(deepest, part.nesting())
	}
	if n.how != "" {
		deepest++
	}
	return deepest
}

// parts are those of a node that is combined so.
func parts(n node, how string) []v1alpha1.InputPart {
	var out []v1alpha1.InputPart
	for _, p := range n.of(how) {
		out = append(out, v1alpha1.InputPart{
			InputSource: p.source,
			Cross:       leaves(p, "cross"), Join: leaves(p, "join"), Group: leaves(p, "group"), Union: leaves(p, "union"),
		})
	}
	return out
}

func leaves(n node, how string) []v1alpha1.InputLeaf {
	var out []v1alpha1.InputLeaf
	for _, p := range n.of(how) {
		out = append(out, v1alpha1.InputLeaf{InputSource: p.source})
	}
	return out
}

func (n node) of(how string) []node {
	if n.how != how {
		return nil
	}
	return n.parts
}

// pfs is a branch of a repo.
func (c *conversion) pfs(m *message, project string) v1alpha1.InputSource {
	c.sameProject(m.field("project"), m.text("project"), project)
	repo, name := m.text("repo"), m.text("name")
	if repo == "" {
		c.refuse(m.field("repo"), "name the repo that is read")
		return v1alpha1.InputSource{}
	}
	if kind := m.text("repo_type"); kind != "" && kind != "user" {
		c.refuse(m.field("repo_type"), "only repos of the type user are datasets here, not those of the type %s", describe(kind))
	}
	out := v1alpha1.InputSource{
		Dataset: c.repo(m.field("repo"), repo),
		Branch:  c.branch(m.field("branch"), repo, m.text("branch")),
		Glob:    c.glob(m),
		JoinOn:  c.reference(m, "join_on"), GroupBy: c.reference(m, "group_by"),
		OuterJoin: m.flag("outer_join"),
	}
	if name == "" {
		name = repo
	}
	c.inputName(m.field("name"), name)
	if name != out.Dataset {
		out.Name = name
	}
	if out.Dataset != repo {
		c.note(m.field("repo"), "is the dataset %s here; its files are below %s/%s", out.Dataset, mountPath, name)
	}
	return out
}

// inputName refuses what cannot be a folder below /pfs.
func (c *conversion) inputName(at, name string) {
	switch {
	case name == outName:
		c.refuse(at, "%s is where output goes: give the input another name", outName)
	case !inputName.MatchString(name) || len(name) > 63:
		c.refuse(at, "%s: inputs are named by up to 63 letters, digits, '_' and '-', a letter first: give it a name", describe(name))
	}
}

// glob is the pattern that cuts an input into datums.
func (c *conversion) glob(m *message) string {
	glob := m.text("glob")
	switch {
	case glob == "":
		c.refuse(m.field("glob"), "give a pattern: / for everything at once, /* for each file or folder at the top by itself")
	case len(glob) > 1023:
		c.refuse(m.field("glob"), "has %d bytes: give at most 1023", len(glob))
	case fancyGlob.MatchString(glob):
		c.refuse(m.field("glob"), "%s: patterns have *, ?, **, [...], {a,b} and parts in parentheses here, not !(...), *(...), +(...), ?(...) or @(...): write it with {a,b}, or as a union of inputs", describe(glob))
	}
	if !strings.HasPrefix(glob, "/") {
		glob = "/" + glob
	}
	return glob
}

// reference is what datums have in common, by parts of the glob.
func (c *conversion) reference(m *message, name string) string {
	out := m.text(name)
	if len(out) > 256 {
		c.refuse(m.field(name), "has %d bytes: give at most 256", len(out))
	}
	return out
}

// cron is a source of times, of which each is a datum.
func (c *conversion) cron(m *message, project string) v1alpha1.InputSource {
	c.sameProject(m.field("project"), m.text("project"), project)
	name, schedule := m.text("name"), m.text("spec")
	if name == "" {
		c.refuse(m.field("name"), "name the input: its files are below %s/<name>", mountPath)
	} else {
		c.inputName(m.field("name"), name)
	}
	if long, ok := shortcuts[schedule]; ok {
		schedule = long
	}
	fields := strings.Fields(schedule)
	switch {
	case schedule == "":
		c.refuse(m.field("spec"), "say when: five fields, such as \"0 3 * * *\", or @hourly, @daily, @weekly, @monthly, @every 90m")
	case strings.Contains(schedule, "TZ="):
		c.refuse(m.field("spec"), "%s: times are in UTC: take the time zone out, and shift the hours", describe(schedule))
	case len(schedule) > 128 || !slices.Contains([]int{1, 2, 5}, len(fields)) || len(fields) < 5 != strings.HasPrefix(schedule, "@"):
		c.refuse(m.field("spec"), "%s: give five fields (minute, hour, day of the month, month, day of the week) or @hourly, @daily, @weekly, @monthly, @every 90m", describe(schedule))
	}
	return v1alpha1.InputSource{
		Name: name, Glob: "/*",
		Cron: &v1alpha1.CronInput{Schedule: schedule, Overwrite: m.flag("overwrite")},
	}
}
