package door

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/muster-dev/muster/internal/data/backend"
)

// A namespace has so many leases and no more: one that is there is renewed all the same,
// one that is gone makes room, whoever removed it, and others have their own.
func TestLeasesAreBounded(t *testing.T) {
	now := time.Unix(0, 0)
	l, ada, bob := newLeases(3, func() time.Time { return now }), &backend.Memory{}, &backend.Memory{}
	key := func(i int) string { return fmt.Sprint("leases/", i) }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(ada.Put(t.Context(), key(0), []byte("of before"))) // a manager before took it
	must(l.put(t.Context(), ada, "ada", key(1), nil))
	must(l.put(t.Context(), ada, "ada", key(2), nil))
	full := func(i int) {
		t.Helper()
		err := l.put(t.Context(), ada, "ada", key(i), nil)
		var refused *Refusal
		if !errors.As(err, &refused) || refused.Status != http.StatusTooManyRequests || !strings.Contains(refused.Text, "namespace ada has 3 leases") {
			t.Errorf("one too many: %v", err)
		}
		if _, err := ada.Stat(t.Context(), key(i)); err == nil {
			t.Error("what was refused is there")
		}
	}
	full(3)
	must(l.put(t.Context(), ada, "ada", key(0), []byte("renewed")))
	must(l.put(t.Context(), bob, "bob", key(3), nil))
	must(l.remove(t.Context(), ada, "ada", key(1)))
	must(l.put(t.Context(), ada, "ada", key(3), nil))
	must(ada.Delete(t.Context(), key(2))) // the collector does
	full(4)                               // it is not looked all the time
	now = now.Add(lookAgain)
	must(l.put(t.Context(), ada, "ada", key(4), nil))
}
