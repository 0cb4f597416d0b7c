package main

import (
	"strings"
	"testing"
)

func TestTicks(t *testing.T) {
	t.Parallel()
	before, err := parseTicks("cpu  10 0 10 70 2 1 3 4 9 9\ncpu0 5 0 5 35 1 0 2 2 0 0\n")
	if err != nil {
		t.Fatal(err)
	}
	if before != (ticks{all: 100, stolen: 4}) {
		t.Errorf("%+v, want 100 in all, without guests', and 4 stolen", before)
	}
	after := ticks{all: 300, stolen: 14}
	if got := after.since(before); got != 0.05 {
		t.Errorf("%v of the time was stolen, want 0.05", got)
	}
	if got := before.since(before); got != 0 {
		t.Errorf("in no time %v was stolen", got)
	}
	for _, bad := range []string{"", "cpu0 1 2 3 4 5 6 7 8", "cpu 1 2 3 4", "cpu 1 2 3 4 5 6 7 x"} {
		if _, err := parseTicks(bad); err == nil || !strings.Contains(err.Error(), "/proc/stat begins with") {
			t.Errorf("%q: error %v, want one that says what the file begins with", bad, err)
		}
	}
	now, err := processors()
	if err != nil || now.all <= 0 || now.stolen > now.all {
		t.Errorf("this machine: %+v, %v", now, err)
	}
}
