package describe

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/output"
	"github.com/muster-dev/muster/internal/cli/queue/sample"
	"github.com/muster-dev/muster/internal/visibility"
)

// atMachine answers as a machine with the queues of two users below vision.
func atMachine(t *testing.T) (client.WithWatch, Asker) {
	t.Helper()
	world := sample.World(t, sample.Box(), sample.Queue("vision", "", "4", nil), sample.Queue("u-1001", "vision", "2", nil), sample.Queue("u-1009", "vision", "", nil))
	logins := func(uid uint32) string { return map[uint32]string{1001: "ann", 1009: "uid 1009"}[uid] }
	return world, func(ctx context.Context) ([]Document, error) {
		return Seen(ctx, world, visibility.Rule{Own: "u-1001", ShowUsers: true}, logins)
	}
}

// TestQueuesOfUsers: the administrator, and a user who may not list nodes, read logins. Documents
// have the names of queues, too.
func TestQueuesOfUsers(t *testing.T) {
	world, ask := atMachine(t)
	user := interceptor.NewClient(world, interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "", nil)
	}})
	for name, server := range map[string]client.Client{"administrator": world, "user": user} {
		t.Run(name, func(t *testing.T) {
			logins := LoginsOn(t.Context(), true, ask)
			for word, want := range map[string][]string{"vision": {"ann, uid 1009"}, "ann": {"ann (queue u-1001)", "vision"}, "u-1009": {"uid 1009 (queue u-1009)"}} {
				streams, out, _ := sample.Streams()
				if err := run(t.Context(), server, ask, logins, streams, output.Human, []string{word}); err != nil {
					t.Fatal(err)
				}
				for _, text := range want {
					if !strings.Contains(out.String(), text) {
						t.Errorf("%s lacks %q:\n%s", word, text, out)
					}
				}
			}
			streams, out, _ := sample.Streams()
			var got Document
			if err := run(t.Context(), server, ask, logins, streams, output.JSON, []string{"ann"}); err != nil || json.Unmarshal(out.Bytes(), &got) != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if got.Name != "u-1001" || got.Login != "ann" || got.Parent != "vision" {
				t.Errorf("%+v", got)
			}
			err := run(t.Context(), server, ask, logins, streams, output.Human, []string{"anm"})
			if code, _ := exit.Of(err); code != exit.Missing {
				t.Errorf("a queue that is not there: %v", err)
			}
		})
	}
}

func TestLogins(t *testing.T) {
	logins := LoginsOf([]Document{{Name: "u-1", Login: "ann"}, {Name: "u-2", Login: "twin"}, {Name: "u-3", Login: "twin"}, {Name: "vision"}, {Name: "u-4", Login: "vision"}, {Name: "u-5", Login: "u-1"}})
	// A word with two meanings is the name of a queue: a login is for display alone.
	for word, want := range map[string]string{"ann": "u-1", "u-1": "u-1", "twin": "twin", "bob": "bob"} {
		if got := logins.queue(word); got != want {
			t.Errorf("%s: %q, want %q", word, got, want)
		}
	}
	if got := logins.queue("vision"); got != "vision" {
		t.Errorf("the queue vision is the user's: %q", got)
	}
	if got := Logins(nil).Show("u-1"); got != "u-1" {
		t.Errorf("without logins: %q", got)
	}
	if got := LoginsOn(t.Context(), true, func(context.Context) ([]Document, error) { return nil, errors.New("away") }); got != nil {
		t.Errorf("without an answer: %v", got)
	}
	if got := LoginsOn(t.Context(), false, nil); got != nil {
		t.Errorf("of one user: %v", got)
	}
	if diff := cmp.Diff([]string{"vision", "ann"}, logins.each([]string{"vision", "u-1"})); diff != "" {
		t.Error(diff)
	}
}
