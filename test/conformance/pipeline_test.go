//go:build conformance

package conformance

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/test/e2e/harness"
)

// words is a pipeline of two stages, the second over everything that the first
// made.
const words = `metadata: {name: words}
spec:
  environment: {image: %q}
  stages:
  - name: upper
    input: {dataset: words, glob: "/*"}
    gpus: 1
    parallelism: {max: 2}
    command: [sh, -c, 'echo computing $MUSTER_DATUM; sleep 0.5; cat $MUSTER_INPUT_WORDS/* | tr a-z A-Z > $MUSTER_OUTPUT/$MUSTER_DATUM']
  - name: all
    input: {stage: upper}
    gpus: 1
    %s
`

// What the second stage runs: words of the file, or code beside it.
const (
	inWords = "command: [sh, -c, 'cat $MUSTER_INPUT_UPPER/* > $MUSTER_OUTPUT/all']"
	inCode  = "code: all.sh\n    command: [sh, all.sh]"
	allCode = "cat $MUSTER_INPUT_UPPER/* > $MUSTER_OUTPUT/all\n"
)

// author is somebody with a pipeline, in a namespace of a platform.
type author struct {
	testing.TB
	at        *platform
	namespace string
}

// author is somebody with a namespace of their own.
func (p *platform) author(t testing.TB) *author {
	t.Helper()
	return &author{TB: t, at: p, namespace: p.namespace(t)}
}

// muster runs the CLI in the author's namespace.
func (a *author) muster(args ...string) harness.Result {
	a.Helper()
	return a.at.muster(a, append([]string{"-n", a.namespace}, args...)...)
}

// says runs muster, which has to say something.
func (a *author) says(want string, args ...string) {
	a.Helper()
	r := a.muster(args...)
	if r.Code != 0 || !strings.Contains(r.Stdout+r.Stderr, want) {
		a.Fatalf("muster %s: code %d, want 0 and %q: %s%s", strings.Join(args, " "), r.Code, want, r.Stdout, r.Stderr)
	}
}

// put puts files into a dataset.
func (a *author) put(dataset string, files map[string]string) {
	a.Helper()
	dir := a.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			a.Fatal(err)
		}
	}
	a.says("", "data", "put", dir, dataset)
}

func (a *author) apply(text string) {
	a.Helper()
	a.applyBeside("all.sh", allCode, text)
}

// applyBeside applies a pipeline beside whose file there is one of code.
func (a *author) applyBeside(name, code, text string) {
	a.Helper()
	a.applyAmong(map[string]string{name: code}, text)
}

// applyAmong applies a pipeline beside whose file there are these of code.
func (a *author) applyAmong(code map[string]string, text string) {
	a.Helper()
	dir := a.TempDir()
	file := filepath.Join(dir, "pipeline.yaml")
	files := map[string]string{file: text}
	for name, text := range code {
		files[filepath.Join(dir, name)] = text
	}
	for path, text := range files {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			a.Fatal(err)
		}
	}
	a.says("created", "pipeline", "apply", "-f", file)
}

// finishes waits until a pipeline's run has succeeded.
func (a *author) finishes(pipeline string, within time.Duration) {
	a.Helper()
	harness.Eventually(a, within, "waiting for the run", func() error {
		r := a.muster("pipeline", "wait", pipeline, "--timeout", "45s")
		if r.Code != 0 {
			return fmt.Errorf("%s%s", r.Stdout, r.Stderr)
		}
		return nil
	})
}

// pipelineRun is what `muster pipeline runs` says of one.
type pipelineRun struct {
	Name   string
	Stages []v1alpha1.StageStatus
}

// lastRun is the last run of a pipeline.
func (a *author) lastRun(pipeline string) pipelineRun {
	a.Helper()
	r := a.muster("pipeline", "runs", pipeline, "-o", "json")
	var runs []pipelineRun
	if err := json.Unmarshal([]byte(r.Stdout), &runs); err != nil || len(runs) == 0 {
		a.Fatalf("%v: %s%s", err, r.Stdout, r.Stderr)
	}
	return runs[len(runs)-1]
}

