//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/test/e2e/harness"
)

// TestPachydermFields runs specifications each of which has a field without which its
// output would be another one, or none.
func TestPachydermFields(t *testing.T) {
	m := isolated(t)
	for _, x := range []struct {
		name string
		test func(s *specified)
	}{
		{"join", joined},
		{"group and union", grouped},
		{"cron", timed},
		{"env, secrets, output_branch and gpu", surrounded},
		{"datum_tries and err_cmd", tried},
		{"datum_timeout", stopped},
		{"reprocess_spec", reprocessed},
		{"parallelism_spec and autoscaling", together},
		{"egress", copied},
	} {
		t.Run(x.name, func(t *testing.T) {
			x.test(&specified{T: t, m: m, ns: m.Namespace(t), ctx: deadline(t, 90*time.Second)})
		})
	}
}

// specified is a namespace in which specifications run.
type specified struct {
	*testing.T
	m   *harness.Muster
	ns  string
	ctx context.Context
}

func (s *specified) muster(args ...string) harness.Result {
	s.Helper()
	return s.m.Run(s.ctx, append([]string{"-n", s.ns}, args...)...)
}

// commits makes datasets that are not there yet, and puts files in them.
func (s *specified) commits(datasets map[string]map[string]string) {
	s.Helper()
	for _, name := range slices.Sorted(maps.Keys(datasets)) {
		if r := s.muster("data", "ls", name); r.Code != 0 {
			expect(s, s.muster("data", "create", name), 0)
		}
		expect(s, s.muster("data", "put", folder(s, datasets[name]), name), 0)
	}
}

// applies applies specifications, in a file of the usual name.
func (s *specified) applies(specifications string) {
	s.Helper()
	dir := folder(s, map[string]string{"pipelines.json": specifications})
	expect(s, s.muster("pipeline", "apply", "-f", filepath.Join(dir, "pipelines.json")), 0, " created")
}

// makes waits until a pipeline has run, and compares what is in its dataset.
func (s *specified) makes(pipeline string, want map[string]string) {
	s.Helper()
	expect(s, s.muster("pipeline", "wait", pipeline, "--timeout", "40s"), 0)
	s.has(pipeline, want)
}

// has compares the files of a dataset.
func (s *specified) has(dataset string, want map[string]string) {
	s.Helper()
	if diff := cmp.Diff(want, s.files(dataset)); diff != "" {
		s.Errorf("%s (-want +got):\n%s", dataset, diff)
	}
}

func (s *specified) files(dataset string) map[string]string {
	s.Helper()
	return texts(s.T, gotten(s.T, func(args ...string) harness.Result { return s.muster(append([]string{"data"}, args...)...) }, dataset))
}

func (s *specified) lastRun(pipeline string) pipelineRun {
	s.Helper()
	return lastRun(s.T, s.muster("pipeline", "runs", pipeline, "-o", "json"))
}

// joined: without outer_join, what has no partner is left out.
func joined(s *specified) {
	s.commits(map[string]map[string]string{
		"pictures": {"a.png": "A\n", "b.png": "B\n", "c.png": "C\n"},
		"labels":   {"a.txt": "apple\n", "b.txt": "pear\n", "d.txt": "plum\n"},
	})
	const specification = `{
  "pipeline": {"name": %q},
  "transform": {"cmd": ["sh", "-c", "cat $(find /pfs/pictures/ /pfs/labels/ -type f) > /pfs/out/$(basename /pfs/pictures/* .png)"]},
  "input": {"join": [
    {"pfs": {"repo": "pictures", "glob": "/(*).png", "join_on": "$1", "outer_join": %v}},
    {"pfs": {"repo": "labels", "glob": "/(*).txt", "join_on": "$1"}}
  ]}
}
`
	s.applies(fmt.Sprintf(specification, "inner", false) + fmt.Sprintf(specification, "outer", true))
	s.makes("inner", map[string]string{"a": "A\napple\n", "b": "B\npear\n"})
	s.makes("outer", map[string]string{"a": "A\napple\n", "b": "B\npear\n", "c": "C\n"})
}

// grouped has a datum for each place, with the files of both repos, and in another
// pipeline one for each file of either.
func grouped(s *specified) {
	s.commits(map[string]map[string]string{
		"here":  {"north-1": "1\n", "north-2": "2\n", "south-1": "3\n"},
		"there": {"south-2": "4\n"},
	})
	s.applies(`{
  "pipeline": {"name": "grouped"},
  "transform": {"cmd": ["sh", "-c", "cat $(find /pfs/here/ /pfs/there/ -type f | sort) > /pfs/out/$(ls /pfs/here | head -1 | cut -d- -f1)"]},
  "input": {"group": [
    {"pfs": {"repo": "here", "glob": "/(*)-*", "group_by": "$1"}},
    {"pfs": {"repo": "there", "glob": "/(*)-*", "group_by": "$1"}}
  ]}
}
{
  "pipeline": {"name": "united"},
  "transform": {"cmd": ["sh", "-c", "cd /pfs/either; for f in *; do echo $f of $(ls | wc -l): $(cat $f) > /pfs/out/$f; done"]},
  "input": {"union": [
    {"pfs": {"name": "either", "repo": "here", "glob": "/north*"}},
    {"pfs": {"name": "either", "repo": "there", "glob": "/"}}
  ]}
}`)
	s.makes("grouped", map[string]string{"north": "1\n2\n", "south": "3\n4\n"})
	s.makes("united", map[string]string{"north-1": "north-1 of 1: 1\n", "north-2": "north-2 of 1: 2\n", "south-2": "south-2 of 1: 4\n"})
}

