package fairqueue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

func TestSlotsAreFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewSlots(1)
		if err := s.Take(t.Context(), "eve", 0); err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		var got []string
		enter := func(namespace string, priority, n int) {
			go func() {
				if err := s.Take(t.Context(), namespace, priority); err != nil {
					t.Error(err)
				}
				mu.Lock()
				got = append(got, fmt.Sprint(namespace, n))
				mu.Unlock()
				s.Give()
			}()
			synctest.Wait()
		}
		for i := range 3 {
			enter("eve", 0, i)
		}
		enter("ada", 0, 0)
		enter("bob", 1, 0)
		s.Give()
		synctest.Wait()
		if want := []string{"bob0", "eve0", "ada0", "eve1", "eve2"}; !slices.Equal(got, want) {
			t.Errorf("served %v, want %v", got, want)
		}
		if s.free != 1 || s.lines.len() != 0 {
			t.Errorf("%d slots are free and %d callers wait, want 1 and 0", s.free, s.lines.len())
		}
	})
}

// A caller does not keep a slot if its context ends, not even if the slot comes at that moment.
func TestSlotsOfCallersThatLeave(t *testing.T) {
	s := NewSlots(2)
	var inside, most atomic.Int64
	var all sync.WaitGroup
	for i := range 64 {
		all.Go(func() {
			for k := range 50 {
				ctx, cancel := context.WithCancel(t.Context())
				var leaving sync.WaitGroup
				if (i+k)%2 == 0 {
					leaving.Go(cancel)
				}
				err := s.Take(ctx, fmt.Sprint(i%5), i%3)
				if err == nil {
					if n := inside.Add(1); n > most.Load() {
						most.Store(n)
					}
					inside.Add(-1)
					s.Give()
				} else if !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				leaving.Wait()
				cancel()
			}
		})
	}
	all.Wait()
	if most.Load() > 2 || s.free != 2 || s.lines.len() != 0 {
		t.Errorf("%d were inside at once, %d slots are free and %d callers wait; want at most 2, 2 and 0", most.Load(), s.free, s.lines.len())
	}
}
