package event

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRead(t *testing.T) {
	const lines = `{"Action":"start","Package":"p"}
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN   TestA\n"}
{"Action":"pass","Package":"p","Test":"TestA/one","Elapsed":0.5}
{"Action":"pass","Package":"p","Test":"TestA","Elapsed":1.5}
panic: not an event
{"Action":"output","Package":"p","Test":"TestB","Output":"    b_test.go:3: no /dev/fuse\n"}
{"Action":"output","Package":"p","Test":"TestB","Output":"--- SKIP: TestB (0.00s)\n"}
{"Action":"skip","Package":"p","Test":"TestB","Elapsed":0}
{"Action":"skip","Package":"p","Test":"TestSilent","Elapsed":0}
{"Action":"fail","Package":"q","Test":"TestC","Elapsed":7}
{"Action":"fail","Package":"q","Elapsed":7}`
	got, err := Read(strings.NewReader(lines))
	if err != nil {
		t.Fatal(err)
	}
	want := Summary{
		Passed: 2, Failed: 1,
		Skips:     []Skip{{Test{"p", "TestB"}, "b_test.go:3: no /dev/fuse"}, {Test{"p", "TestSilent"}, "no reason given"}},
		Durations: []Duration{{Test{"q", "TestC"}, 7}, {Test{"p", "TestA"}, 1.5}, {Test{"p", "TestA/one"}, 0.5}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got.Tests() != 5 {
		t.Errorf("Tests() = %d, want 5", got.Tests())
	}
	if got.Durations[2].Top() || !got.Durations[1].Top() {
		t.Error("TestA/one is a subtest, TestA is none")
	}
}
