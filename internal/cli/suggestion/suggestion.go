// Package suggestion owns "did you mean": which of some words is nearest to
// the one that was typed.
//
// It must not know what the words stand for.
package suggestion

import "strings"

// Nearest returns the candidate that word was most likely meant to be, or ""
// where none is near: more than a third of its letters, and more than two or
// all of them, would have to change. Case and order of candidates do not matter; of two
// that are equally near, the one that sorts first wins.
func Nearest(word string, candidates []string) string {
	letters := len([]rune(word))
	best, distance := "", min(max(2, letters/3)+1, max(letters, 1))
	for _, candidate := range candidates {
		d := edits([]rune(strings.ToLower(word)), []rune(strings.ToLower(candidate)))
		if d < distance || d == distance && best != "" && candidate < best {
			best, distance = candidate, d
		}
	}
	return best
}

// Phrase returns "; did you mean X?" for the nearest candidate, or "".
func Phrase(word string, candidates []string) string {
	if near := Nearest(word, candidates); near != "" {
		return "; did you mean " + near + "?"
	}
	return ""
}

// edits counts the insertions, deletions, replacements and swaps of
// neighbours that lead from a to b.
func edits(a, b []rune) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
