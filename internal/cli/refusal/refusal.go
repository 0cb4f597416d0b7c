package refusal

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Explain returns err in sentences, if it is the server's refusal of the
// object called name; other errors are returned as they are. The result wraps
// err.
func Explain(name string, err error) error {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok {
		return err
	}
	return join(name, Sentences(status.Status()), err)
}

// join makes one error of what there is to say about the object called name.
func join(name string, sentences []string, err error) error {
	switch len(sentences) {
	case 0:
		return err
	case 1:
		return &refused{words: name + ": " + sentences[0], err: err}
	}
	words := fmt.Sprintf("%s has %d mistakes:", name, len(sentences))
	for _, sentence := range sentences {
		words += "\n  " + sentence
	}
	return &refused{words: words, err: err}
}

// NoNamespace reports whether the server refused an object because the
// namespace that it is for does not exist.
func NoNamespace(err error) bool {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	return ok && apierrors.IsNotFound(err) && status.ErrStatus.Details != nil && status.ErrStatus.Details.Kind == "namespaces"
}

// refused says words and remembers the error they come from.
type refused struct {
	words string
	err   error
}

func (r *refused) Error() string { return r.words }
func (r *refused) Unwrap() error { return r.err }

// undeclared matches what the server says of a field that the kind does not
// have.
var undeclared = regexp.MustCompile(`\.?([\w.\[\]"=-]+): field not declared in schema`)

// unknown matches what the server says of the same under strict validation.
var unknown = regexp.MustCompile(`unknown field "([^"]+)"`)

// Sentences returns one sentence for each thing that a refusal complains
// about; none if it is no refusal of an object's content.
func Sentences(status metav1.Status) []string {
	var sentences []string
	if status.Details != nil && status.Reason == metav1.StatusReasonInvalid {
		for _, cause := range status.Details.Causes {
			if sentence := of(cause); sentence != "" {
				sentences = append(sentences, sentence)
			}
		}
		return unique(sentences)
	}
	kind := kindIn(status.Message)
	return append(missing(kind, undeclared, status.Message), missing(kind, unknown, status.Message)...)
}

// given matches the value that a cause starts with.
var given = regexp.MustCompile(`^(Invalid value|Unsupported value|Too long|Too many|Duplicate value): ((?:"(?:[^"\\]|\\.)*")|[^:]*)(?:: (.*))?$`)

// of makes a sentence of one cause.
func of(cause metav1.StatusCause) string {
	field := cause.Field
	if field == "<nil>" {
		field = ""
	}
	at := ""
	if field != "" {
		at = field + ": "
	}
	if sentence, done := short(cause, at); done {
		return sentence
	}
	message := withoutObject(strings.ReplaceAll(cause.Message, "\n", " "))
	match := given.FindStringSubmatch(message)
	if match == nil && field != "" && strings.HasPrefix(message, field) {
		return message // the rule's message names the field
	}
	if match == nil {
		return at + message
	}
	value, rest := match[2], strings.TrimPrefix(match[3], field+" in body ")
	if value == "null" || composite(value) {
		value = ""
	}
	switch {
	case field != "" && strings.HasPrefix(value, field):
		return value + ": " + match[3] // the server gave no value: the message is the rule's
	case field != "" && strings.HasPrefix(rest, field):
		return rest // the rule's message names the field
	case rest == "" && strings.Contains(value, " ") && !strings.HasPrefix(value, `"`):
		return at + value // no value, and the message is the rule's
	}
	switch {
	case rest == "":
		return at + value + " is not allowed"
	case strings.HasPrefix(rest, "supported values: "):
		return at + value + " is not allowed; allowed are " + strings.TrimPrefix(rest, "supported values: ")
	case strings.HasPrefix(rest, "must be of type "):
		// The value that the server names here is the type of what was given.
		wanted, _, _ := strings.Cut(strings.TrimPrefix(rest, "must be of type "), ":")
		return fmt.Sprintf("%sgiven is a value of type %s; it must be of type %s", at, strings.Trim(value, `"`), wanted)
	case strings.HasPrefix(rest, "should match "):
		return fmt.Sprintf("%s%s is not allowed: it must match %s", at, value, strings.TrimPrefix(rest, "should match "))
	case strings.HasPrefix(rest, "should be "), strings.HasPrefix(rest, "should have "):
		return fmt.Sprintf("%s%s is not allowed: it must %s", at, value, strings.TrimPrefix(rest, "should "))
	case value == "":
		return at + rest
	}
	return at + value + ": " + rest
}

// withoutObject cuts a whole object out of a message that repeats it as the
// value that is wrong.
func withoutObject(message string) string {
	rest, found := strings.CutPrefix(message, "Invalid value: ")
	if !found || !strings.HasPrefix(rest, "{") && !strings.HasPrefix(rest, "[") {
		return message
	}
	decoder := json.NewDecoder(strings.NewReader(rest))
	if decoder.Decode(new(json.RawMessage)) != nil {
		return message
	}
	return strings.TrimPrefix(rest[decoder.InputOffset():], ": ")
}

// short makes the sentence of a cause that needs no taking apart.
func short(cause metav1.StatusCause, at string) (string, bool) {
	switch cause.Type {
	case metav1.CauseTypeFieldValueRequired:
		rest := strings.TrimPrefix(strings.TrimPrefix(cause.Message, "Required value"), ": ")
		if rest == "" {
			return at + "must be given", true
		}
		return at + "must be given: " + rest, true
	case metav1.CauseTypeFieldValueDuplicate:
		return at + strings.TrimPrefix(cause.Message, "Duplicate value: ") + " is given twice", true
	case metav1.CauseTypeForbidden:
		return at + strings.TrimPrefix(cause.Message, "Forbidden: "), true
	}
	// CEL rules come after others have failed, as a note without content.
	if strings.HasPrefix(cause.Message, "some validation rules were not checked") || strings.Contains(cause.Message, "validation rules were not checked because") {
		return "", true
	}
	return "", false
}

// composite reports whether the server named a whole object, or its type, as
// the value that is wrong: too much to repeat.
func composite(value string) bool {
	return strings.HasPrefix(value, "{") || strings.HasPrefix(value, "[") || strings.HasPrefix(value, "map[") ||
		value == `"object"` || value == `"array"`
}

func unique(sentences []string) []string {
	var kept []string
	seen := map[string]bool{}
	for _, sentence := range sentences {
		if !seen[sentence] {
			seen[sentence] = true
			kept = append(kept, sentence)
		}
	}
	return kept
}
