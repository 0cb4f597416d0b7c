package create

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/output"
	"github.com/muster-dev/muster/internal/cli/queue/sample"
)

func TestFlags(t *testing.T) {
	tests := []struct {
		args string
		says string
		want string
	}{
		{args: "vision --dry-run", want: "metadata:\n  name: vision\nspec: {}\n"},
		{
			args: "ocr --parent vision --guaranteed gpu=8,cpu=64 --guaranteed Memory=512Gi --limit A100=500m --weight 3 --borrowing=false --reclaim lower-priority --min-run-time 30m --user-fairness=false --stopped --lending-limit gpu=2 --dry-run",
			want: `metadata:
  name: ocr
spec:
  borrowing: Never
  guaranteed:
    cpu: "64"
    gpu: "8"
    memory: 512Gi
  lendingLimit:
    gpu: "2"
  limit:
    A100: 500m
  parent: vision
  preemption:
    minRunSeconds: 1800
    reclaim: LowerPriority
  stopped: true
  userFairness: false
  weight: 3
`,
		},
		{args: "", says: "create which queue?"},
		{args: "a b", says: `what is "b"?`},
		{args: "My_Queue", says: "no name for a queue"},
		{args: "a --guaranteed gpus=8", says: "did you mean gpu=8?"},
		{args: "a --guaranteed gpu=99999999999999999999", says: "the amount is too large; give at most 1000000000000000"},
		{args: "a --guaranteed memroy=8Gi", says: "did you mean memory=8Gi?"},
		{args: "a --guaranteed gpu=-1", says: "cannot be negative"},
		{args: "a --limit gpu=many", says: `"many" is no amount`},
		{args: "a --limit gpu", says: "give a class and an amount"},
		{args: "a --weight 0", says: "from 1 to 1000"},
		{args: "a --reclaim lower-prority", says: "did you mean lower-priority?"},
		{args: "a --min-run-time=-5m", says: "give whole seconds"},
		{args: "a -o wide", says: "no such output format"},
	}
	for _, tt := range tests {
		t.Run(tt.args, func(t *testing.T) {
			streams, out, _ := sample.Streams()
			cmd := New(connection.New(streams, "test"))
			cmd.SilenceErrors, cmd.SilenceUsage = true, true
			cmd.SetArgs(strings.Fields(tt.args))
			err := cmd.ExecuteContext(t.Context())
			if tt.says != "" {
				if code, _ := exit.Of(err); code != exit.Misuse || !strings.Contains(err.Error(), tt.says) {
					t.Errorf("error: %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff("apiVersion: muster.dev/v1alpha1\nkind: Queue\n"+tt.want, out.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestCreate(t *testing.T) {
	tests := []struct {
		name, queue, parent, gpus string
		code                      exit.Code
		says                      string
	}{
		{name: "a good one", queue: "new", parent: "vision", gpus: "1", says: "queue new created; jobs join it with muster run --queue new"},
		{name: "default with terms of its own", queue: "default", gpus: "2", says: "queue default created"},
		{name: "one that exists", queue: "ocr", code: exit.Failure, says: "muster queue edit ocr"},
		{name: "a misspelt parent", queue: "new", parent: "vison", code: exit.Missing, says: "there is no queue vison; did you mean vision?"},
		{name: "more than the parent has", queue: "new", parent: "vision", gpus: "2", code: exit.Failure, says: "its children are guaranteed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			world := sample.Team(t)
			streams, out, _ := sample.Streams()
			o := &options{streams: streams, format: new(output.Format)}
			err := o.run(t.Context(), world, sample.Queue(tt.queue, tt.parent, tt.gpus, nil))
			said := out.String()
			if err != nil {
				said = err.Error()
			}
			if code, _ := exit.Of(err); code != tt.code || !strings.Contains(said, tt.says) {
				t.Errorf("code %d, %q", code, said)
			}
			missing := world.Get(t.Context(), client.ObjectKey{Name: tt.queue}, &v1alpha1.Queue{})
			if (missing == nil) != (tt.code == 0 || tt.queue == "ocr") {
				t.Errorf("on the server: %v", missing)
			}
		})
	}
}
