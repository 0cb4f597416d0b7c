package explain

import (
	"bytes"
	"strings"
	"testing"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/terminal"
)

// TestReason: the whole reason of a run and of its stage is printed, such as a limit of memory.
func TestReason(t *testing.T) {
	const reason = "datum a failed after 1 try: OOM killed: the program and its worker need more memory than their limit of 64.0 MiB; raise the stage's memory limit"
	run := &v1alpha1.PipelineRun{}
	run.Name, run.Status.Phase, run.Status.Message = "one-1", v1alpha1.RunFailed, "stage copy: "+reason
	var out bytes.Buffer
	o := &options{factory: &connection.Factory{Streams: terminal.Streams{Out: &out}}}
	if err := o.print(run, []Explained{{Stage: "copy", Phase: v1alpha1.RunFailed, Message: reason}}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"one-1  Failed: stage copy: " + reason, "copy  Failed: " + reason} {
		if !strings.Contains(out.String(), want+"\n") {
			t.Errorf("%q is not in %s", want, &out)
		}
	}
}
