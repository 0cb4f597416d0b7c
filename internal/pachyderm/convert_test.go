package pachyderm_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/muster-dev/muster/internal/pachyderm"
)

// TestExamples compares what the specifications in testdata become with what is
// kept beside them. With UPDATE=1 it writes that anew.
func TestExamples(t *testing.T) {
	files, err := filepath.Glob("testdata/*.spec")
	if err != nil || len(files) == 0 {
		t.Fatalf("examples: %v, %v", files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".spec"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !pachyderm.Recognise(data) {
				t.Error("it is not recognised")
			}
			got := render(t, data)
			kept := strings.TrimSuffix(file, ".spec") + ".want"
			if os.Getenv("UPDATE") != "" {
				if err := os.WriteFile(kept, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(kept)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// render is what specifications become as text: objects, then notes.
func render(t *testing.T, data []byte) string {
	t.Helper()
	result, err := pachyderm.Convert(data, pachyderm.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, p := range result.Pipelines {
		text, err := yaml.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		out.WriteString("---\n" + string(text))
	}
	for _, note := range result.Notes {
		out.WriteString("# " + note.String() + "\n")
	}
	return out.String()
}

func TestRecognise(t *testing.T) {
	for name, c := range map[string]struct {
		file string
		want bool
	}{
		"a specification":          {`{"pipeline": {"name": "edges"}, "transform": {}}`, true},
		"a list":                   {`[{"pipeline": {"name": "edges"}}]`, true},
		"several":                  {"{\"pipeline\": {\"name\": \"a\"}}\n{\"pipeline\": {\"name\": \"b\"}}", true},
		"the second is broken":     {`{"pipeline": {"name": "edges"}} {`, true},
		"YAML":                     {"# edges\npipeline:\n  name: edges\n", true},
		"YAML after nothing":       {"---\n# nothing\n---\npipeline: {name: edges}\n", true},
		"a byte order mark":        {"\xef\xbb\xbf{\"pipeline\": {\"name\": \"edges\"}}", true},
		"a Pipeline of Muster's":   {"apiVersion: muster.dev/v1alpha1\nkind: Pipeline\nmetadata: {name: edges}\n", false},
		"a manifest with pipeline": {`{"apiVersion": "v1", "pipeline": {"name": "edges"}}`, false},
		"pipeline is a name":       {`{"pipeline": "edges"}`, false},
		"nothing":                  {"", false},
		"text":                     {"pipeline", false},
		"broken":                   {`{"pipeline": {"name": "edges"`, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := pachyderm.Recognise([]byte(c.file)); got != c.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

// TestDocuments: specifications may be separated as documents of YAML are, or by nothing.
func TestDocuments(t *testing.T) {
	one, two := edges+"}", strings.Replace(edges, `"edges"}`, `"next"}`, 1)+"}"
	for name, file := range map[string]string{
		"lines between JSON":        one + "\n---\n" + two + "\n",
		"a line before, and after":  "---\n" + one + "\r\n--- # next\r\n" + two + "\n---\n",
		"nothing between":           one + two,
		"nothing between, and then": one + two + "\n---\n",
		"both in a document":        "# of two\n---\n" + one + "\n" + two + "\n",
		"a list":                    "[" + one + ",\n" + two + "]",
	} {
		t.Run(name, func(t *testing.T) {
			if !pachyderm.Recognise([]byte(file)) {
				t.Error("it is not recognised")
			}
			result, err := pachyderm.Convert([]byte(file), pachyderm.Options{})
			if err != nil || len(result.Pipelines) != 2 || result.Pipelines[1].Name != "next" {
				t.Errorf("%d pipelines: %v", len(result.Pipelines), err)
			}
		})
	}
	_, err := pachyderm.Convert([]byte(one+"\n---\n{\n\"pipeline\": x}"), pachyderm.Options{})
	if err == nil || !strings.Contains(err.Error(), "line 7") {
		t.Errorf("an error names its line: %v", err)
	}
}

const edges = `{
  "pipeline": {"name": "edges"},
  "transform": {"image": "registry.example.com/edges:1", "cmd": ["python3", "/edges.py"]},
  "input": {"pfs": {"repo": "images", "glob": "/*"}}`

// Programs in images have files of their own, in which something can be mounted.
func TestMountedInImages(t *testing.T) {
	_, err := pachyderm.Convert([]byte(edges+"}"), pachyderm.Options{Unmountable: "the plain tier shows programs the machine's own files", Images: true})
	if err != nil {
		t.Error(err)
	}
}

func TestRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		file    string
		options pachyderm.Options
		want    []string
	}{
		"a typing error": {
			file:    edges + `, "datum_trys": 3}`,
			options: pachyderm.Options{Suggest: func(string, []string) string { return "datum_tries" }},
			want:    []string{"edges: datum_trys: is not a field of pipeline specifications; did you mean datum_tries?"},
		},
		"another spelling":      {file: edges + `, "Datum-Tries": 3}`, want: []string{"did you mean datum_tries?"}},
		"a word out of nowhere": {file: edges + `, "colour": "red"}`, want: []string{"edges: colour: is not a field", "known here are autoscaling"}},
		"both spellings":        {file: edges + `, "datum_tries": 3, "datumTries": 4}`, want: []string{"edges: datum_tries: is the same field as datumTries"}},
		"twice":                 {file: edges + `, "datum_tries": 3, "datum_tries": 4}`, want: []string{"datum_tries is given twice"}},
		"of version 1":          {file: edges + `, "standby": true}`, want: []string{"edges: standby: is of Pachyderm 1: give autoscaling"}},
		"all at once": {
			file: edges + `, "spout": {}, "service": {"internal_port": 80}, "s3_out": true}`,
			want: []string{"edges: spout: ", "edges: service: ", "edges: s3_out: "},
		},
		"where nothing can be mounted": {
			file: edges + `}`, options: pachyderm.Options{Unmountable: "the plain tier shows programs the machine's own files"},
			want: []string{"edges: transform: ", "below /pfs", "the plain tier shows", "$MUSTER_INPUT_<NAME>"},
		},
		"where it can be in images, and none is named": {
			file: strings.Replace(edges, `"image": "registry.example.com/edges:1", `, "", 1) + `}`, options: pachyderm.Options{Unmountable: "the plain tier shows", Images: true},
			want: []string{"edges: transform: ", "below /pfs"},
		},
		"a short name":            {file: strings.Replace(edges, `"edges"}`, `"ab"}`, 1) + "}", want: []string{"ab: pipeline.name: ", "3 to 30"}},
		"a name with a dot":       {file: strings.Replace(edges, `"edges"}`, `"a.b.c"}`, 1) + "}", want: []string{"a.b.c: pipeline.name: "}},
		"no name":                 {file: strings.Replace(edges, `"edges"}`, `""}`, 1) + "}", want: []string{"specification 1: pipeline.name: give the pipeline a name"}},
		"the same name":           {file: edges + "}" + edges + "}", want: []string{"two pipelines would be named edges"}},
		"names that become one":   {file: edges + "}" + strings.Replace(edges, `"edges"}`, `"Edges"}`, 1) + "}", want: []string{"two pipelines would be named edges: edges and Edges"}},
		"repos that become one":   {file: strings.Replace(edges, `{"pfs": {"repo": "images", "glob": "/*"}}`, `{"cross": [{"pfs": {"repo": "a_b", "glob": "/"}}, {"pfs": {"repo": "a-b", "glob": "/"}}]}`, 1) + "}", want: []string{"the repos a_b and a-b would both be the dataset a-b"}},
		"main beside master":      {file: edges + `, "output_branch": "main"}` + strings.NewReplacer(`"edges"}`, `"next"}`, `"images"`, `"edges"`).Replace(edges) + "}", want: []string{"main and master of edges would both be main"}},
		"no input":                {file: `{"pipeline": {"name": "edges"}, "transform": {"cmd": ["true"]}}`, want: []string{"edges: input: give one"}},
		"two inputs":              {file: strings.Replace(edges, `"/*"}`, `"/*"}, "cron": {"name": "tick", "spec": "@daily"}`, 1) + "}", want: []string{"edges: input: give one of pfs, cron"}},
		"git":                     {file: strings.Replace(edges, `{"pfs": {"repo": "images", "glob": "/*"}}`, `{"git": {"URL": "https://example.com/a.git"}}`, 1) + "}", want: []string{"edges: input.git: repositories of code are not read here"}},
		"no transform":            {file: `{"pipeline": {"name": "edges"}, "input": {"pfs": {"repo": "images", "glob": "/"}}}`, want: []string{"edges: transform: give the program"}},
		"no command":              {file: strings.Replace(edges, `["python3", "/edges.py"]`, `[]`, 1) + "}", want: []string{"edges: transform.cmd: give the program and its arguments"}},
		"no glob":                 {file: strings.Replace(edges, `"glob": "/*"`, `"glob": ""`, 1) + "}", want: []string{"edges: input.pfs.glob: give a pattern"}},
		"a negated glob":          {file: strings.Replace(edges, `"/*"`, `"/!(a)*"`, 1) + "}", want: []string{"edges: input.pfs.glob: "}},
		"an input called out":     {file: strings.Replace(edges, `"glob"`, `"name": "out", "glob"`, 1) + "}", want: []string{"out is where output goes"}},
		"another project":         {file: strings.Replace(edges, `"glob"`, `"project": "labs", "glob"`, 1) + "}", want: []string{"edges: input.pfs.project: is another project than the pipeline's, default"}},
		"a join of nothing":       {file: strings.Replace(edges, `{"pfs": {"repo": "images", "glob": "/*"}}`, `{"join": [{"pfs": {"repo": "images", "glob": "/(*)"}}]}`, 1) + "}", want: []string{"edges: input.join[0]: give join_on"}},
		"nested too deep":         {file: strings.Replace(edges, `{"pfs": {"repo": "images", "glob": "/*"}}`, `{"cross": [{"union": [{"cross": [{"pfs": {"repo": "images", "glob": "/*"}}]}]}]}`, 1) + "}", want: []string{"combinations are nested 2 deep"}},
		"a secret as a folder":    {file: strings.Replace(edges, `"cmd"`, `"secrets": [{"name": "keys", "mountPath": "/keys"}], "cmd"`, 1) + "}", want: []string{"edges: transform.secrets[0].mountPath: secrets are given as variables alone"}},
		"half a secret":           {file: strings.Replace(edges, `"cmd"`, `"secrets": [{"name": "keys"}], "cmd"`, 1) + "}", want: []string{"edges: transform.secrets[0]: give name"}},
		"an error command":        {file: strings.Replace(edges, `"cmd"`, `"err_cmd": ["python3", "/clean.py"], "cmd"`, 1) + "}", want: []string{"edges: transform.err_cmd: no other program is run"}},
		"unlike numbers of GPUs":  {file: edges + `, "resource_requests": {"gpu": {"number": 1}}, "resource_limits": {"gpu": {"number": 2}}}`, want: []string{"asks for 1 GPUs and resource_limits for 2"}},
		"more than the limit":     {file: edges + `, "resource_requests": {"cpu": 2}, "resource_limits": {"cpu": 1}}`, want: []string{"asks for more cpu, 2, than the limit, 1"}},
		"GPUs of somebody else":   {file: edges + `, "resource_limits": {"gpu": {"type": "amd.com/gpu", "number": 1}}}`, want: []string{"edges: resource_limits.gpu.type: give nvidia.com/gpu"}},
		"GPUs without number":     {file: edges + `, "resource_limits": {"gpu": {"type": "nvidia.com/gpu"}}}`, want: []string{"edges: resource_limits.gpu.number: say how many"}},
		"an amount of nothing":    {file: edges + `, "resource_limits": {"memory": "lots"}}`, want: []string{"edges: resource_limits.memory: give an amount"}},
		"half a second":           {file: edges + `, "datum_timeout": "500ms"}`, want: []string{"edges: datum_timeout: give a duration of whole seconds"}},
		"too many tries":          {file: edges + `, "datum_tries": "1000"}`, want: []string{"edges: datum_tries: give a whole number from 1 to 100"}},
		"a number as text":        {file: edges + `, "description": 5}`, want: []string{"edges: description: give text in quotes, not 5"}},
		"text as an object":       {file: edges + `, "egress": "s3://bucket"}`, want: []string{`edges: egress: give an object with fields, not "s3://bucket"`}},
		"another store":           {file: edges + `, "egress": {"URL": "gs://bucket"}}`, want: []string{"edges: egress.URL: give an s3:// address"}},
		"a database":              {file: edges + `, "egress": {"sqlDatabase": {"url": "postgresql://db"}}}`, want: []string{"edges: egress.sqlDatabase: output is not written to databases"}},
		"a time zone":             {file: strings.Replace(edges, `{"pfs": {"repo": "images", "glob": "/*"}}`, `{"cron": {"name": "tick", "spec": "CRON_TZ=Asia/Tokyo 0 3 * * *"}}`, 1) + "}", want: []string{"times are in UTC"}},
		"four fields":             {file: strings.Replace(edges, `{"pfs": {"repo": "images", "glob": "/*"}}`, `{"cron": {"name": "tick", "spec": "0 3 * *"}}`, 1) + "}", want: []string{"edges: input.cron.spec: "}},
		"a manifest of Muster's":  {file: edges + "}" + `{"apiVersion": "v1", "kind": "Secret"}`, want: []string{"specification 2: specification: is not a pipeline specification"}},
		"not JSON":                {file: edges + ",\n}", want: []string{"reading pipeline specifications: line 5"}},
		"no end":                  {file: edges, want: []string{"unexpected EOF"}},
		"nothing":                 {file: "# nothing\n", want: []string{"there are none in it"}},
		"deeper than any of them": {file: strings.Repeat("[", 100) + strings.Repeat("]", 100), want: []string{"nested more than 64 deep"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := pachyderm.Convert([]byte(c.file), c.options)
			if err == nil {
				t.Fatal("it is converted")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got: %v\nwant: %s", err, want)
				}
			}
		})
	}
}

func TestAllReasonsAreTyped(t *testing.T) {
	_, err := pachyderm.Convert([]byte(edges+`, "spout": {}, "transformation": {}}`), pachyderm.Options{})
	var refused *pachyderm.RefusedError
	if !errors.As(err, &refused) || len(refused.Remarks) != 2 {
		t.Fatalf("got %#v", err)
	}
}
