package pachyderm

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fields are those of the messages of pps.proto and pfs.proto (Pachyderm 2.11)
// that a specification is made of, with a value that asks for something.
var fields = map[string]struct {
	shape *shape
	// base is where the message is in a specification.
	base   string
	fields map[string]string
}{
	"CreatePipelineRequest": {specificationShape, "", map[string]string{
		"pipeline": `{"name": "shapes"}`, "tf_job": `{"tf_job": "{}"}`, "transform": `{"image": "other:1", "cmd": ["true"]}`,
		"parallelism_spec": `{"constant": 3}`, "egress": `{"URL": "s3://bucket/folder"}`, "update": `true`, "output_branch": `"next"`,
		"s3_out": `true`, "resource_requests": `{"cpu": 0.5}`, "resource_limits": `{"memory": "1G"}`, "sidecar_resource_limits": `{"cpu": 1}`,
		"input": `{"cron": {"name": "tick", "spec": "@daily"}}`, "description": `"finds edges"`, "reprocess": `true`, "service": `{"internal_port": 80}`,
		"spout": `{}`, "datum_set_spec": `{"number": 10}`, "datum_timeout": `"5m"`, "job_timeout": `"1h"`, "salt": `"abc"`, "datum_tries": `5`,
		"scheduling_spec": `{"node_selector": {"disk": "fast"}}`, "pod_spec": `"{}"`, "pod_patch": `"[]"`, "spec_commit": `{"id": "abc"}`,
		"metadata": `{"labels": {"team": "vision"}}`, "reprocess_spec": `"every_job"`, "autoscaling": `true`, "tolerations": `[{"key": "gpu"}]`,
		"sidecar_resource_requests": `{"cpu": 1}`, "dry_run": `true`, "determined": `{"workspaces": ["a"]}`, "maximum_expected_uptime": `"1h"`,
	}},
	"Pipeline": {pipelineShape, "pipeline", map[string]string{"name": `"shapes"`, "project": `{"name": "labs"}`}},
	"Project":  {projectShape, "pipeline.project", map[string]string{"name": `"labs"`}},
	"Transform": {transformShape, "transform", map[string]string{
		"image": `"other:1"`, "cmd": `["true"]`, "err_cmd": `["true"]`, "env": `{"A": "b"}`, "secrets": `[{"name": "s", "key": "k", "env_var": "V"}]`,
		"image_pull_secrets": `["s"]`, "stdin": `["echo"]`, "err_stdin": `["echo"]`, "accept_return_code": `[3]`, "debug": `true`, "user": `"root"`,
		"working_dir": `"/work"`, "dockerfile": `"Dockerfile"`, "memory_volume": `true`, "datum_batching": `true`,
	}},
	"SecretMount": {secretShape, "transform.secrets.0", map[string]string{
		"name": `"other"`, "key": `"other"`, "env_var": `"OTHER"`, "mount_path": `"/secret"`,
	}},
	"ParallelismSpec":     {parallelismShape, "parallelism_spec", map[string]string{"constant": `7`}},
	"Egress":              {egressShape, "egress", map[string]string{"URL": `"s3://other"`, "object_storage": `{"url": "s3://other"}`, "sql_database": `{"url": "mysql://db"}`}},
	"ObjectStorageEgress": {objectStorageShape, "egress.object_storage", map[string]string{"url": `"s3://other"`}},
	"ResourceSpec": {resourcesShape, "resource_limits", map[string]string{
		"cpu": `1.5`, "memory": `"2Gi"`, "disk": `"3Gi"`, "gpu": `{"number": 2}`,
	}},
	"GPUSpec":  {gpuShape, "resource_limits.gpu", map[string]string{"type": `"amd.com/gpu"`, "number": `"2"`}},
	"Metadata": {metadataShape, "metadata", map[string]string{"labels": `{"a": "b"}`, "annotations": `{"a": "b"}`}},
	"Input": {inputShape, "input", map[string]string{
		"pfs": `{"repo": "other", "glob": "/"}`, "cron": `{"name": "tick", "spec": "@daily"}`,
		"join":  `[{"pfs": {"repo": "other", "glob": "/(*)", "join_on": "$1"}}]`,
		"group": `[{"pfs": {"repo": "other", "glob": "/(*)", "group_by": "$1"}}]`,
		"cross": `[{"pfs": {"repo": "other", "glob": "/"}}]`, "union": `[{"pfs": {"repo": "other", "glob": "/"}}]`,
	}},
	"PFSInput": {pfsShape, "input.pfs", map[string]string{
		"project": `"labs"`, "name": `"pictures"`, "repo": `"other"`, "repo_type": `"meta"`, "branch": `"next"`, "commit": `"abc"`, "glob": `"/"`,
		"join_on": `"$1"`, "outer_join": `true`, "group_by": `"$1"`, "lazy": `true`, "empty_files": `true`, "s3": `true`, "trigger": `{"commits": 3}`,
	}},
	"CronInput": {cronShape, "input.cron", map[string]string{
		"name": `"tock"`, "project": `"labs"`, "repo": `"edges_tick"`, "commit": `"abc"`, "spec": `"@hourly"`, "overwrite": `true`, "start": `"2024-01-01T00:00:00Z"`,
	}},
}

