// Package output owns -o: the formats in which commands print objects.
//
// It must not know any command, nor talk to a server.
package output

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/terminal"
)

// Format is a way to print objects.
type Format string

// The formats. Human is a table or a sentence.
const (
	Human Format = ""
	Wide  Format = "wide"
	JSON  Format = "json"
	YAML  Format = "yaml"
	Name  Format = "name"
)

// Flag adds -o with these formats to the command and returns where it is
// stored. [Format.Validate] must be called before use.
func Flag(cmd *cobra.Command, allowed ...Format) *Format {
	format := new(Format)
	names := make([]string, len(allowed))
	for i, one := range allowed {
		names[i] = string(one)
	}
	cmd.Flags().StringVarP((*string)(format), "output", "o", "", "output format: "+strings.Join(names, ", "))
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp))
	return format
}

// Validate reports a format that is not among the allowed.
func (f Format) Validate(allowed ...Format) error {
	if f == Human || slices.Contains(allowed, f) {
		return nil
	}
	names := make([]string, len(allowed))
	for i, one := range allowed {
		names[i] = string(one)
	}
	return exit.Usage("-o %s: there is no such output format; allowed are %s", f, strings.Join(names, ", "))
}

// Print writes value as JSON or YAML. Fields that the value's JSON encoding
// leaves out are left out. JSON has its escapes for all that a terminal would obey
// or hide; YAML gets to w as [terminal.Data] does.
func Print(w io.Writer, format Format, value any) error {
	encoded, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the output: %w", err)
	}
	// YAML's reader refuses control characters, and knows no surrogate pairs.
	encoded = visible(encoded, format != YAML)
	if format == YAML {
		encoded, err = yaml.JSONToYAML(encoded)
		if err != nil {
			return fmt.Errorf("encoding the output: %w", err)
		}
		_, err = terminal.Data(w).Write(encoded)
		return err
	}
	_, err = w.Write(append(encoded, '\n'))
	return err
}

// visible writes the characters of a JSON text that a terminal obeys or hides as JSON's
// escapes. They are in strings alone, whose values stay. Characters that JSON escapes as
// surrogate pairs are optional.
func visible(encoded []byte, pairs bool) []byte {
	if !bytes.ContainsFunc(encoded, hidden) {
		return encoded
	}
	var out []byte
	for _, r := range string(encoded) {
		if !hidden(r) || r > 0xffff && !pairs {
			out = utf8.AppendRune(out, r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			out = fmt.Appendf(out, `\u%04x`, unit)
		}
	}
	return out
}

func hidden(r rune) bool { return r != '\n' && terminal.Hidden(r) }

// Manifest returns the object as a plain tree without what only a server
// says: status, and the fields of metadata that it fills in.
func Manifest(object runtime.Object) (map[string]any, error) {
	tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, fmt.Errorf("encoding the object: %w", err)
	}
	delete(tree, "status")
	if metadata, ok := tree["metadata"].(map[string]any); ok {
		for _, field := range []string{"creationTimestamp", "resourceVersion", "uid", "generation", "managedFields"} {
			delete(metadata, field)
		}
	}
	prune(tree)
	return tree, nil
}

// prune removes nulls, and the empty maps of fields that are no choice: an
// empty emptyDir says something, empty resources do not.
func prune(tree map[string]any) {
	for key, value := range tree {
		switch value := value.(type) {
		case nil:
			delete(tree, key)
		case map[string]any:
			prune(value)
			if len(value) == 0 && (key == "resources" || key == "metadata") {
				delete(tree, key)
			}
		case []any:
			for _, item := range value {
				if inner, ok := item.(map[string]any); ok {
					prune(inner)
				}
			}
		}
	}
}

// Reference returns "trainingjob.muster.dev/mnist", the way -o name prints an
// object.
func Reference(kind schema.GroupKind, name string) string {
	lower := strings.ToLower(kind.Kind)
	if kind.Group != "" {
		lower += "." + kind.Group
	}
	return lower + "/" + name
}

// PrintManifest writes an object as a manifest: as YAML for people, else in the
// format.
func PrintManifest(w io.Writer, format Format, object runtime.Object) error {
	tree, err := Manifest(object)
	if err != nil {
		return err
	}
	if format == Human {
		format = YAML
	}
	return Print(w, format, tree)
}
