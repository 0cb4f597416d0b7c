package pipeline

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/muster-dev/muster/api/v1alpha1"
)

func spec(t testing.TB, text string) *v1alpha1.PipelineSpec {
	t.Helper()
	var s v1alpha1.PipelineSpec
	if err := yaml.UnmarshalStrict([]byte(text), &s); err != nil {
		t.Fatal(err)
	}
	return &s
}

func TestOrder(t *testing.T) {
	g, err := Parse("p", spec(t, `
env: [{name: A, value: "1"}, {name: B, value: "2"}]
code: {url: "https://example.org/a.py"}
stages:
- {name: last, command: [x], input: {cross: [{stage: mid}, {stage: first, name: other}, {dataset: raw}]}}
- {name: mid, command: [x], input: {stage: first}, env: [{name: A, value: "3"}], output: {dataset: made, branch: b}}
- {name: first, command: [x], input: {dataset: raw, branch: dev, glob: /*}}
- {name: alone, command: [x], input: {cron: {schedule: "@every 90m"}}}
`))
	if err != nil {
		t.Fatal(err)
	}
	var order []string
	for _, s := range g.Stages {
		order = append(order, s.Name)
	}
	if d := cmp.Diff([]string{"first", "mid", "last", "alone"}, order); d != "" {
		t.Error(d)
	}
	mid, last := g.Stage("mid"), g.Stage("last")
	if d := cmp.Diff([]corev1.EnvVar{{Name: "A", Value: "3"}, {Name: "B", Value: "2"}}, mid.Spec.Env); d != "" {
		t.Error(d)
	}
	if mid.Dataset != "made" || mid.Branch != "b" || last.Dataset != "p-last" || last.Branch != "main" || mid.Spec.Code.URL == "" || *mid.Spec.Tries != 3 || mid.Spec.OnFailure != v1alpha1.FailRun {
		t.Errorf("%+v", mid)
	}
	var sources []string
	for _, s := range last.Sources {
		sources = append(sources, s.Name+" "+s.Stage+" "+s.Dataset+"@"+s.Branch+s.Glob.String())
	}
	if d := cmp.Diff([]string{"mid mid made@b/", "other first p-first@main/", "raw  raw@main/"}, sources); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"mid", "first"}, last.After); d != "" {
		t.Error(d)
	}
}

