package list

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/output"
	"github.com/muster-dev/muster/internal/cli/queue/describe"
	"github.com/muster-dev/muster/internal/cli/queue/sample"
)

func TestTree(t *testing.T) {
	world := sample.Team(t)
	for format, want := range map[output.Format]string{
		output.Human: `
QUEUE    GUARANTEED  USED          BORROWED      LIMIT  WAITING  NOTE
batch    gpu=2       -             -             -      0        stopped
default  -           gpu=4,A100=4  gpu=4,A100=4  -      0        implied
vision   gpu=4       gpu=3,A100=3  -             gpu=6  1
├─ maps  gpu=2       -             -             -      1
└─ ocr   gpu=1       gpu=3,A100=3  gpu=2,A100=2  -      0
`,
		output.Name: "queue.muster.dev/batch\nqueue.muster.dev/maps\nqueue.muster.dev/ocr\nqueue.muster.dev/vision\n",
	} {
		streams, out, _ := sample.Streams()
		if err := run(t.Context(), world, nil, streams, format); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(strings.TrimPrefix(want, "\n"), out.String()); diff != "" {
			t.Errorf("-o %q (-want +got):\n%s", format, diff)
		}
	}
}

func TestDocuments(t *testing.T) {
	streams, out, _ := sample.Streams()
	if err := run(t.Context(), sample.Team(t), nil, streams, output.JSON); err != nil {
		t.Fatal(err)
	}
	var list v1alpha1.QueueList
	if err := json.Unmarshal(out.Bytes(), &list); err != nil {
		t.Fatal(err)
	}
	vision := list.Items[3]
	used := vision.Status.Used["gpu"]
	if vision.Name != "vision" || used.Value() != 3 || vision.Status.Waiting != 1 || vision.Status.Running != 1 {
		t.Errorf("vision: %+v", vision.Status)
	}
}

func TestWideAndInvalid(t *testing.T) {
	world := sample.World(t, sample.Box(), sample.Queue("ocr", "vison", "9", nil))
	objects := sample.Work("lost", "gone", "eve", 0, 1, v1alpha1.GangRunning)
	for _, object := range objects {
		if err := world.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	streams, out, _ := sample.Streams()
	if err := run(t.Context(), world, nil, streams, output.Wide); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"invalid: parent; see muster queue describe ocr", "not there; jobs name it", "gpu=1,A100=1,cpu=2,memory=8Gi", "6.2%"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, out)
		}
	}
}

// A user without the right to list nodes gets the status of the queues.
func TestListOfATenant(t *testing.T) {
	vision := sample.Queue("vision", "", "4", nil)
	vision.Status = v1alpha1.QueueStatus{Used: v1alpha1.ResourceAmounts{"gpu": resource.MustParse("3")}, Waiting: 2, Running: 1}
	server := interceptor.NewClient(sample.World(t, vision, sample.Queue("ocr", "vision", "", nil)), interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if _, ok := list.(*v1alpha1.QueueList); !ok {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "", nil)
			}
			return c.List(ctx, list, options...)
		},
	})
	streams, out, _ := sample.Streams()
	if err := run(t.Context(), server, nil, streams, output.Human); err != nil {
		t.Fatal(err)
	}
	want := "QUEUE   BELOW   GUARANTEED  USED   BORROWED  LIMIT  WAITING  RUNNING\n" +
		"ocr     vision  -           -      -         -      0        0\n" +
		"vision  -       gpu=4       gpu=3  -         -      2        1\n"
	if out.String() != want {
		t.Errorf("it prints\n%swant\n%s", out, want)
	}
	out.Reset()
	if err := run(t.Context(), server, nil, streams, output.Name); err != nil || out.String() != "queue.muster.dev/ocr\nqueue.muster.dev/vision\n" {
		t.Errorf("names: %q, %v", out, err)
	}
}

// TestListOfAMachine: users have their logins in tables; documents have the names of queues, too.
func TestListOfAMachine(t *testing.T) {
	world := sample.World(t, sample.Box(), sample.Queue("vision", "", "4", nil), sample.Queue("u-1001", "vision", "2", nil))
	user := interceptor.NewClient(world, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if _, ok := list.(*v1alpha1.QueueList); !ok {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "", nil)
			}
			return c.List(ctx, list, options...)
		},
	})
	logins := describe.Logins{"u-1001": "ann", "vision": ""}
	for name, server := range map[string]client.Client{"administrator": world, "user": user} {
		t.Run(name, func(t *testing.T) {
			for format, want := range map[output.Format][]string{
				output.Human: {"ann ", "vision"}, output.Name: {"queue.muster.dev/u-1001\n"},
				output.JSON: {`"name": "u-1001"`, `"login": "ann"`, `"parent": "vision"`, `"kind": "QueueList"`}, output.YAML: {"login: ann\n", "name: u-1001\n"},
			} {
				streams, out, _ := sample.Streams()
				if err := run(t.Context(), server, logins, streams, format); err != nil {
					t.Fatal(err)
				}
				for _, text := range want {
					if !strings.Contains(out.String(), text) {
						t.Errorf("%s lacks %q:\n%s", format, text, out)
					}
				}
				if format == output.Human && strings.Contains(out.String(), "u-1001") {
					t.Errorf("the table has a queue's name for a user:\n%s", out)
				}
			}
		})
	}
}
