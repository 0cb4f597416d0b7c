package event

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Event is one line of `go test -json`. `go doc test2json` describes the fields.
type Event struct {
	Action  string
	Package string
	Test    string
	// Elapsed is in seconds.
	Elapsed float64
	Output  string
}

// Test is a test of a package by its name, subtests included: "TestX/case".
type Test struct {
	Package, Name string
}

// Top reports whether the test is a function of its own, not a subtest.
func (t Test) Top() bool { return !strings.Contains(t.Name, "/") }

// Duration is how long a test took.
type Duration struct {
	Test
	Seconds float64
}

// Skip is a test that did not run, with the reason it gave.
type Skip struct {
	Test
	Reason string
}

// Summary is the sum of the events of a run.
type Summary struct {
	// Passed and Failed count tests, subtests included.
	Passed, Failed int
	// Skips are the tests that were skipped, in the order of their end.
	Skips []Skip
	// Durations are those of all tests that passed or failed, longest first.
	Durations []Duration
}

// Tests is the number of tests that ran or were skipped.
func (s Summary) Tests() int { return s.Passed + s.Failed + len(s.Skips) }

// Read adds up events until the end of r. A line that is no event, such as the
// message of a crashed process, is left out.
func Read(r io.Reader) (Summary, error) {
	var s Summary
	output := map[Test][]string{}
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		s.add(line, output)
		if err == io.EOF {
			break
		}
		if err != nil {
			return s, fmt.Errorf("reading test events: %w", err)
		}
	}
	slices.SortStableFunc(s.Durations, func(a, b Duration) int { return cmp.Compare(b.Seconds, a.Seconds) })
	return s, nil
}

func (s *Summary) add(line []byte, output map[Test][]string) {
	var e Event
	if json.Unmarshal(line, &e) != nil || e.Test == "" {
		return
	}
	test := Test{e.Package, e.Test}
	switch e.Action {
	case "output":
		output[test] = append(output[test], e.Output)
		return
	case "pass":
		s.Passed++
	case "fail":
		s.Failed++
	case "skip":
		s.Skips = append(s.Skips, Skip{test, reason(output[test])})
	default:
		return
	}
	delete(output, test)
	if e.Action != "skip" {
		s.Durations = append(s.Durations, Duration{test, e.Elapsed})
	}
}

// reason is the output of a skipped test without the lines of the test framework.
func reason(output []string) string {
	var words []string
	for _, line := range output {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "===") && !strings.HasPrefix(line, "---") {
			words = append(words, line)
		}
	}
	if len(words) == 0 {
		return "no reason given"
	}
	return strings.Join(words, " ")
}
