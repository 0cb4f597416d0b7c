package shard

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
)

// Split splits tests into at most n shards by the seconds that each took before: the longest
// test first, each to the shard with the least so far. A test without a known time counts as
// the mean of the others, or one second. Within a shard the order is that of tests. No shard
// is empty; the same input gives the same shards.
func Split(tests []string, seconds map[string]float64, n int) [][]string {
	n = max(1, min(n, len(tests)))
	position := map[string]int{}
	for i, test := range tests {
		position[test] = i
	}
	cost := func(test string) float64 {
		if s, known := seconds[test]; known {
			return s
		}
		return mean(tests, seconds)
	}
	byCost := slices.Clone(tests)
	slices.SortStableFunc(byCost, func(a, b string) int { return cmp.Compare(cost(b), cost(a)) })

	shards, sums := make([][]string, n), make([]float64, n)
	for _, test := range byCost {
		least := 0
		for i := range sums {
			if sums[i] < sums[least] || sums[i] == sums[least] && len(shards[i]) < len(shards[least]) {
				least = i
			}
		}
		shards[least] = append(shards[least], test)
		sums[least] += cost(test)
	}
	for _, shard := range shards {
		slices.SortFunc(shard, func(a, b string) int { return cmp.Compare(position[a], position[b]) })
	}
	return shards
}

func mean(tests []string, seconds map[string]float64) float64 {
	sum, known := 0.0, 0
	for _, test := range tests {
		if s, ok := seconds[test]; ok {
			sum += s
			known++
		}
	}
	if known == 0 {
		return 1
	}
	return sum / float64(known)
}

// Pattern is the -test.run pattern that matches these tests and no others.
func Pattern(tests []string) string {
	quoted := make([]string, len(tests))
	for i, test := range tests {
		quoted[i] = regexp.QuoteMeta(test)
	}
	return "^(" + strings.Join(quoted, "|") + ")$"
}