// timed has times come every two seconds: they gather in the output of one pipeline, and
// in that of the other each takes the place of the one before.
func timed(s *specified) {
	const specification = `{
  "pipeline": {"name": %q},
  "transform": {"cmd": ["sh", "-c", "cp /pfs/tick/* /pfs/out"]},
  "input": {"cron": {"name": "tick", "spec": "@every 2s", "overwrite": %v}}
}
`
	s.applies(fmt.Sprintf(specification, "gathers", false) + fmt.Sprintf(specification, "replaces", true))
	times := func(pipeline string) []string {
		return timeName.FindAllString(s.muster("data", "ls", pipeline).Stdout, -1)
	}
	replaced := map[string]bool{}
	harness.Eventually(s, 40*time.Second, "waiting for times", func() error {
		now := times("replaces")
		if len(now) > 1 {
			s.Errorf("%v are there together", now)
		}
		for _, at := range now {
			replaced[at] = true
		}
		if all := times("gathers"); len(all) < 3 || len(replaced) < 3 {
			return fmt.Errorf("%v have gathered, and %v were there one after another", all, replaced)
		}
		return nil
	})
	for name, text := range s.files("gathers") {
		if text != name+"\n" {
			s.Errorf("the file of %s has %q in it", name, text)
		}
	}
	expect(s, s.muster("pipeline", "delete", "--yes", "gathers", "replaces"), 0)
}

var timeName = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)

// surrounded has a program tell its variables and its GPUs, on a branch that is not the
// usual one.
func surrounded(s *specified) {
	expect(s, s.m.Kubectl(s.ctx, "", "-n", s.ns, "create", "secret", "generic", "tracker", "--from-literal=token=hush"), 0)
	s.commits(map[string]map[string]string{"words": {"a": "one\n"}})
	s.applies(`{
  "pipeline": {"name": "finds"},
  "transform": {
    "cmd": ["sh", "-c", "echo $GREETING $TOKEN > /pfs/out/variables; echo $MUSTER_GPUS | tr , '\\n' | sort -u | wc -l > /pfs/out/gpus"],
    "env": {"GREETING": "good morning"},
    "secrets": [{"name": "tracker", "key": "token", "env_var": "TOKEN"}]
  },
  "resource_limits": {"gpu": {"type": "nvidia.com/gpu", "number": 2}},
  "output_branch": "next",
  "input": {"pfs": {"repo": "words", "glob": "/"}}
}`)
	expect(s, s.muster("pipeline", "wait", "finds", "--timeout", "40s"), 0)
	s.has("finds@next", map[string]string{"variables": "good morning hush\n", "gpus": "2\n"})
	expect(s, s.muster("data", "ls", "finds@main"), 3)
}

// tried has a program succeed at the fifth try, which is more than there are if nothing is
// said, and one that is not tried again.
func tried(s *specified) {
	tries := s.TempDir()
	s.commits(map[string]map[string]string{"words": {"a": "one\n"}})
	const specification = `{
  "pipeline": {"name": %[1]q},
  "transform": {"cmd": ["sh", "-c", "echo >> %[2]s/%[1]s; [ $(wc -l < %[2]s/%[1]s) -ge 5 ] && cp /pfs/words/* /pfs/out"]%[4]s},
  "datum_tries": %[3]d,
  "input": {"pfs": {"repo": "words", "glob": "/*"}}
}
`
	s.applies(fmt.Sprintf(specification, "five", tries, 5, "") + fmt.Sprintf(specification, "one", tries, 1, "") +
		fmt.Sprintf(specification, "skipping", tries, 2, `, "err_cmd": ["true"]`))
	s.makes("five", map[string]string{"a": "one\n"})
	expect(s, s.muster("pipeline", "wait", "one", "--timeout", "40s"), 1, "a")
	s.makes("skipping", map[string]string{})
	want := map[string]string{"five": "\n\n\n\n\n", "one": "\n", "skipping": "\n\n"}
	if diff := cmp.Diff(want, texts(s.T, tries)); diff != "" {
		s.Errorf("how often each was tried (-want +got):\n%s", diff)
	}
}

