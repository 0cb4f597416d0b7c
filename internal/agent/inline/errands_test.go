package inline

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
)

// An errand is done once for all who want it, goes on when one of them gives up, and
// its end is the others' answer.
func TestAnErrandForSeveral(t *testing.T) {
	e := NewErrands()
	defer e.Stop()
	var times atomic.Int64
	begun, end, answer := make(chan struct{}), make(chan struct{}), errors.New("it is as it is")
	errand := func(context.Context) error {
		if times.Add(1) == 1 {
			close(begun)
		}
		<-end
		return answer
	}
	impatient, cancel := context.WithCancel(t.Context())
	first, second := make(chan error, 1), make(chan error, 1)
	go func() { first <- e.Do(impatient, "a", errand) }()
	<-begun
	go func() { second <- e.Do(t.Context(), "a", errand) }()
	cancel()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Errorf("who gave up hears %v", err)
	}
	if err := e.Do(t.Context(), "b", func(context.Context) error { return nil }); err != nil {
		t.Errorf("another errand waits: %v", err)
	}
	if times.Load() != 1 {
		t.Errorf("it was done %d times", times.Load())
	}
	close(end)
	if err := <-second; !errors.Is(err, answer) {
		t.Errorf("who waited hears %v", err)
	}
}

// What is under way ends with the driver, which waits for it; afterwards nothing
// begins.
func TestErrandsEnd(t *testing.T) {
	e := NewErrands()
	begun, ended := make(chan struct{}), atomic.Bool{}
	done := make(chan error, 1)
	go func() {
		done <- e.Do(t.Context(), "a", func(ctx context.Context) error {
			close(begun)
			<-ctx.Done()
			ended.Store(true)
			return ctx.Err()
		})
	}()
	<-begun
	e.Stop()
	if !ended.Load() {
		t.Error("it is not waited for")
	}
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("who asked hears %v", err)
	}
	if err := e.Do(t.Context(), "a", func(context.Context) error { return nil }); !errors.Is(err, ErrEnded) {
		t.Errorf("who asks then hears %v", err)
	}
}
