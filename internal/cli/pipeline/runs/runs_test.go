package runs

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/terminal"
)

// TestReason: a run that failed is listed with the whole reason, such as a limit of memory.
func TestReason(t *testing.T) {
	const reason = "stage copy: datum a failed after 1 try: OOM killed: the program and its worker need more memory than their limit of 64.0 MiB; raise the stage's memory limit; its log: muster pipeline logs one-1 copy --datum 'a'"
	run := v1alpha1.PipelineRun{}
	run.Name, run.Status.Phase, run.Status.Message = "one-1", v1alpha1.RunFailed, reason
	var out bytes.Buffer
	if err := human(terminal.Streams{Out: &out}, []v1alpha1.PipelineRun{run}, []Listed{listed(&run, time.Now())}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), reason) {
		t.Errorf("the reason is not in %s", &out)
	}
}
