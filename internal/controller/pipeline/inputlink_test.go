package pipeline

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// TestLinksToInputs: a link in the output to an input becomes its target, whether the program
// shares a folder with the foreman or not, and a link that leads elsewhere fails the datum at the
// first try.
func TestLinksToInputs(t *testing.T) {
	const (
		good = "ln -s $MUSTER_INPUT_IN/f $MUSTER_OUTPUT/g; ln -s $MUSTER_INPUT_IN/deep $MUSTER_OUTPUT/d; ln -s g $MUSTER_OUTPUT/l; ln -s ../in/in/f $MUSTER_OUTPUT/r"
		bad  = "echo tried; ln -s /etc/shadow $MUSTER_OUTPUT/g"
	)
	want := map[string]string{"g": "file", "d/x": "1", "d/y/z": "2", "l": "-> g", "r": "file"}
	member := "training: {roles: [{name: worker, replicas: 1, command: [sh, -c, '%s']}]}"
	for name, c := range map[string]struct {
		stage     string
		elsewhere bool
	}{
		"sharing":            {"command: [sh, -c, '%s']", false},
		"in an image":        {`environment: {image: "box:1"}, command: [sh, -c, '%s']`, false},
		"training":           {member, false},
		"training elsewhere": {member, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			if c.elsewhere {
				r.machine.Elsewhere, r.machine.DefaultImage = true, "box:1"
			}
			r.put("in", map[string]string{"f": "file", "deep/x": "1", "deep/y/z": "2", "other": "3"})
			apply := func(line string) *v1alpha1.PipelineRun {
				r.apply("{metadata: {name: p}, spec: {stages: [{name: a, input: {dataset: in}, " + fmt.Sprintf(c.stage, line) + "}]}}")
				return r.finish("p")
			}
			if run := apply(good); run.Status.Phase != v1alpha1.RunSucceeded {
				t.Fatalf("%s: %s", run.Status.Phase, run.Status.Message)
			}
			if diff := cmp.Diff(want, r.files("p-a")); diff != "" {
				t.Error(diff)
			}
			run := apply(bad)
			if run.Status.Phase != v1alpha1.RunFailed || !strings.Contains(run.Status.Message, "/etc/shadow") || strings.Contains(run.Status.Message, "tries") {
				t.Errorf("%s: %s", run.Status.Phase, run.Status.Message)
			}
		})
	}
}
