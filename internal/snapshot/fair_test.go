package snapshot

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// A decision does not wait for the reasons of a flood, and decisions of one namespace do not
// wait for all of another.
func TestWritesAreFair(t *testing.T) {
	api := testAPI(t, interceptor.Funcs{})
	synctest.Test(t, func(t *testing.T) {
		loop, err := NewLoop(Options{Cache: &testCache{}, Client: api, Live: api, Concurrency: 1})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		note := func(what string, i int) func() { return func() { got = append(got, fmt.Sprint(what, i)) } }
		free := make(chan struct{})
		loop.background(t.Context(), "eve", func() { <-free })
		synctest.Wait()
		for i := range 3 {
			loop.report(t.Context(), "eve", note("reason", i))
			synctest.Wait()
		}
		for i := range 3 {
			loop.background(t.Context(), "eve", note("eve", i))
			synctest.Wait()
		}
		loop.background(t.Context(), "ada", note("ada", 0))
		synctest.Wait()
		close(free)
		loop.wg.Wait()
		if want := []string{"eve0", "ada0", "eve1", "eve2", "reason0", "reason1", "reason2"}; !slices.Equal(got, want) {
			t.Errorf("written in the order %v, want %v", got, want)
		}
	})
}