func TestRefused(t *testing.T) {
	for _, c := range []struct {
		name, spec string
		says       []string
	}{
		{"a circle", `{stages: [{name: a, command: [x], input: {stage: c}}, {name: b, command: [x], input: {stage: a}}, {name: c, command: [x], input: {stage: b}}, {name: d, command: [x], input: {stage: a}}]}`,
			[]string{"in a circle", " a -> b", "b -> c", "c -> a"}},
		{"reads itself", `{stages: [{name: a, command: [x], input: {stage: a}}]}`, []string{"stage a: it reads p-a@main, which it writes"}},
		{"reads its branch", `{stages: [{name: a, command: [x], input: {dataset: raw}, output: {dataset: raw}}]}`, []string{"stage a: it reads raw@main, which it writes"}},
		{"two write one branch", `{stages: [{name: a, command: [x], input: {dataset: raw}, output: {dataset: out}}, {name: b, command: [x], input: {dataset: raw}, output: {dataset: out, branch: main}}]}`,
			[]string{"stage b: it writes to out@main, as stage a does"}},
		{"reads a stage's branch by name", `{stages: [{name: a, command: [x], input: {dataset: raw}}, {name: b, command: [x], input: {dataset: p-a}}]}`,
			[]string{"stage b: input p-a is p-a@main, which stage a writes: say stage: a"}},
		{"no such stage", `{stages: [{name: a, command: [x], input: {stage: nope}}]}`, []string{"there is no stage nope: there are a"}},
		{"two of a name", `{stages: [{name: a, command: [x], input: {dataset: raw}}, {name: a, command: [x], input: {dataset: raw}}]}`, []string{"two stages of this name"}},
		{"a bad glob", `{stages: [{name: a, command: [x], input: {dataset: raw, glob: "/(a"}}]}`, []string{`stage a: input raw: glob "/(a"`}},
		{"no such group", `{stages: [{name: a, command: [x], input: {join: [{dataset: raw, glob: "/(*)", joinOn: $2}, {dataset: other, glob: "/(*)", joinOn: $1}]}}]}`,
			[]string{"stage a: input raw: joinOn", "has 1 parts in parentheses"}},
		{"no joinOn", `{stages: [{name: a, command: [x], input: {join: [{dataset: raw}, {dataset: other, glob: "/(*)", joinOn: $1}]}}]}`, []string{"input raw of a join has no joinOn"}},
		{"joinOn alone", `{stages: [{name: a, command: [x], input: {dataset: raw, glob: "/(*)", joinOn: $1, outerJoin: true}}]}`, []string{"is no part of a join", "has outerJoin"}},
		{"groupBy in a join", `{stages: [{name: a, command: [x], input: {join: [{dataset: raw, glob: "/(*)", joinOn: $1, groupBy: $1}]}}]}`, []string{"has groupBy, but is no part of a group"}},
		{"a name twice", `{stages: [{name: a, command: [x], input: {cross: [{dataset: raw}, {dataset: raw, branch: dev}]}}]}`, []string{"two inputs of a cross are called raw"}},
		{"a name twice below", `{stages: [{name: a, command: [x], input: {cross: [{dataset: raw}, {union: [{dataset: raw}, {dataset: xyz}]}]}}]}`, []string{"two inputs of a cross are called raw"}},
		{"names of one variable", `{stages: [{name: a, command: [x], input: {cross: [{dataset: a-b}, {dataset: raw, name: a_b}]}}]}`, []string{"would both be in MUSTER_INPUT_A_B"}},
		{"a cross within a join", `{stages: [{name: a, command: [x], input: {join: [{cross: [{dataset: raw}]}]}}]}`, []string{"a cross within a join"}},
		{"called out", `{stages: [{name: a, command: [x], input: {dataset: out}}]}`, []string{"an input is called out"}},
		{"bad times", `{stages: [{name: a, command: [x], input: {cron: {schedule: "61 * * * *"}}}, {name: b, command: [x], input: {cron: {schedule: "TZ=x * * * * *"}}}]}`,
			[]string{`stage a: input cron: schedule "61 * * * *"`, "stage b: input cron: schedule", "times are in UTC"}},
		{"training in parts", `{stages: [{name: a, training: {roles: []}, input: {dataset: raw, glob: /*}}, {name: b, spark: {script: x}, input: {union: [{dataset: raw}]}}]}`,
			[]string{"stage a: input raw has the glob /*, but training", "stage b: training and spark read all of their input at once: combine"}},
		{"nothing", `{stages: [{name: a, command: [x], input: {}}]}`, []string{"an input names nothing"}},
		{"a stage's branch", `{stages: [{name: a, command: [x], input: {dataset: raw}}, {name: b, command: [x], input: {stage: a, branch: dev}}]}`, []string{"input a names a branch of a stage"}},
		{"all at once", `{stages: [{name: a, command: [x], input: {dataset: raw, glob: "/["}}, {name: b, command: [x], input: {stage: c}}]}`, []string{"stage a: input raw: glob", "stage b: input c: there is no stage c"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Parse("p", spec(t, c.spec))
			for _, says := range c.says {
				if err == nil || !strings.Contains(err.Error(), says) {
					t.Errorf("%v, want %q", err, says)
				}
			}
		})
	}
}

// TestUnionMayShareNames: of a union, a datum has one.
func TestUnionMayShareNames(t *testing.T) {
	g, err := Parse("p", spec(t, `{stages: [{name: a, command: [x], input: {union: [{dataset: raw, name: in}, {dataset: other, name: in}]}}]}`))
	if err != nil || len(g.Stages[0].Sources) != 2 {
		t.Error(err)
	}
}

// FuzzParse: whatever is asked for, there is a graph in order, or words.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"stages":[{"name":"a","input":{"stage":"b"}},{"name":"b","input":{"cross":[{"dataset":"raw","glob":"/(*)"},{"join":[{"stage":"a","glob":"/(*)","joinOn":"$1"}]}]}}]}`))
	f.Add([]byte(`{"stages":[{"name":"a","input":{"cron":{"schedule":"@every 1h"}}}]}`))
	f.Add([]byte(`{"stages":[{"name":"a","input":{"stage":"a"}},{"name":"a","input":{"stage":"c"}},{"name":"c","input":{"stage":"a"}}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var s v1alpha1.PipelineSpec
		if json.Unmarshal(text, &s) != nil {
			return
		}
		g, err := Parse("p", &s)
		if err != nil {
			if strings.TrimSpace(err.Error()) == "" {
				t.Fatal("no words")
			}
			return
		}
		if len(g.Stages) != len(s.Stages) {
			t.Fatalf("%d stages of %d", len(g.Stages), len(s.Stages))
		}
		var before []string
		for _, stage := range g.Stages {
			for _, name := range stage.After {
				if !slices.Contains(before, name) {
					t.Fatalf("%s before %s", stage.Name, name)
				}
			}
			before = append(before, stage.Name)
			says := &Provenance{Stage: stage.Name, Input: stage.plain(), Inputs: make([]Used, len(stage.Sources))}
			again, err := says.stage()
			if err == nil {
				again.Spec.AcceptKeys = stage.Spec.AcceptKeys
			}
			if err != nil || again.Shape() != stage.Shape() {
				t.Fatalf("stage %s is not what its provenance says: %v", stage.Name, err)
			}
		}
	})
}
