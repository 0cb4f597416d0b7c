package notice_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/muster-dev/muster/internal/environment/notice"
)

func TestBoardLosesNothingAndNeverBlocks(t *testing.T) {
	board := notice.New()
	const keys = 100
	for range 50 {
		for i := range keys {
			board.Post(fmt.Sprint(i))
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { board.Run(ctx) })
	for i := range keys {
		select {
		case got := <-board.Changes():
			if got != fmt.Sprint(i) {
				t.Fatalf("key %d: got %s", i, got)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("no key %d", i)
		}
	}
	board.Post("again")
	if got := <-board.Changes(); got != "again" {
		t.Fatalf("got %s", got)
	}
	cancel()
	wg.Wait()
}
