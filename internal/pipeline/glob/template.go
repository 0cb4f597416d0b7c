package glob

import (
	"fmt"
	"strconv"
	"strings"
)

// Template is what joinOn and groupBy are: text with $1 to $9 in it.
type Template struct {
	text  string
	parts []piece
}

// ParseTemplate reads a template that may refer to so many groups.
func ParseTemplate(text string, groups int) (*Template, error) {
	t := &Template{text: text}
	refers := false
	for rest := text; rest != ""; {
		literal, after, found := strings.Cut(rest, "$")
		if literal != "" {
			t.parts = append(t.parts, piece{literal: literal})
		}
		if !found {
			break
		}
		if after == "" || after[0] < '1' || after[0] > '9' {
			return nil, fmt.Errorf("%q: after $ give the number of a part in parentheses, 1 to 9", text)
		}
		n, err := strconv.Atoi(after[:1])
		if err != nil {
			return nil, err
		}
		if n > groups {
			return nil, fmt.Errorf("%q: the glob has %d parts in parentheses: put what $%d stands for into parentheses", text, groups, n)
		}
		t.parts = append(t.parts, piece{group: n})
		refers, rest = true, after[1:]
	}
	if !refers {
		return nil, fmt.Errorf("%q refers to nothing: $1 is the first part in parentheses of the glob", text)
	}
	return t, nil
}

// String is the template as it is written.
func (t *Template) String() string { return t.text }

// Expand is the text with values in place of references.
func (t *Template) Expand(values []string) string {
	var b strings.Builder
	for _, p := range t.parts {
		if p.group == 0 {
			b.WriteString(p.literal)
		} else {
			b.WriteString(values[p.group-1])
		}
	}
	return b.String()
}

// Single is the group that the text is, if it is one group and nothing else.
func (t *Template) Single() int {
	if len(t.parts) != 1 {
		return 0
	}
	return t.parts[0].group
}