// stopped has a program that does not end.
func stopped(s *specified) {
	seconds := mark()
	s.commits(map[string]map[string]string{"words": {"a": "one\n"}})
	s.applies(fmt.Sprintf(`{
  "pipeline": {"name": "endless"},
  "transform": {"cmd": ["sh", "-c", "echo begun; sleep %s"]},
  "datum_tries": 1,
  "datum_timeout": "1s",
  "input": {"pfs": {"repo": "words", "glob": "/*"}}
}`, seconds))
	expect(s, s.muster("pipeline", "wait", "endless", "--timeout", "40s"), 1, "it was stopped: it took longer than 1s")
	expect(s, s.muster("pipeline", "logs", "endless", "--failed"), 0, "begun")
	waitGone(s, s.m, 10*time.Second, seconds)
}

// reprocessed adds a file: of one pipeline that alone is computed, of the other all are.
func reprocessed(s *specified) {
	const specification = `{
  "pipeline": {"name": %q},
  "transform": {"cmd": ["sh", "-c", "cp /pfs/words/* /pfs/out; echo %[1]s"]},
  "reprocess_spec": %[2]q,
  "input": {"pfs": {"repo": "words", "glob": "/*"}}
}
`
	s.applies(fmt.Sprintf(specification, "always", "every_job") + fmt.Sprintf(specification, "changed", "until_success"))
	words := map[string]string{"a": "one\n", "b": "two\n"}
	for _, computed := range []map[string]int64{{"always": 2, "changed": 2}, {"always": 3, "changed": 1}} {
		s.commits(map[string]map[string]string{"words": words})
		for pipeline, n := range computed {
			s.makes(pipeline, words)
			if run := s.lastRun(pipeline); run.Computed != n {
				s.Errorf("of %d files %s computed %d, want %d", len(words), pipeline, run.Computed, n)
			}
		}
		words["c"] = "three\n"
	}
}

// together has datums that end only when another one has begun, so two workers are
// needed. One pipeline may have more workers than there are GPUs.
func together(s *specified) {
	s.commits(map[string]map[string]string{"words": {"a": "", "b": "", "c": "", "d": "", "e": "", "f": "", "g": "", "h": ""}})
	const specification = `{
  "pipeline": {"name": %q},
  "transform": {"cmd": ["sh", "-c", "touch %s/$(ls /pfs/words); until [ $(ls %[2]s | wc -l) -gt 1 ]; do sleep 0.05; done; cp /pfs/words/* /pfs/out"]},
  "parallelism_spec": {"constant": %d},
  "datum_tries": 1,
  "datum_timeout": "20s",
  %s
  "input": {"pfs": {"repo": "words", "glob": "/*"}}
}
`
	s.applies(fmt.Sprintf(specification, "constant", s.TempDir(), 2, "") +
		fmt.Sprintf(specification, "scaling", s.TempDir(), 8, `"autoscaling": true, "resource_requests": {"gpu": {"number": 1}},`))
	for _, pipeline := range []string{"constant", "scaling"} {
		expect(s, s.muster("pipeline", "wait", pipeline, "--timeout", "40s"), 0)
		if got := len(s.files(pipeline)); got != 8 {
			s.Errorf("%s made %d files of 8", pipeline, got)
		}
	}
}

// copied has outputs copied to a dataset, by this Muster's own gateway.
func copied(s *specified) {
	var key struct{ AccessKeyID, SecretAccessKey, Endpoint, Region string }
	if r := s.muster("data", "key", "create", "-o", "json"); json.Unmarshal([]byte(r.Stdout), &key) != nil || key.Endpoint == "" {
		s.Fatalf("exit code %d: %s%s", r.Code, r.Stdout, r.Stderr)
	}
	expect(s, s.m.Kubectl(s.ctx, "", "-n", s.ns, "create", "secret", "generic", "muster-egress",
		"--from-literal=AWS_ACCESS_KEY_ID="+key.AccessKeyID, "--from-literal=AWS_SECRET_ACCESS_KEY="+key.SecretAccessKey,
		"--from-literal=AWS_ENDPOINT_URL="+key.Endpoint, "--from-literal=AWS_REGION="+key.Region), 0)
	s.commits(map[string]map[string]string{"backup": {"kept": "before\n"}, "words": {"a": "one\n"}})
	const specification = `{
  "pipeline": {"name": %q},
  "transform": {"cmd": ["sh", "-c", "cp /pfs/words/* /pfs/out"]},
  "egress": %s,
  "input": {"pfs": {"repo": "words", "glob": "/*"}}
}
`
	s.applies(fmt.Sprintf(specification, "plainly", `{"URL": "s3://backup/main/url"}`) +
		fmt.Sprintf(specification, "stored", `{"object_storage": {"url": "s3://backup/main/storage"}}`))
	for _, pipeline := range []string{"plainly", "stored"} {
		s.makes(pipeline, map[string]string{"a": "one\n"})
	}
	s.has("backup", map[string]string{"kept": "before\n", "url/a": "one\n", "storage/a": "one\n"})
}
