package pachyderm

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// shape is which fields an object of a specification may have, in snake_case.
type shape struct {
	// honours are the fields that code here reads.
	honours []string
	// refuses are fields that cannot be had: why, and what to do.
	refuses map[string]string
	// notes are fields without which the work is the same: what is so instead.
	notes map[string]string
	// retired are fields of Pachyderm 1: what to do. They are refused, and not
	// suggested.
	retired map[string]string
}

// names are the fields that Pachyderm 2 has.
func (s *shape) names() []string {
	out := slices.Concat(s.honours, slices.Collect(maps.Keys(s.refuses)), slices.Collect(maps.Keys(s.notes)))
	slices.Sort(out)
	return out
}

// message is one object of a specification, read field by field.
type message struct {
	c     *conversion
	path  string
	shape *shape
	// values and spelled are by name in snake_case: what the object has that is
	// not a default, and how it spells it.
	values  map[string]any
	spelled map[string]string
}

// message makes a message of a value, and says at once what of it is refused,
// noted or not known.
func (c *conversion) message(path string, value any, s *shape) *message {
	m := &message{c: c, path: path, shape: s, values: map[string]any{}, spelled: map[string]string{}}
	fields, ok := value.(map[string]any)
	if !ok {
		c.refuse(path, "give an object with fields, not %s", describe(value))
		return m
	}
	names := spellings(s)
	for _, spelling := range slices.Sorted(maps.Keys(fields)) {
		name, known := names[spelling]
		switch before, twice := m.spelled[name]; {
		case !known:
			c.unknown(m.at(spelling), spelling, s)
			continue
		case twice:
			c.refuse(m.at(spelling), "is the same field as %s: give one of them", before)
			continue
		}
		m.spelled[name] = spelling
		if !unset(fields[spelling]) {
			m.take(name, fields[spelling])
		}
	}
	return m
}

// take files a field where its name belongs.
func (m *message) take(name string, value any) {
	at := m.at(m.spelled[name])
	if text, ok := m.shape.refuses[name]; ok {
		m.c.refuse(at, "%s", text)
	} else if text, ok := m.shape.retired[name]; ok {
		m.c.refuse(at, "%s", text)
	} else if text, ok := m.shape.notes[name]; ok {
		m.c.note(at, "%s", text)
	} else {
		m.values[name] = value
	}
}

// at is the path of a field.
func (m *message) at(spelling string) string {
	if m.path == "" {
		return spelling
	}
	return m.path + "." + spelling
}

// field is the path of a field that is honoured, as it is spelled.
func (m *message) field(name string) string {
	if spelling, ok := m.spelled[name]; ok {
		return m.at(spelling)
	}
	return m.at(name)
}

// has says whether a field is there and is not the default.
func (m *message) has(name string) bool { _, ok := m.values[name]; return ok }

// text is a string field. Default: "".
func (m *message) text(name string) string {
	value, ok := m.values[name]
	if !ok {
		return ""
	}
	out, ok := value.(string)
	if !ok {
		m.c.refuse(m.field(name), "give text in quotes, not %s", describe(value))
	}
	return out
}

// flag is a field that is true or false. Default: false.
func (m *message) flag(name string) bool {
	value, ok := m.values[name]
	if !ok {
		return false
	}
	out, ok := value.(bool)
	if !ok {
		m.c.refuse(m.field(name), "give true or false, not %s", describe(value))
	}
	return out
}

// whole is a whole number from low to high, also where it is written as text,
// as 64-bit numbers are. Default: 0.
func (m *message) whole(name string, low, high int64) int64 {
	value, ok := m.values[name]
	if !ok {
		return 0
	}
	return m.c.whole(m.field(name), value, low, high)
}

func (c *conversion) whole(at string, value any, low, high int64) int64 {
	out, err := strconv.ParseInt(digits(value), 10, 64)
	if err != nil || out < low || out > high {
		c.refuse(at, "give a whole number from %d to %d, not %s", low, high, describe(value))
		return 0
	}
	return out
}