// bases are specifications in which the messages are.
var bases = map[string]string{
	"": `{"pipeline": {"name": "edges"}, "transform": {"image": "edges:1", "cmd": ["python3", "/edges.py"]},
	  "input": {"pfs": {"repo": "images", "glob": "/*"}}, "parallelism_spec": {"constant": 2}}`,
	"pipeline.project":      `{"pipeline": {"name": "edges", "project": {}}, "transform": {"image": "edges:1", "cmd": ["a"]}, "input": {"pfs": {"repo": "images", "glob": "/*"}}}`,
	"transform.secrets.0":   `{"pipeline": {"name": "edges"}, "transform": {"image": "edges:1", "cmd": ["a"], "secrets": [{"name": "s", "key": "k", "env_var": "V"}]}, "input": {"pfs": {"repo": "images", "glob": "/*"}}}`,
	"egress":                `{"pipeline": {"name": "edges"}, "transform": {"image": "edges:1", "cmd": ["a"]}, "egress": {"URL": "s3://bucket"}, "input": {"pfs": {"repo": "images", "glob": "/*"}}}`,
	"egress.object_storage": `{"pipeline": {"name": "edges"}, "transform": {"image": "edges:1", "cmd": ["a"]}, "egress": {"object_storage": {"url": "s3://bucket"}}, "input": {"pfs": {"repo": "images", "glob": "/*"}}}`,
	"resource_limits":       `{"pipeline": {"name": "edges"}, "transform": {"image": "edges:1", "cmd": ["a"]}, "resource_limits": {"cpu": 1}, "input": {"pfs": {"repo": "images", "glob": "/*"}}}`,
	"resource_limits.gpu":   `{"pipeline": {"name": "edges"}, "transform": {"image": "edges:1", "cmd": ["a"]}, "resource_limits": {"gpu": {"number": 1}}, "input": {"pfs": {"repo": "images", "glob": "/*"}}}`,
	"metadata":              `{"pipeline": {"name": "edges"}, "transform": {"image": "edges:1", "cmd": ["a"]}, "metadata": {}, "input": {"pfs": {"repo": "images", "glob": "/*"}}}`,
	"input.cron":            `{"pipeline": {"name": "edges"}, "transform": {"image": "edges:1", "cmd": ["a"]}, "input": {"cron": {"name": "tick", "spec": "@daily"}}}`,
}

