package address

import (
	"strings"
	"testing"
)

// FuzzParse: an address that is taken names nothing outside of its dataset, and is read as the same
// when it is written in full.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"digits", "digits@main:/train/0.png", "digits@v1~3:a//b/", "digits:/../x", "digits@x~", "digits:/\x00", "digits:/a*[b]", "dig@a@b:c:d", "digits:/./"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, err := Parse(text)
		if err != nil {
			return
		}
		for part := range strings.SplitSeq(a.Path, "/") {
			if a.Path != "" && (part == "" || part == ".." || part == "." || strings.ContainsRune(part, 0)) {
				t.Fatalf("%q has the path %q", text, a.Path)
			}
		}
		again, err := Parse(a.String())
		if err != nil || again.Path != a.Path || again.Dataset != a.Dataset || again.Revision() != a.Revision() {
			t.Fatalf("%q is %s, which is read as %+v, %v", text, a, again, err)
		}
	})
}