// decimal is a number above 0. Default: 0.
func (m *message) decimal(name string, high float64) float64 {
	value, ok := m.values[name]
	if !ok {
		return 0
	}
	out, err := strconv.ParseFloat(digits(value), 64)
	if err != nil || !(out > 0 && out <= high) {
		m.c.refuse(m.field(name), "give a number above 0, at most %g, not %s", high, describe(value))
		return 0
	}
	return out
}

// duration is a length of time in whole seconds, from a second on. Default: 0.
func (m *message) duration(name string) time.Duration {
	text := m.text(name)
	if text == "" {
		return 0
	}
	out, err := time.ParseDuration(text)
	if err != nil || out < time.Second || out%time.Second != 0 || out >= 100000*time.Hour {
		m.c.refuse(m.field(name), "give a duration of whole seconds, such as 90s, 5m or 1h30m, not %q", text)
		return 0
	}
	return out
}

// texts is a list of strings.
func (m *message) texts(name string) []string {
	var out []string
	for i, value := range m.list(name) {
		text, ok := value.(string)
		if !ok {
			m.c.refuse(fmt.Sprintf("%s[%d]", m.field(name), i), "give text in quotes, not %s", describe(value))
		}
		out = append(out, text)
	}
	return out
}

// list is a list of anything.
func (m *message) list(name string) []any {
	value, ok := m.values[name]
	if !ok {
		return nil
	}
	out, ok := value.([]any)
	if !ok {
		m.c.refuse(m.field(name), "give a list, not %s", describe(value))
	}
	return out
}

// table is a map of strings.
func (m *message) table(name string) map[string]string {
	value, ok := m.values[name]
	if !ok {
		return nil
	}
	fields, ok := value.(map[string]any)
	if !ok {
		m.c.refuse(m.field(name), "give an object of names and texts, not %s", describe(value))
	}
	out := make(map[string]string, len(fields))
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		text, ok := fields[key].(string)
		if !ok {
			m.c.refuse(m.field(name)+"."+key, "give text in quotes, not %s", describe(fields[key]))
		}
		out[key] = text
	}
	return out
}

// message is a field that is an object, or nil.
func (m *message) message(name string, s *shape) *message {
	value, ok := m.values[name]
	if !ok {
		return nil
	}
	return m.c.message(m.field(name), value, s)
}

// messages are the objects of a list.
func (m *message) messages(name string, s *shape) []*message {
	var out []*message
	for i, value := range m.list(name) {
		out = append(out, m.c.message(fmt.Sprintf("%s[%d]", m.field(name), i), value, s))
	}
	return out
}

// spellings maps each way to write a field of a shape to its name.
func spellings(s *shape) map[string]string {
	out := map[string]string{}
	for _, name := range slices.Concat(s.names(), slices.Collect(maps.Keys(s.retired))) {
		out[name], out[camel(name)] = name, name
	}
	return out
}

// camel is a name in snake_case as the JSON form of protocol buffers has it:
// datum_tries is datumTries, URL stays URL.
func camel(name string) string {
	var out strings.Builder
	raise := false
	for _, r := range name {
		switch {
		case r == '_':
			raise = true
			continue
		case raise:
			r = unicode.ToUpper(r)
		}
		raise = false
		out.WriteRune(r)
	}
	return out.String()
}

// unset says whether a value is the default of its type, which the format does
// not tell from a field that is not there.
func unset(value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case bool:
		return !v
	case string:
		return v == ""
	case json.Number:
		f, err := v.Float64()
		return err == nil && f == 0
	case []any:
		return len(v) == 0
	}
	return false
}

// digits is a number as it is written, or "".
func digits(value any) string {
	switch v := value.(type) {
	case json.Number:
		return v.String()
	case string:
		return v
	}
	return ""
}

// describe names a value in a message, shortly.
func describe(value any) string {
	switch v := value.(type) {
	case nil:
		return "null"
	case string:
		return strconv.Quote(short(v))
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	}
	return short(fmt.Sprint(value))
}

func short(s string) string {
	if runes := []rune(s); len(runes) > 40 {
		return string(runes[:40]) + "..."
	}
	return s
}
