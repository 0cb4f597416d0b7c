package collector

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

// TestTend has the collector come again and again, and then no more.
func TestTend(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	set, freed, ended := make(chan int), make(chan struct{}, 8), make(chan struct{})
	go func() {
		defer close(ended)
		tend(ctx, func(percent int) { set <- percent }, func() { freed <- struct{}{} })
	}()
	if got := <-set; got != atWork {
		t.Fatalf("%d percent after the start, want %d", got, atWork)
	}
	<-freed
	stop := make(chan struct{})
	go func() {
		for {
			select {
			case <-stop:
				return
			default:
				runtime.GC()
			}
		}
	}()
	if got := <-set; got != atRush {
		t.Fatalf("%d percent in a rush, want %d", got, atRush)
	}
	close(stop)
	if got := <-set; got != atWork {
		t.Fatalf("%d percent after the rush, want %d", got, atWork)
	}
	<-freed
	end()
	<-ended
}

// TestTendEndsEarly ends before the caches are filled.
func TestTendEndsEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		end()
		begin := time.Now()
		Tend(ctx, time.Hour)
		if took := time.Since(begin); took != 0 {
			t.Errorf("it waited %s", took)
		}
	})
}
