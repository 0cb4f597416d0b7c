package environment

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// markerTokens splits a marker (PEP 508), the condition behind ";".
var markerTokens = regexp.MustCompile(`^ *(\(|\)|===|~=|==|!=|<=|>=|<|>|[a-z_.]+|"[^"]*"|'[^']*')`)

// quoted is a text that may stand in quotes. pip takes " -" and " #" for the beginning
// of an option and of a comment there, too.
var quoted = regexp.MustCompile(`^([A-Za-z0-9._+*!,-]+( [A-Za-z0-9][A-Za-z0-9._+*!,-]*)*)?$`)

var (
	markerNames = []string{
		"python_version", "python_full_version", "os_name", "sys_platform", "platform_release", "platform_system", "platform_version",
		"platform_machine", "platform_python_implementation", "implementation_name", "implementation_version", "extra",
	}
	markerOperators = []string{"===", "~=", "==", "!=", "<=", ">=", "<", ">", "in"}
)

// maxDepth bounds the brackets in a marker.
const maxDepth = 20

// markerReader reads the tokens of a marker, and keeps the read ones.
type markerReader struct {
	tokens, read []string
}

// writeMarker checks a marker, and writes it with one space between its tokens.
func writeMarker(text string) (string, error) {
	m := &markerReader{}
	for rest := strings.TrimSpace(text); rest != ""; {
		found := markerTokens.FindStringSubmatch(rest)
		if found == nil {
			return "", fmt.Errorf("the condition behind \";\" is not understood at %q", Mask(rest))
		}
		m.tokens = append(m.tokens, found[1])
		rest = strings.TrimLeft(rest[len(found[0]):], " ")
	}
	if !m.expression(0) || len(m.tokens) > 0 {
		return "", fmt.Errorf("the condition behind \";\" is not understood; give one such as python_version < \"3.12\"")
	}
	return strings.Join(m.read, " "), nil
}

// accept takes the next token if it is one of these.
func (m *markerReader) accept(tokens ...string) bool {
	if len(m.tokens) == 0 || !slices.Contains(tokens, m.tokens[0]) {
		return false
	}
	m.read, m.tokens = append(m.read, m.tokens[0]), m.tokens[1:]
	return true
}

// expression reads comparisons with "and" and "or" between them.
func (m *markerReader) expression(depth int) bool {
	if depth > maxDepth {
		return false
	}
	for {
		if m.accept("(") {
			if !m.expression(depth+1) || !m.accept(")") {
				return false
			}
		} else if !m.comparison() {
			return false
		}
		if !m.accept("and", "or") {
			return true
		}
	}
}

func (m *markerReader) comparison() bool {
	if !m.operand() {
		return false
	}
	if m.accept("not") {
		if !m.accept("in") {
			return false
		}
	} else if !m.accept(markerOperators...) {
		return false
	}
	return m.operand()
}

// operand reads the name of a property or a text in quotes, which it writes with
// double quotes.
func (m *markerReader) operand() bool {
	if m.accept(markerNames...) {
		return true
	}
	if len(m.tokens) == 0 {
		return false
	}
	t := m.tokens[0]
	if t[0] != '"' && t[0] != '\'' || !quoted.MatchString(t[1:len(t)-1]) {
		return false
	}
	m.read, m.tokens = append(m.read, `"`+t[1:len(t)-1]+`"`), m.tokens[1:]
	return true
}
