//go:build linux

package environment

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
)

// TestSlots: of many builds of a loud namespace and one of a quiet one, the quiet one is the second.
func TestSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(1)
		var waited int
		first, err := s.take(t.Context(), "loud", func() { t.Error("the first waits") })
		must(t, err)
		order := make(chan string, 20)
		frees := make(chan func(), 20)
		begin := func(namespace string) {
			go func() {
				free, err := s.take(t.Context(), namespace, func() { waited++ })
				if err != nil {
					t.Error(err)
					return
				}
				order <- namespace
				frees <- free
			}()
			synctest.Wait()
		}
		for range 10 {
			begin("loud")
		}
		begin("quiet")
		given, stop := context.WithCancel(t.Context())
		stop()
		if _, err := s.take(given, "other", func() {}); err == nil {
			t.Error("a request that was given up has a slot")
		}
		first()
		var got []string
		for range 11 {
			got = append(got, <-order)
			(<-frees)()
			synctest.Wait()
		}
		if got[0] != "quiet" && got[1] != "quiet" {
			t.Errorf("the quiet namespace waits for the builds of the loud one: %v", got)
		}
		if waited != 11 || len(s.own) != 0 {
			t.Errorf("%d waited, and %d namespaces are remembered", waited, len(s.own))
		}
	})
}

// TestTwoBuilds: one namespace has one of two slots.
func TestTwoBuilds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(2)
		free, err := s.take(t.Context(), "loud", func() { t.Error("waits") })
		must(t, err)
		second := make(chan func(), 1)
		go func() {
			free, err := s.take(t.Context(), "loud", func() {})
			if err != nil {
				t.Error(err)
			}
			second <- free
		}()
		synctest.Wait()
		quiet, err := s.take(t.Context(), "quiet", func() { t.Error("the quiet namespace waits for the second slot") })
		must(t, err)
		if len(second) > 0 {
			t.Error("a namespace has two builds at once")
		}
		free()
		(<-second)()
		quiet()
	})
}

// TestManyRequestsOfOneNamespace: while all builds of a loud namespace wait, a request of another is
// answered.
func TestManyRequestsOfOneNamespace(t *testing.T) {
	r := start(t, Options{})
	free, err := r.slots.take(t.Context(), "loud", func() {})
	must(t, err)
	defer free()
	for i := range 3 * lookers {
		r.Ensure(Request{Namespace: "loud", Requirements: fmt.Sprintf("six==1.%d", i)})
	}
	quiet := filepath.Join(t.TempDir(), "quiet")
	must(t, os.Mkdir(quiet, 0o755))
	if s, _ := r.settled(t, Request{Namespace: "quiet", Path: quiet}); s.Phase != Failed {
		t.Errorf("%+v", s)
	}
}

// TestRefusedBuilds: nothing is built for a namespace that may not have more, and it is told why.
func TestRefusedBuilds(t *testing.T) {
	r := start(t, Options{Refuse: func(namespace string) string {
		return map[string]string{"full": "the files of ann have too much"}[namespace]
	}})
	if s, _ := r.settled(t, Request{Namespace: "full", Requirements: "six==1.16.0"}); s.Phase != Failed || s.Message != "the files of ann have too much" {
		t.Errorf("%+v", s)
	}
	if list, err := os.ReadDir(r.opts.Dir); err != nil || len(list) > 0 {
		t.Errorf("there are %v, %v", list, err)
	}
}
