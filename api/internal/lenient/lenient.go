// Package lenient decodes objects whose spec Go's types may not be able to hold.
//
// The API server stores what the schema of a kind allows, which is more than the types of
// its fields can hold: a template has no schema, and an amount may have any exponent. A list
// or a watch that fails at one such object shows none of the others, of any namespace. So
// an object is decoded without its spec then, and says why.
package lenient

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/json"
)

// maxProblem is the most bytes of a problem: it may quote a value, and ends up in a status.
const maxProblem = 300

// Unmarshal decodes an object's JSON into whole. Where that fails it decodes it into rest,
// which has the same fields but for the spec, and returns why. Both are pointers.
func Unmarshal(text []byte, whole, rest any) (problem string, err error) {
	failed := json.Unmarshal(text, whole)
	if failed == nil {
		return "", nil
	}
	if err := json.Unmarshal(text, rest); err != nil {
		return "", err
	}
	problem = failed.Error()
	if len(problem) > maxProblem {
		problem = strings.ToValidUTF8(problem[:maxProblem], "") + "..."
	}
	return problem, nil
}