// computed is how many datums each stage of the last run computed.
func (a *author) computed(pipeline string) map[string]int64 {
	a.Helper()
	out := map[string]int64{}
	for _, s := range a.lastRun(pipeline).Stages {
		out[s.Name] = s.Datums.Computed
	}
	return out
}

// tellsGPUs: a run says for how long a stage held GPUs, and for how much of that no datum
// was being computed, which is all but what its datums took: at least so many seconds.
func (a *author) tellsGPUs(pipeline, stage string, least float64) {
	a.Helper()
	r := a.muster("pipeline", "explain", pipeline, stage, "-o", "json")
	var found []struct {
		GPUSeconds, GPUIdleSeconds float64
		Computed                   []struct{ Seconds, GPUs float64 }
	}
	if err := json.Unmarshal([]byte(r.Stdout), &found); err != nil || len(found) != 1 {
		a.Fatalf("%v: %s%s", err, r.Stdout, r.Stderr)
	}
	var took float64
	for _, datum := range found[0].Computed {
		took += datum.Seconds * datum.GPUs
	}
	held, idle := found[0].GPUSeconds, found[0].GPUIdleSeconds
	if took < least || idle <= 0 || math.Abs(held-idle-took) > 0.01 {
		a.Fatalf("GPUs were held for %v s and idle for %v s of it, and datums took %v s, want %v s at least, and the rest idle: %s", held, idle, took, least, r.Stdout)
	}
	for _, s := range a.lastRun(pipeline).Stages {
		if s.Name == stage && (s.GPUSeconds.AsApproximateFloat64() != held || s.GPUIdleSeconds.AsApproximateFloat64() != idle) {
			a.Errorf("the run says that GPUs were held for %v s and idle for %v s, and explain %v s and %v s", s.GPUSeconds, s.GPUIdleSeconds, held, idle)
		}
	}
	a.says(fmt.Sprintf("GPUs held for %.0f s, idle for %.0f s of it", held, idle), "pipeline", "explain", pipeline)
}

// TestPipeline: stages compute in pods that share nothing with who gives datums out,
// and what a commit did not change is not computed again. Where no agent hands on
// what workers say, a pipeline is refused in words.
func TestPipeline(t *testing.T) {
	a := the.author(t)
	if the.counts {
		a.apply(fmt.Sprintf(words, the.image, inWords))
		harness.Eventually(t, within, "waiting for the refusal", func() error {
			r := a.muster("pipeline", "list")
			if !strings.Contains(r.Stdout, "Invalid") {
				return fmt.Errorf("%s%s", r.Stdout, r.Stderr)
			}
			return nil
		})
		return
	}
	a.apply(fmt.Sprintf(words, the.image, inCode))
	a.says("created", "data", "create", "words")
	a.put("words", map[string]string{"a": "one\n", "b": "two\n"})
	a.says("", "pipeline", "wait", "words", "--timeout", "50s")
	a.says("ONE\nTWO\n", "data", "cat", "words-all:/all")
	if diff := cmp.Diff(map[string]int64{"upper": 2, "all": 1}, a.computed("words")); diff != "" {
		t.Error(diff)
	}
	a.tellsGPUs("words", "upper", 1)
	a.put("words", map[string]string{"c": "three\n"})
	a.says("", "pipeline", "wait", "words", "--timeout", "50s")
	a.says("ONE\nTWO\nTHREE\n", "data", "cat", "words-all:/all")
	if diff := cmp.Diff(map[string]int64{"upper": 1, "all": 1}, a.computed("words")); diff != "" {
		t.Error(diff)
	}
	a.says("computing c", "pipeline", "logs", "words", "upper", "--datum", "c")
	a.says("file upper/c is new", "pipeline", "explain", "words", "all", "--datum", "all")
	a.says("words:/  3 files", "data", "trace", "words-all:/all")
	a.says("words-all", "data", "trace", "words:/c", "--made")
}
