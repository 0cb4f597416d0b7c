package output

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// FuzzPrint: whatever a string is, JSON has nothing in it that a terminal obeys or hides, and
// JSON and YAML are read as the same string again.
func FuzzPrint(f *testing.F) {
	for _, seed := range []string{"plain", "数据\n", "\x1b]52;c;eA==\a\u009b\u202e\u2028\U000e0041", `\u202e "quoted"`, "\x7f\u0085\ufeff", "\xff", "\uffff\U0001ffff"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		text = strings.ToValidUTF8(text, "\uFFFD") // encoding/json does the same
		value := map[string]string{"a": text, "b": "x"}
		for _, format := range []Format{JSON, YAML} {
			var out bytes.Buffer
			if err := Print(&out, format, value); err != nil {
				t.Fatalf("%s of %q: %v", format, text, err)
			}
			if format == JSON && bytes.ContainsFunc(out.Bytes(), hidden) {
				t.Fatalf("%q is printed as %q", text, out.String())
			}
			var again map[string]string
			var err error
			if format == JSON {
				err = json.Unmarshal(out.Bytes(), &again)
			} else {
				err = yaml.Unmarshal(out.Bytes(), &again)
			}
			if err != nil || !cmp.Equal(value, again) {
				t.Fatalf("%s of %q is %q, read as %q: %v", format, text, out.String(), again, err)
			}
		}
	})
}
