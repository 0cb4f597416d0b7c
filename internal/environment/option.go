package environment

import (
	"fmt"
	"regexp"
	"strings"
)

// option is a line of a requirements file that tells pip where and how to find
// packages. Normalise writes it with its name.
type option struct {
	name string
	// value checks the value; nil: the option has none.
	value func(value string) error
}

// options are the allowed options, by each of their names. Every other option reads
// files beside the requirements, or changes the installer's work. pip also takes the
// first letters of a name for the whole; Normalise does not.
var options = map[string]option{
	"-i": {"-i", checkIndex}, "--index-url": {"--index-url", checkIndex}, "--pypi-url": {"--index-url", checkIndex},
	"--extra-index-url": {"--extra-index-url", checkIndex},
	"-f":                {"-f", checkLinks}, "--find-links": {"--find-links", checkLinks},
	"--trusted-host": {"--trusted-host", match(`[A-Za-z0-9][A-Za-z0-9.-]*(:[0-9]{1,5})?|\[[0-9A-Fa-f:.]+\](:[0-9]{1,5})?`, "the name of a host, such as index.example.com:8080")},
	"--no-binary":    {"--no-binary", checkFormats}, "--only-binary": {"--only-binary", checkFormats},
	"--use-feature": {"--use-feature", match(`[a-z0-9][a-z0-9-]*`, "the name of a feature of pip, such as fast-deps")},
	"--no-index":    {"--no-index", nil}, "--prefer-binary": {"--prefer-binary", nil},
	"--require-hashes": {"--require-hashes", nil}, "--pre": {"--pre", nil},
}

// checkFormats checks names of packages, for which binaries are wanted or not.
var checkFormats = match(`(:all:|:none:|[A-Za-z0-9][A-Za-z0-9._-]*)(,(:all:|:none:|[A-Za-z0-9][A-Za-z0-9._-]*))*`, "names of packages with commas between them, or :all:, or :none:")

const advice = "give the path of a package within the code folder, such as ./pkg, or name a package of an index; modules in the code folder are on Python's path anyway"

// rewriteOption checks a line of one option, and writes it with one space
// between its name and its value.
func rewriteOption(words []string) (string, error) {
	text := strings.Join(words, " ")
	name, value, attached := strings.Cut(words[0], "=")
	if short := words[0]; len(short) > 2 && short[1] != '-' { // -rother.txt
		name, value, attached = short[:2], short[2:], true
	}
	switch name {
	case "-e", "--editable":
		if attached {
			words = append([]string{"", value}, words[1:]...)
		}
		return rewriteEditable(strings.Join(words[1:], " "), text)
	case "-r", "--requirement":
		return "", fmt.Errorf("%q includes another file; copy its lines here; muster run --requirements does so itself", Mask(text))
	case "-c", "--constraint":
		if !attached {
			return rewriteConstraint(strings.Join(words[1:], " "), text)
		}
		return rewriteConstraint(strings.Join(append([]string{value}, words[1:]...), " "), text)
	}
	o, known := options[name]
	if !known {
		return "", fmt.Errorf("the option %q is not allowed here; allowed are --index-url, --extra-index-url, --find-links, --no-index, --trusted-host, --no-binary, --only-binary, --prefer-binary, --pre, --require-hashes and --use-feature, each by its whole name", Mask(name))
	}
	rest := words[1:]
	if o.value == nil {
		if attached || len(rest) > 0 {
			return "", fmt.Errorf("%q: %s has no value; give each option a line of its own", Mask(text), name)
		}
		return o.name, nil
	}
	if !attached && len(rest) > 0 {
		value, rest = rest[0], rest[1:]
	}
	if value == "" || len(rest) > 0 {
		return "", fmt.Errorf("%q: %s has one value; give each option a line of its own", Mask(text), name)
	}
	if err := o.value(value); err != nil {
		return "", fmt.Errorf("%q: %w", Mask(text), err)
	}
	return o.name + " " + value, nil
}

// rewriteEditable writes a local package as one that is installed: jobs share the
// environment, and the code of each job is in a folder of its own.
func rewriteEditable(value, text string) (string, error) {
	head, _, _ := strings.Cut(value, ";")
	if strings.Contains(head, "://") {
		return "", fmt.Errorf("%q: only packages of the code folder are taken with -e; leave it out in front of an address", Mask(text))
	}
	if head = strings.TrimSpace(head); head == "" || !isLocal(head) {
		return "", fmt.Errorf("%q names no package; %s", Mask(text), advice)
	}
	return writeRequirement(value)
}

// Editable returns the first line with -e in front of a local package, or "".
func Editable(text string) string {
	for _, l := range joinLines(splitLines(text)) {
		content := strings.TrimSpace(comment.ReplaceAllString(l.text, ""))
		if strings.HasPrefix(content, "-e") || strings.HasPrefix(content, "--editable") {
			return content
		}
	}
	return ""
}

// constraint is the option in front of a constraint in the text that [Normalise] returns.
const constraint = "-c "

// rewriteConstraint checks a constraint: a name and versions, which hold if the package
// is installed at all. pip has constraints in files only; [Split] takes them out again.
func rewriteConstraint(value, text string) (string, error) {
	written, err := writeRequirement(value)
	head, _, _ := strings.Cut(written, " ;")
	if err != nil || !strings.ContainsAny(head, "=<>@") || strings.Contains(head, "[") {
		return "", fmt.Errorf("%q reads another file; write its lines here as constraints, such as -c numpy==2.1; muster run --requirements does so itself", Mask(text))
	}
	return constraint + written, nil
}

// Split takes a text that [Normalise] returned apart: the requirements and the
// constraints, each as pip reads them from a file of their own.
func Split(text string) (requirements, constraints string) {
	var needed, bounds strings.Builder
	for line := range strings.Lines(text) {
		if bound, ok := strings.CutPrefix(line, constraint); ok {
			bounds.WriteString(bound)
			continue
		}
		needed.WriteString(line)
	}
	return needed.String(), bounds.String()
}

// match returns a check for values of one form.
func match(pattern, form string) func(string) error {
	whole := regexp.MustCompile(`^(` + pattern + `)$`)
	return func(value string) error {
		if !whole.MatchString(value) {
			return fmt.Errorf("%q is not allowed; give %s", value, form)
		}
		return nil
	}
}

func checkIndex(value string) error { return checkAddress(value, false) }

func checkLinks(value string) error {
	if scheme, _, ok := strings.Cut(value, "://"); !ok || !web[strings.ToLower(scheme)] {
		return fmt.Errorf("it refers to a folder; only http:// and https:// addresses mean the same on every machine")
	}
	return checkAddress(value, false)
}
