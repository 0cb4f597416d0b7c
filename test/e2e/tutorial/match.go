package tutorial

import (
	"fmt"
	"regexp"
	"strings"
)

// anything stands for any text: within a line, or for lines where it is a line by itself.
const anything = "..."

// Compare returns an error that names the first expected line that the output does
// not have in its place.
func Compare(expected []string, output string) error {
	got := []string{}
	for line := range strings.Lines(output) {
		got = append(got, words(line))
	}
	want := make([]string, len(expected))
	for i := range expected {
		want[i] = words(expected[i])
	}
	if reached := furthest(want, got); reached < len(want) {
		return fmt.Errorf("expected line %q is not there; the output is\n%s", expected[reached], output)
	}
	if !matches(want, got) {
		return fmt.Errorf("there is more output than expected; the output is\n%s", output)
	}
	return nil
}

// words is a line with one space between its words.
func words(line string) string { return strings.Join(strings.Fields(line), " ") }

// matches reports whether the lines are as expected, all of them.
func matches(want, got []string) bool {
	switch {
	case len(want) == 0:
		return len(got) == 0
	case want[0] == anything:
		for skipped := range len(got) + 1 {
			if matches(want[1:], got[skipped:]) {
				return true
			}
		}
		return false
	}
	return len(got) > 0 && matchesLine(want[0], got[0]) && matches(want[1:], got[1:])
}

// furthest returns how many of the expected lines the output begins with, whatever
// follows them.
func furthest(want, got []string) int {
	for n := len(want); n > 0; n-- {
		if matches(append(append([]string{}, want[:n]...), anything), got) {
			return n
		}
	}
	return 0
}

func matchesLine(want, got string) bool {
	pattern := strings.ReplaceAll(regexp.QuoteMeta(want), regexp.QuoteMeta(anything), ".*")
	return regexp.MustCompile("^" + pattern + "$").MatchString(got)
}
