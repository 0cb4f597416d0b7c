package progress

import (
	"slices"
	"testing"
)

// Of the pods that save in one folder one looks at it; of those that end, the
// last.
func TestWhoLooksAtAFolder(t *testing.T) {
	s := NewSavers()
	for _, pod := range []string{"b", "a", "c"} {
		s.Add(pod, "/saves")
	}
	s.Add("0", "/other")
	want := func(looks ...string) {
		t.Helper()
		for _, pod := range []string{"a", "b", "c"} {
			if got := !s.LeftToOthers(pod, "/saves"); got != slices.Contains(looks, pod) {
				t.Errorf("%s looks: %v", pod, got)
			}
		}
	}
	want("a")
	s.Remove("a")
	want("b")
	s.Remove("c")
	want("b")
	s.Remove("b")
	want("a", "b", "c") // whoever is asked last
	if s.LeftToOthers("0", "/other") {
		t.Error("one who is alone does not look")
	}
}
