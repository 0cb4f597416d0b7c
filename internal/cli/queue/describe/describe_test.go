package describe

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/output"
	"github.com/muster-dev/muster/internal/cli/queue/sample"
	"github.com/muster-dev/muster/internal/cli/terminal"
	"github.com/muster-dev/muster/internal/visibility"
)

func TestPage(t *testing.T) {
	streams, out, _ := sample.Streams()
	if err := run(t.Context(), sample.Team(t), noDoor, nil, streams, output.Human, []string{"ocr"}); err != nil {
		t.Fatal(err)
	}
	want := `ocr  open

Parent         vision
Jobs           1 running, 0 waiting
Share          12.5% of the cluster above its guarantee, by weight
Weight         1
Borrowing      allowed
Reclaim        from any borrower (as the queue above)
User fairness  on

CLASS   GUARANTEED  USED  BORROWED  LIMIT  CAN TAKE
gpu     1           3     2         -      1 more
A100    0           3     2         -      1 more
cpu     0           6     6         -      50 more
memory  0           24Gi  24Gi      -      456Gi more

CLASS  AMOUNT  BORROWING
gpu    1       may borrow from vision, which leaves it idle
gpu    4       borrowed by default

USER  HOLDS                           RUNNING  WAITING
ada   gpu=3,A100=3,cpu=6,memory=24Gi  1        0

JOB           USER  STATE  AMOUNT
default/scan  ada   runs   gpu=3,A100=3,cpu=6,memory=24Gi
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDocument(t *testing.T) {
	streams, out, _ := sample.Streams()
	if err := run(t.Context(), sample.Team(t), noDoor, nil, streams, output.JSON, []string{"vision"}); err != nil {
		t.Fatal(err)
	}
	var got Document
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	take := got.CanTake["A100"]
	if got.Name != "vision" || len(got.Children) != 2 || got.Running != 1 || got.Waiting != 1 || take.String() != "1" || got.Jobs != nil {
		t.Errorf("%+v", got)
	}
	out.Reset()
	if err := run(t.Context(), sample.Team(t), noDoor, nil, streams, output.JSON, []string{"ocr", "default"}); err != nil {
		t.Fatal(err)
	}
	var two []Document
	if err := json.Unmarshal(out.Bytes(), &two); err != nil || len(two) != 2 || len(two[0].Jobs) != 1 || !two[0].Jobs[0].Runs || two[0].Users[0].Name != "ada" {
		t.Errorf("%+v, error %v", two, err)
	}
}

// One person at two machines is one user, as the scheduler counts.
func TestUsers(t *testing.T) {
	objects := []client.Object{sample.Box()}
	objects = append(objects, sample.Work("scan", "", "ada@box", 0, 3, v1alpha1.GangRunning)...)
	objects = append(objects, sample.Work("tiles", "", "ada@lab", 3, 2, v1alpha1.GangRunning)...)
	streams, out, _ := sample.Streams()
	if err := run(t.Context(), sample.World(t, objects...), noDoor, nil, streams, output.Human, []string{"default"}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "\nada   gpu=5,A100=5,cpu=10,memory=40Gi  2        0\n") || strings.Contains(out.String(), "@") {
		t.Errorf("described:\n%s", out)
	}
}

func TestNamesThatAreNot(t *testing.T) {
	streams, out, _ := sample.Streams()
	world := sample.Team(t)
	err := run(t.Context(), world, noDoor, nil, streams, output.Human, []string{"vison"})
	if code, _ := exit.Of(err); code != exit.Missing || !strings.Contains(err.Error(), "did you mean vision?") {
		t.Errorf("error: %v", err)
	}
	if err := run(t.Context(), world, noDoor, nil, streams, output.Human, []string{"default"}); err != nil || !strings.Contains(out.String(), "implied") {
		t.Errorf("default: %v\n%s", err, out)
	}
}

// Users without the right to list nodes get a queue's status.
func TestDescribeOfATenant(t *testing.T) {
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
	streams, out, errs := sample.Streams()
	if err := run(t.Context(), server, noDoor, nil, streams, output.Human, []string{"vision"}); err != nil {
		t.Fatal(err)
	}
	want := "vision\n\nBelow   ocr\nJobs    1 running, 2 waiting\n\nCLASS  GUARANTEED  USED  BORROWED\ngpu    4           3     -\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, format := range []output.Format{output.Human, output.JSON} {
		errs.Reset()
		if err := run(t.Context(), server, noDoor, nil, streams, format, []string{"vision", "ocr"}); err != nil || strings.Count(errs.String(), "not shown, because you may not list nodes") != 1 {
			t.Errorf("%s: %v, told %q", format, err, errs)
		}
	}
	err := run(t.Context(), server, noDoor, nil, streams, output.Human, []string{"visoin"})
	if code, _ := exit.Of(err); code != exit.Missing {
		t.Errorf("a queue that is not there: %v", err)
	}
}

// noDoor stands for a Muster that does not answer at its door.
func noDoor(context.Context) ([]Document, error) { return nil, errors.New("there is no door") }

// TestAtTheDoor: somebody who may not list nodes has Muster describe queues.
func TestAtTheDoor(t *testing.T) {
	server := interceptor.NewClient(sample.Team(t), interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "", nil)
		},
	})
	door := func(context.Context) ([]Document, error) {
		return []Document{{Name: "vision", State: "open", Users: []User{{Name: "ann", Running: 1}}, Jobs: []Job{{User: "ann", Runs: true}}}}, nil
	}
	var out, errs strings.Builder
	streams := terminal.Streams{Out: &out, Err: &errs}
	if err := run(t.Context(), server, door, nil, streams, output.Human, []string{"vision"}); err != nil || !strings.Contains(out.String(), "ann") || errs.String() != "" {
		t.Errorf("%v, told %q:\n%s", err, errs.String(), out.String())
	}
	err := run(t.Context(), server, door, nil, streams, output.Human, []string{"visoin"})
	if code, _ := exit.Of(err); code != exit.Missing {
		t.Errorf("a queue that is not there: %v", err)
	}
}

// TestSeen: ada sees her own job; of those of others what the rule shows.
func TestSeen(t *testing.T) {
	logins := func(uid uint32) string { return map[uint32]string{1001: "ada", 1002: "eve"}[uid] }
	full := Document{Name: "vision",
		Users: []User{{Name: "unix:1001", Running: 1}, {Name: "unix:1002", Waiting: 1}, {Name: "covert@box"}},
		Jobs:  []Job{{Name: "u-1001/mnist", User: "unix:1001", Runs: true}, {Name: "u-1002/covert", User: "unix:1002"}, {Name: "u-1002/secret", User: "covert@box"}},
	}
	text := func(d Document) string {
		var out strings.Builder
		for _, u := range d.Users {
			out.WriteString(" " + u.Name)
		}
		for _, j := range d.Jobs {
			out.WriteString("; " + j.Name + " of " + j.User)
		}
		return out.String()
	}
	for name, c := range map[string]struct {
		rule   visibility.Rule
		logins visibility.Logins
		want   string
	}{
		"a machine":        {visibility.Rule{Own: "u-1001", ShowUsers: true}, logins, " ada eve others; u-1001/mnist of ada;  of eve;  of eve"},
		"a cluster":        {visibility.Rule{Own: "u-1001"}, nil, " unix:1001; u-1001/mnist of unix:1001"},
		"an administrator": {visibility.Rule{Administrator: true, ShowUsers: true}, logins, " ada eve covert@box; u-1001/mnist of ada; u-1002/covert of eve; u-1002/secret of covert@box"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := text(full.seen(c.rule, c.logins)); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
