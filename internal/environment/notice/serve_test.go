package notice

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
)

// TestLine: each namespace has workers of its own, and a worker that finds nothing counts no more.
func TestLine(t *testing.T) {
	l := line{wide: 2, parts: map[string]*part{}}
	var more []bool
	for i := range 4 {
		more = append(more, l.join("loud", fmt.Sprint(i)))
	}
	more = append(more, l.join("quiet", "q"))
	if diff := cmp.Diff([]bool{true, true, false, false, true}, more); diff != "" {
		t.Errorf("workers: %s", diff)
	}
	var ids []string
	for range 4 {
		id, _ := l.next("loud")
		ids = append(ids, id)
	}
	if diff := cmp.Diff([]string{"0", "1", "2", "3"}, ids); diff != "" {
		t.Errorf("order: %s", diff)
	}
	for range 2 {
		if id, ok := l.next("loud"); ok {
			t.Errorf("there is %q", id)
		}
	}
	if !l.join("loud", "again") {
		t.Error("workers that ended still count")
	}
	if id, ok := l.next("quiet"); !ok || id != "q" {
		t.Errorf("quiet: %q %v", id, ok)
	}
}

// TestServe: while the calls for a loud namespace hang, one for another is made, and the end waits for all.
func TestServe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New()
		ctx, cancel := context.WithCancel(t.Context())
		hang := make(chan struct{})
		var mu sync.Mutex
		var seen []string
		for i := range 10 {
			b.Post(fmt.Sprint("loud/", i))
		}
		b.Post("quiet/0")
		done := make(chan struct{})
		go b.Run(ctx)
		go func() {
			defer close(done)
			b.Serve(ctx, 2, func(key string) string { return key[:strings.IndexByte(key, '/')] }, func(key string) {
				mu.Lock()
				seen = append(seen, key)
				mu.Unlock()
				if strings.HasPrefix(key, "loud/") {
					<-hang
				}
			})
		}()
		synctest.Wait()
		if len(seen) != 3 || !strings.Contains(strings.Join(seen, " "), "quiet/0") {
			t.Errorf("seen %v", seen)
		}
		cancel()
		synctest.Wait()
		select {
		case <-done:
			t.Error("it ends before its calls")
		default:
		}
		close(hang)
		<-done
		if len(seen) != 3 {
			t.Errorf("after its end: %v", seen)
		}
	})
}
