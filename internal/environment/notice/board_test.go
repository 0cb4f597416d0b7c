package notice_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
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

// Who waits for what nobody posts is told once, within the time, and nobody is
// told for nothing.
func TestBoardAsksForWhatNobodyTells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		board := notice.New()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); board.RunAsking(ctx, time.Second) }()
		told := func() bool {
			select {
			case <-board.Changes():
				return true
			case <-time.After(time.Minute):
				return false
			}
		}
		if told() {
			t.Error("told although nobody waits")
		}
		board.Untold()
		if begin := time.Now(); !told() || time.Since(begin) > time.Second {
			t.Errorf("told after %s", time.Since(begin))
		}
		if told() {
			t.Error("told twice")
		}
		cancel()
		<-ended
	})
}
