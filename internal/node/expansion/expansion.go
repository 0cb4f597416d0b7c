package expansion

import (
	"slices"
	"strings"
)

// Expand replaces $(NAME) by the value that lookup knows for NAME. References
// it does not know stay as they are, and $$ stands for one $.
func Expand(s string, lookup func(name string) (string, bool)) string {
	var out strings.Builder
	for {
		dollar := strings.IndexByte(s, '$')
		if dollar < 0 || dollar+1 == len(s) {
			out.WriteString(s)
			return out.String()
		}
		out.WriteString(s[:dollar])
		s = s[dollar:]
		taken, value := reference(s, lookup)
		out.WriteString(value)
		s = s[taken:]
	}
}

// reference reads what starts with $ at the beginning of s, which is at least
// two bytes long: how many bytes it takes and what stands for them.
func reference(s string, lookup func(string) (string, bool)) (taken int, value string) {
	switch s[1] {
	case '$':
		return 2, "$"
	case '(':
		end := strings.IndexByte(s, ')')
		if end < 0 {
			return 2, s[:2]
		}
		if v, ok := lookup(s[2:end]); ok {
			return end + 1, v
		}
		return end + 1, s[:end+1]
	}
	return 1, "$"
}

// Variables is a set of environment variables that remembers the order in
// which they were first set.
type Variables struct {
	names  []string
	values map[string]string
}

// Set sets a variable.
func (v *Variables) Set(name, value string) {
	if v.values == nil {
		v.values = map[string]string{}
	}
	if _, ok := v.values[name]; !ok {
		v.names = append(v.names, name)
	}
	v.values[name] = value
}

// Unset removes a variable.
func (v *Variables) Unset(name string) {
	if _, ok := v.values[name]; ok {
		delete(v.values, name)
		v.names = slices.DeleteFunc(v.names, func(n string) bool { return n == name })
	}
}

// Get returns a variable's value and whether it is set.
func (v *Variables) Get(name string) (string, bool) {
	value, ok := v.values[name]
	return value, ok
}

// Default sets a variable that is not set yet.
func (v *Variables) Default(name, value string) {
	if _, ok := v.values[name]; !ok {
		v.Set(name, value)
	}
}

// Map replaces every value by what f makes of it.
func (v *Variables) Map(f func(value string) string) {
	for name, value := range v.values {
		v.values[name] = f(value)
	}
}

// Expand replaces references to these variables.
func (v *Variables) Expand(s string) string { return Expand(s, v.Get) }

// ExpandAll replaces references in every word.
func (v *Variables) ExpandAll(words []string) []string {
	out := make([]string, 0, len(words))
	for _, word := range words {
		out = append(out, v.Expand(word))
	}
	return out
}

// List returns the variables as NAME=value, in order.
func (v *Variables) List() []string {
	out := make([]string, 0, len(v.names))
	for _, name := range v.names {
		out = append(out, name+"="+v.values[name])
	}
	return out
}
