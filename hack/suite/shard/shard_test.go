package shard

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSplit(t *testing.T) {
	for name, test := range map[string]struct {
		tests   []string
		seconds map[string]float64
		n       int
		want    [][]string
	}{
		"longest first":          {[]string{"A", "B", "C", "D"}, map[string]float64{"A": 1, "B": 10, "C": 4, "D": 6}, 2, [][]string{{"A", "B"}, {"C", "D"}}},
		"the order of tests":     {[]string{"C", "B", "A"}, map[string]float64{"A": 3, "B": 1, "C": 2}, 1, [][]string{{"C", "B", "A"}}},
		"nothing is known":       {[]string{"A", "B", "C", "D"}, nil, 2, [][]string{{"A", "C"}, {"B", "D"}}},
		"unknown is the mean":    {[]string{"A", "B", "New"}, map[string]float64{"A": 10, "B": 2}, 2, [][]string{{"A"}, {"B", "New"}}},
		"more shards than tests": {[]string{"A", "B"}, nil, 5, [][]string{{"A"}, {"B"}}},
		"all take no time":       {[]string{"A", "B"}, map[string]float64{"A": 0, "B": 0}, 2, [][]string{{"A"}, {"B"}}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, Split(test.tests, test.seconds, test.n)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestSplitLosesNothing: each test is in one shard, and none of the shards costs more than the
// fair part and one test.
func TestSplitLosesNothing(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var tests []string
		seconds := map[string]float64{}
		total, longest := 0.0, 0.0
		for i := range 1 + random.IntN(60) {
			name := fmt.Sprintf("Test%d", i)
			tests = append(tests, name)
			seconds[name] = random.ExpFloat64()
			total += seconds[name]
			longest = max(longest, seconds[name])
		}
		n := 1 + random.IntN(4)
		shards := Split(tests, seconds, n)
		var all []string
		for _, shard := range shards {
			sum := 0.0
			for _, test := range shard {
				sum += seconds[test]
			}
			if sum > total/float64(len(shards))+longest {
				t.Fatalf("a shard of %v of %v seconds in %d shards", sum, total, n)
			}
			all = append(all, shard...)
		}
		slices.Sort(all)
		slices.Sort(tests)
		if diff := cmp.Diff(tests, all); diff != "" {
			t.Fatal(diff)
		}
	}
}

func TestPattern(t *testing.T) {
	pattern := regexp.MustCompile(Pattern([]string{"TestA", "TestB"}))
	for name, want := range map[string]bool{"TestA": true, "TestB": true, "TestAB": false, "XTestA": false} {
		if got := pattern.MatchString(name); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}
