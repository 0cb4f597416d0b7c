package refusal

import (
	"reflect"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/suggestion"
)

// Misread returns err in sentences, if it says that the object called name, of
// one of Muster's kinds, has fields that the kind does not have; other errors
// are returned as they are. The result wraps err.
func Misread(kind, name string, err error) error {
	if _, strict := runtime.AsStrictDecodingError(err); !strict {
		return err
	}
	return join(name, missing(kind, unknown, err.Error()), err)
}

// missing makes a sentence of each match of a pattern whose first group is
// the path of a field that kind does not have.
func missing(kind string, pattern *regexp.Regexp, message string) []string {
	var sentences []string
	for _, match := range pattern.FindAllStringSubmatch(message, -1) {
		sentences = append(sentences, match[1]+": there is no such field"+instead(kind, match[1]))
	}
	return unique(sentences)
}

// kinds matches the kind of the object in what the server says of it.
var kinds = regexp.MustCompile(`Kind=(\w+)\)|^(?:[^:]*: )?(\w+) in version "`)

// kindIn returns the kind that a refusal is about, or "".
func kindIn(message string) string {
	match := kinds.FindStringSubmatch(message)
	if match == nil {
		return ""
	}
	return match[1] + match[2]
}

// listed is how many fields are named at most where none is near.
const listed = 30

// instead returns what may have been meant by a path in an object of kind:
// the field that is nearest, or all that are there. It is empty where the kind
// is none of Muster's.
func instead(kind, path string) string {
	parent, name := "", path
	if i := strings.LastIndexByte(path, '.'); i >= 0 {
		parent, name = path[:i], path[i+1:]
	}
	fields := fieldsAt(kind, parent)
	if phrase := suggestion.Phrase(name, fields); phrase != "" {
		return phrase
	}
	if len(fields) == 0 || len(fields) > listed {
		return ""
	}
	return "; there are " + strings.Join(fields, ", ")
}

// fieldsAt returns the names of the fields at a path in objects of a kind, in
// alphabetical order.
func fieldsAt(kind, path string) []string {
	scheme := runtime.NewScheme()
	if v1alpha1.AddToScheme(scheme) != nil {
		return nil
	}
	known, found := scheme.KnownTypes(v1alpha1.GroupVersion)[kind]
	if !found {
		return nil
	}
	for _, name := range steps(path) {
		field := fieldsOf(known)[name]
		if field == nil {
			return nil
		}
		if known = structOf(field); known == nil {
			return nil
		}
	}
	var names []string
	for name := range fieldsOf(known) {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// selectors matches what chooses an item of a list or a map.
var selectors = regexp.MustCompile(`\[[^\]]*\]`)

// steps takes a path apart into the names of fields.
func steps(path string) []string {
	if path = selectors.ReplaceAllString(path, ""); path == "" {
		return nil
	}
	return strings.Split(path, ".")
}

// structOf returns the struct that a field of type t holds, alone or in a
// list, or nil where it holds none or reads itself.
func structOf(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || reflect.PointerTo(t).Implements(reflect.TypeFor[interface{ UnmarshalJSON([]byte) error }]()) {
		return nil
	}
	return t
}

// fieldsOf returns the fields of a struct by their names in JSON, those of
// structs inside it that have no name of their own among them.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	fields := map[string]reflect.Type{}
	for field := range t.Fields() {
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "-":
		case name != "":
			fields[name] = field.Type
		case strings.Contains(options, "inline") || field.Anonymous:
			for name, inner := range fieldsOf(structOf(field.Type)) {
				fields[name] = inner
			}
		}
	}
	return fields
}