// TestEveryFieldIsHeard sets each field there is, in both spellings, and looks
// for what came of it: another Pipeline, a note that names it, or a refusal that
// does.
func TestEveryFieldIsHeard(t *testing.T) {
	for name, m := range fields {
		for field, value := range m.fields {
			for _, spelling := range slices.Compact([]string{field, camel(field)}) {
				t.Run(name+"/"+spelling, func(t *testing.T) {
					base, ok := bases[m.base]
					if !ok {
						base = bases[""]
					}
					before := convert(t, base)
					after, err := Convert(with(t, base, m.base, field, spelling, value), Options{})
					path := strings.TrimPrefix(strings.ReplaceAll(m.base, ".0", "[0]")+"."+spelling, ".")
					var refused *RefusedError
					switch {
					case errors.As(err, &refused):
						if !mentions(t, refused.Remarks, path) {
							t.Errorf("refused without a word of %s: %v", path, err)
						}
					case err != nil:
						t.Error(err)
					case cmp.Equal(before.Pipelines, after.Pipelines) && !mentions(t, after.Notes, path):
						t.Errorf("nothing came of %s", path)
					}
				})
			}
		}
	}
}

// mentions says whether a remark is about a path or what is in it, and ends well.
func mentions(t *testing.T, remarks []Remark, path string) bool {
	t.Helper()
	for _, r := range remarks {
		if len(r.Text) < 15 || strings.Contains(r.Text, "%!") {
			t.Errorf("a remark that says nothing: %s", r)
		}
	}
	return slices.ContainsFunc(remarks, func(r Remark) bool { return strings.HasPrefix(r.Field, path) })
}

func convert(t *testing.T, spec string) Result {
	t.Helper()
	out, err := Convert([]byte(spec), Options{})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// with is a specification in which a field of the message at a path is set.
func with(t *testing.T, spec, path, field, spelling, value string) []byte {
	t.Helper()
	var root map[string]any
	if err := json.Unmarshal([]byte(spec), &root); err != nil {
		t.Fatal(err)
	}
	at := any(root)
	for _, step := range strings.FieldsFunc(path, func(r rune) bool { return r == '.' }) {
		if list, ok := at.([]any); ok {
			at = list[0]
			continue
		}
		at = at.(map[string]any)[step]
	}
	target := at.(map[string]any)
	delete(target, field)
	if path == "input" || field == "object_storage" || field == "sql_database" { // one of several
		clear(target)
	}
	target[spelling] = json.RawMessage(value)
	out, err := json.Marshal(root)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestShapesAreThoseOfPachyderm compares the fields that are read, noted and
// refused with those that there are.
func TestShapesAreThoseOfPachyderm(t *testing.T) {
	for name, m := range fields {
		if diff := cmp.Diff(slices.Sorted(maps.Keys(m.fields)), m.shape.names()); diff != "" {
			t.Errorf("%s (-there are +are known):\n%s", name, diff)
		}
	}
}

// TestRetiredFieldsAreRefused: each by name.
func TestRetiredFieldsAreRefused(t *testing.T) {
	for name, m := range fields {
		for field := range m.shape.retired {
			t.Run(name+"/"+field, func(t *testing.T) {
				_, err := Convert(with(t, bases[""], m.base, field, field, `"x"`), Options{})
				if err == nil || !strings.Contains(err.Error(), field+": ") {
					t.Errorf("got %v", err)
				}
			})
		}
	}
}

// TestDefaultsAreAsIfNotThere: a field with the default of its type asks for
// nothing, even one that is refused.
func TestDefaultsAreAsIfNotThere(t *testing.T) {
	before := convert(t, bases[""])
	for _, field := range specificationShape.names() {
		if slices.Contains([]string{"pipeline", "transform", "input", "parallelism_spec"}, field) {
			continue
		}
		for _, value := range []string{"null", "false", "0", `""`, "[]"} {
			after, err := Convert(with(t, bases[""], "", field, field, value), Options{})
			if err != nil || !cmp.Equal(before, after) {
				t.Errorf("%s: %s: %v", field, value, err)
			}
		}
	}
}

// TestTheTableNamesEveryField: docs/pachyderm.md is complete.
func TestTheTableNamesEveryField(t *testing.T) {
	table, err := os.ReadFile("../../docs/pachyderm.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, m := range fields {
		for _, field := range slices.Concat(m.shape.names(), slices.Collect(maps.Keys(m.shape.retired))) {
			if !strings.Contains(string(table), "`"+field+"`") && !strings.Contains(string(table), "`"+camel(field)+"`") {
				t.Errorf("docs/pachyderm.md does not name %s of %s", field, name)
			}
		}
	}
}
