package pachyderm

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// maxDepth is how deep values may be nested. The deepest specification that
// means anything has less than 16.
const maxDepth = 64

// parse reads the specifications of a file: JSON or YAML, one, several after one
// another, or lists of them. What was read before an error is returned with it.
// Values are nil, bool, string, json.Number, []any and map[string]any.
func parse(data []byte) ([]any, error) {
	data = bytes.TrimSpace(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")))
	if isJSON(data) {
		return parseDocuments(data)
	}
	return parseYAML(data)
}

// isJSON reports whether trimmed data begins as JSON does.
func isJSON(data []byte) bool { return len(data) > 0 && (data[0] == '{' || data[0] == '[') }

// separator is a line between documents. In JSON no value has a line like that.
var separator = regexp.MustCompile(`(?m)^---[ \t\r]*(?:#.*)?$`)

// parseDocuments reads JSON whose values may have such lines between them, as YAML has
// between documents.
func parseDocuments(data []byte) ([]any, error) {
	// The ends of these lines stay, so that errors name the line of the file.
	return parseJSON(separator.ReplaceAll(data, nil))
}

// parseJSON reads JSON values after one another.
func parseJSON(data []byte) ([]any, error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var out []any
	for {
		value, err := next(decoder, 0)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return out, fmt.Errorf("line %d: %w", 1+bytes.Count(data[:min(int(decoder.InputOffset()), len(data))], []byte("\n")), err)
		}
		out = flatten(out, value)
	}
}

func parseYAML(data []byte) ([]any, error) {
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	var out []any
	for n := 1; ; n++ {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return out, fmt.Errorf("document %d: %w", n, err)
		}
		if trimmed := bytes.TrimSpace(document); isJSON(trimmed) {
			// Of several values in one document YAML reads the first alone.
			if values, err := parseJSON(trimmed); err == nil {
				out = append(out, values...)
				continue
			}
		}
		converted, err := yaml.YAMLToJSONStrict(document)
		if err != nil {
			return out, fmt.Errorf("document %d: %w", n, err)
		}
		values, err := parseJSON(converted)
		if err != nil {
			return out, fmt.Errorf("document %d: %w", n, err)
		}
		if len(values) == 1 && values[0] == nil { // comments alone, or nothing
			continue
		}
		out = append(out, values...)
	}
}

// flatten adds a value, or the values of a list.
func flatten(out []any, value any) []any {
	if list, ok := value.([]any); ok {
		return append(out, list...)
	}
	return append(out, value)
}

// next reads one value. A key that is there twice is an error, which is why the
// standard library is not left to make a map.
func next(d *json.Decoder, depth int) (any, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	delim, ok := token.(json.Delim)
	if !ok {
		return token, nil
	}
	if depth >= maxDepth {
		return nil, fmt.Errorf("values are nested more than %d deep", maxDepth)
	}
	if delim == '[' {
		return list(d, depth)
	}
	return object(d, depth)
}

func list(d *json.Decoder, depth int) (any, error) {
	out := []any{}
	for d.More() {
		value, err := next(d, depth+1)
		if err != nil {
			return nil, unexpectedEnd(err)
		}
		out = append(out, value)
	}
	_, err := d.Token()
	return out, unexpectedEnd(err)
}

func object(d *json.Decoder, depth int) (any, error) {
	out := map[string]any{}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return nil, unexpectedEnd(err)
		}
		key, ok := token.(string)
		if !ok {
			return nil, fmt.Errorf("a field has to have a name, not %v", token)
		}
		if _, twice := out[key]; twice {
			return nil, fmt.Errorf("%s is given twice in one object", key)
		}
		if out[key], err = next(d, depth+1); err != nil {
			return nil, unexpectedEnd(err)
		}
	}
	_, err := d.Token()
	return out, unexpectedEnd(err)
}

// unexpectedEnd keeps an end within a value apart from one between values.
func unexpectedEnd(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
