//go:build e2e

package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/test/e2e/harness"
)

// specifications are for Pachyderm: programs find files below /pfs. The second
// reads what the first makes, and what that was made of.
var specifications = map[string]string{
	"pipelines.json": `{
  "pipeline": {"name": "shout"},
  "transform": {
    "cmd": ["sh"],
    "stdin": ["for f in /pfs/words/*; do tr a-z A-Z < $f > /pfs/out/$(basename $f); done", "exit 3"],
    "acceptReturnCode": [3],
    "workingDir": "/tmp"
  },
  "parallelismSpec": {"constant": 2},
  "autoscaling": true,
  "input": {"pfs": {"repo": "words", "branch": "master", "glob": "/*"}}
}
{
  "pipeline": {"name": "both"},
  "transform": {"cmd": ["sh", "-c", "for f in $(ls /pfs/words); do echo $(cat /pfs/words/$f /pfs/shout/$f); done > /pfs/out/all"]},
  "input": {"cross": [
    {"pfs": {"repo": "words", "glob": "/"}},
    {"pfs": {"repo": "shout", "glob": "/"}}
  ]}
}`,
}

// trainedBelow is a training stage whose members find the files below /pfs, too.
const trainedBelow = `metadata: {name: learn}
spec:
  stages:
  - name: all
    input: {dataset: shout}
    mountPath: /pfs
    training: {roles: [{name: worker, replicas: 2, command: [sh, -c, 'cat /pfs/shout/* > /pfs/out/$INDEX']}]}
`

// TestPachyderm runs specifications as they are, where files can be shown below
// /pfs; where they cannot, they are refused.
func TestPachyderm(t *testing.T) {
	eachTier(t, func(t *testing.T, m *harness.Muster) {
		ns, ctx := m.Namespace(t), deadline(t, 3*time.Minute)
		muster := func(args ...string) harness.Result {
			t.Helper()
			return m.Run(ctx, append([]string{"-n", ns}, args...)...)
		}
		file := filepath.Join(folder(t, specifications), "pipelines.json")
		applied := muster("pipeline", "apply", "-f", file)
		if m != isolated(t) {
			expect(t, applied, 2, "shout: transform: ", "below /pfs", "plain tier", "$MUSTER_INPUT_<NAME>")
			expect(t, muster("pipeline", "apply", "-f", filepath.Join(folder(t, map[string]string{"p.yaml": trainedBelow}), "p.yaml")), 0)
			harness.Eventually(t, time.Minute, "waiting for the refusal", func() error {
				if r := muster("pipeline", "list"); !strings.Contains(r.Stdout, "nothing can be mounted at /pfs: this Muster is in the plain tier") {
					return fmt.Errorf("%s%s", r.Stdout, r.Stderr)
				}
				return nil
			})
			return
		}
		expect(t, applied, 0, "pipeline shout created", "pipeline both created", "note: shout: transform.workingDir: ")
		expect(t, muster("data", "create", "words"), 0)
		expect(t, muster("data", "put", folder(t, map[string]string{"a": "one", "b": "two"}), "words"), 0)
		for _, name := range []string{"shout", "both"} {
			expect(t, muster("pipeline", "wait", name, "--timeout", "60s"), 0)
		}
		expect(t, muster("data", "cat", "shout:/a"), 0, "ONE")
		trained := folder(t, map[string]string{"p.yaml": trainedBelow})
		expect(t, muster("pipeline", "apply", "-f", filepath.Join(trained, "p.yaml")), 0)
		expect(t, muster("pipeline", "wait", "learn", "--timeout", "60s"), 0)
		expect(t, muster("data", "cat", "learn-all:/0"), 0, "ONETWO")
		expect(t, muster("data", "cat", "learn-all:/1"), 0, "ONETWO")
		harness.Eventually(t, time.Minute, "waiting for what reads both", func() error {
			r := muster("data", "cat", "both:/all")
			if diff := cmp.Diff("oneONE\ntwoTWO\n", r.Stdout); diff != "" {
				return fmt.Errorf("%s%s", r.Stderr, diff)
			}
			return nil
		})
	})
}
