package snapshot

import (
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/scheduling"
	"github.com/muster-dev/muster/internal/visibility"
)

func testLogins(uid uint32) string {
	return map[uint32]string{1001: "ann", 1002: "eve", 1003: "uid 1003", 1004: `DOMAIN\jo/e do`}[uid]
}

// TestNamesInStatuses: ann reads in the status of her job that eve holds the GPUs, and not with
// which job. On a cluster she reads that others do.
func TestNamesInStatuses(t *testing.T) {
	for name, c := range map[string]struct {
		names Names
		want  string
	}{
		"a machine of several users": {NamesForOwners(visibility.Rule{ShowUsers: true}, testLogins), "needs 3 GPUs at once; 2 are free here, 2 are held by eve since "},
		"a cluster":                  {NamesForOwners(visibility.Rule{}, nil), "needs 3 GPUs at once; 2 are free here, 2 are held by others since "},
		"a Muster of one user":       {nil, "needs 3 GPUs at once; 2 are free here, 2 are held by u-1002/covert since "},
	} {
		t.Run(name, func(t *testing.T) {
			covert := testGang("covert", 2, "1")
			covert.Namespace = "u-1002"
			api := testAPI(t, interceptor.Funcs{}, testNode(4), covert)
			run(t, api, func(o *Options) { o.Names = c.names })
			eventually(t, "a placement", func() bool {
				return api.Get(t.Context(), client.ObjectKey{Namespace: "u-1002", Name: "covert-1"}, &v1alpha1.Placement{}) == nil
			})
			waits := testGang("waits", 3, "1")
			waits.Namespace = "u-1001"
			if err := api.Create(t.Context(), waits); err != nil {
				t.Fatal(err)
			}
			eventually(t, "a reason", func() bool {
				_ = api.Get(t.Context(), client.ObjectKeyFromObject(waits), waits)
				return waits.Status.Message != ""
			})
			if !strings.HasPrefix(waits.Status.Message, c.want) {
				t.Errorf("message %q, want %q", waits.Status.Message, c.want)
			}
		})
	}
}

// TestNamesInOrders: an order to make room stays two words, namespace/name, whatever a login is.
func TestNamesInOrders(t *testing.T) {
	l := &Loop{options: Options{Names: NamesForOwners(visibility.Rule{ShowUsers: true}, testLogins)}}
	for key, want := range map[scheduling.Key]string{
		{Namespace: "u-1001", Name: "mine"}:   "u-1001/mine",
		{Namespace: "u-1002", Name: "covert"}: "eve/job",
		{Namespace: "u-1003", Name: "covert"}: "uid-1003/job",
		{Namespace: "u-1004", Name: "covert"}: `DOMAIN\jo-e-do/job`,
		{Namespace: "vision", Name: "covert"}: "others/job",
	} {
		if got := l.forWhom("u-1001", key); got != want || len(strings.Fields(got)) != 1 || strings.Count(got, "/") != 1 {
			t.Errorf("%v: %q, want %q", key, got, want)
		}
	}
	if got := (&Loop{}).forWhom("u-1001", scheduling.Key{Namespace: "u-1002", Name: "covert"}); got != "u-1002/covert" {
		t.Errorf("of one user: %q", got)
	}
}
