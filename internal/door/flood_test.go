package door

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/muster-dev/muster/internal/door/visitor"
)

const (
	// floodConnections is how many connections one user has at once.
	floodConnections = 64
	// longestPut bounds the median time of a small pack of another user.
	longestPut = 10 * time.Second
)

// TestAFloodOfPacks lets a user send small packs as fast as possible, as many commits do. Packs
// of another user go on.
func TestAFloodOfPacks(t *testing.T) {
	h := open(t, true)
	ada := h.as("ada").Data("ada")
	put := func(name string) time.Duration {
		var took []time.Duration
		for i := range 15 {
			began := time.Now()
			h.must(ada.Put(t.Context(), packKey(fmt.Sprint(name, i)), []byte(fmt.Sprint(name, i))))
			took = append(took, time.Since(began))
		}
		slices.Sort(took)
		return took[len(took)/2]
	}
	before := put("before")
	var flooding sync.WaitGroup
	var stop atomic.Bool
	var stored, refused atomic.Int64
	eve := h.as("bob")
	started := make(chan struct{}, floodConnections)
	for k := range floodConnections {
		flooding.Go(func() {
			data := eve.Data("bob")
			for i := 0; !stop.Load(); i++ {
				err := data.Put(t.Context(), packKey(fmt.Sprint(k, " ", i)), []byte(fmt.Sprint(k, " ", i)))
				var no *visitor.Refused
				switch {
				case err == nil:
					stored.Add(1)
				case errors.As(err, &no) && no.Status == http.StatusTooManyRequests:
					refused.Add(1)
				default:
					t.Errorf("storing a pack: %v", err)
					return
				}
				select {
				case started <- struct{}{}:
				default:
				}
			}
		})
	}
	<-started
	began := time.Now()
	during := put("during")
	stop.Store(true)
	took := time.Since(began)
	flooding.Wait()
	t.Logf("a pack of another user takes %s, and %s while one user stores %.0f packs a second from %d connections (%d refused)",
		before, during, float64(stored.Load())/took.Seconds(), floodConnections, refused.Load())
	if during > longestPut {
		t.Errorf("a pack of another user takes %s during the flood, want at most %s", during, longestPut)
	}
}
