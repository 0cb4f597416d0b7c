// Package lenient decodes objects whose spec Go's types may not be able to hold.
//
// The API server stores every object that the schema of a kind allows. Go's types cannot hold
// all of them: a template has no schema, and a quantity may have any exponent. One
// such object makes a list or a watch fail for all objects of all namespaces. So Unmarshal
// decodes such an object without its spec, and returns the reason.
package lenient

import (
	"fmt"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/util/json"
)

// maxProblem is the most bytes of a problem: it may quote a value, and ends up in a status.
const maxProblem = 300

// Unmarshal decodes an object's JSON into whole. Where that fails it decodes it into rest,
// which has the same fields but for the spec, and returns the reason. Both are pointers.
func Unmarshal(text []byte, whole, rest any) (problem string, err error) {
	failed := json.Unmarshal(text, whole)
	if failed == nil {
		return "", nil
	}
	if err := json.Unmarshal(text, rest); err != nil {
		return "", err
	}
	problem = sentence(failed.Error())
	if len(problem) > maxProblem {
		problem = strings.ToValidUTF8(problem[:maxProblem], "") + "..."
	}
	return problem, nil
}

// mismatch matches the message of a JSON decoder about a value of the wrong type. Its groups are
// the type of the value, the path of the field and the type of the field.
var mismatch = regexp.MustCompile(`^json: cannot unmarshal (\w+)[^ ]*(?: [^ ]+)? into Go struct field [^. ]+\.(\S+) of type (\S+)$`)

// sentence translates a decoder's message about Go types into the terms of JSON and YAML.
func sentence(message string) string {
	m := mismatch.FindStringSubmatch(message)
	if m == nil {
		return message
	}
	return fmt.Sprintf("%s: %s is given, and %s is wanted", m[2], article(m[1]), kind(m[3]))
}

// kind is the kind of JSON value that a Go type is decoded from.
func kind(of string) string {
	of = strings.TrimPrefix(of, "*")
	switch {
	case strings.HasPrefix(of, "[]"):
		return "a list"
	case strings.HasPrefix(of, "int"), strings.HasPrefix(of, "uint"):
		return "a whole number"
	case strings.HasPrefix(of, "float"):
		return "a number"
	case of == "bool":
		return "true or false"
	case of == "string":
		return "a string"
	case strings.HasPrefix(of, "map["):
		return "an object"
	}
	return "a value of type " + of[strings.LastIndexByte(of, '.')+1:]
}

// article is a JSON type, as decoders call it, with its article.
func article(of string) string {
	switch of {
	case "array":
		return "a list"
	case "object":
		return "an object"
	case "bool":
		return "true or false"
	}
	return "a " + of
}
