//go:build conformance

package conformance

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// specification is one for Pachyderm, whose program finds its files below /pfs.
const specification = `{
  "pipeline": {"name": "shout"},
  "input": {"pfs": {"repo": "words", "branch": "master", "glob": "/*"}},
  "transform": {
    "image": %q,
    "cmd": ["sh"],
    "stdin": ["cd /pfs/words", "for f in *; do echo $(tr a-z A-Z < $f)$MARK > /pfs/out/$f; done"],
    "env": {"MARK": "!"}
  },
  "parallelism_spec": {"constant": 2},
  "resource_limits": {"gpu": {"type": "nvidia.com/gpu", "number": 1}},
  "datum_tries": 2
}`

// TestPipelineOfPachyderm: a specification for Pachyderm runs as it is, with GPUs; only
// what is new of it runs again.
func TestPipelineOfPachyderm(t *testing.T) {
	onAgents(t)
	a := the.author(t)
	a.says("created", "data", "create", "words")
	a.put("words", map[string]string{"a": "one", "b": "two"})
	a.apply(fmt.Sprintf(specification, the.image))
	a.finishes("shout", 3*time.Minute)
	a.says("ONE!\n", "data", "cat", "shout:/a")
	a.says("TWO!\n", "data", "cat", "shout:/b")
	a.put("words", map[string]string{"a": "one", "b": "two", "c": "three"})
	a.finishes("shout", 3*time.Minute)
	a.says("THREE!\n", "data", "cat", "shout:/c")
	if diff := cmp.Diff(map[string]int64{"shout": 1}, a.computed("shout")); diff != "" {
		t.Errorf("one file more: %s", diff)
	}
}
