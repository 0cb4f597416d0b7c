package delete

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/output"
	"github.com/muster-dev/muster/internal/cli/queue/sample"
)

func TestDelete(t *testing.T) {
	tests := []struct {
		name          string
		names         []string
		force, ignore bool
		code          exit.Code
		says          string
		out           string
		left          []string
	}{
		{name: "an empty one", names: []string{"batch"}, out: "queue batch deleted\n", left: []string{"maps", "ocr", "vision"}},
		{name: "one that jobs run in", names: []string{"batch", "ocr"}, code: exit.Failure, says: "queue ocr is not deleted: default/scan runs in it"},
		{name: "one that jobs wait in", names: []string{"maps"}, code: exit.Failure, says: "default/tiles waits in it; move jobs away first (muster queue move JOB --to QUEUE)"},
		{name: "one with queues below", names: []string{"vision"}, code: exit.Failure, says: "maps, ocr are below it"},
		{name: "all the same", names: []string{"ocr"}, force: true, out: "queue ocr deleted\n", says: "what runs goes on", left: []string{"batch", "maps", "vision"}},
		{name: "misspelt", names: []string{"batch", "vison"}, code: exit.Missing, says: "there is no queue vison; did you mean vision?"},
		{name: "misspelt and no matter", names: []string{"vison"}, ignore: true},
		{name: "the implied one", names: []string{"default"}, code: exit.Failure, says: "cannot be deleted"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			world := sample.Team(t)
			streams, out, errs := sample.Streams()
			o := &options{streams: streams, format: new(output.Format), force: tt.force, ignore: tt.ignore}
			err := o.run(t.Context(), world, tt.names)
			said := errs.String()
			if err != nil {
				said += err.Error()
			}
			if code, _ := exit.Of(err); code != tt.code || !strings.Contains(said, tt.says) {
				t.Errorf("code %d, %q", code, said)
			}
			if out.String() != tt.out {
				t.Errorf("said %q, want %q", out, tt.out)
			}
			var list v1alpha1.QueueList
			if err := world.List(t.Context(), &list); err != nil {
				t.Fatal(err)
			}
			var left []string
			for i := range list.Items {
				left = append(left, list.Items[i].Name)
			}
			want := tt.left
			if want == nil {
				want = []string{"batch", "maps", "ocr", "vision"}
			}
			if diff := cmp.Diff(want, left); diff != "" {
				t.Errorf("left (-want +got):\n%s", diff)
			}
		})
	}
}
