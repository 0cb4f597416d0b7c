package glob

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/internal/data/tree"
)

func TestGlob(t *testing.T) {
	for _, c := range []struct {
		glob   string
		path   string // with a slash at its end: a folder
		values []string
		no     bool
	}{
		{glob: "", path: "/"},
		{glob: "/", path: "/"},
		{glob: "/", path: "a", no: true},
		{glob: "/*", path: "a"},
		{glob: "/*", path: "a/"},
		{glob: "*", path: "a"},
		{glob: "/*", path: "a/b", no: true},
		{glob: "/*/", path: "a/"},
		{glob: "/*/", path: "a", no: true},
		{glob: "/*/*", path: "a/b"},
		{glob: "/*.png", path: "a.png"},
		{glob: "/*.png", path: ".png"},
		{glob: "/*.png", path: "a.pngx", no: true},
		{glob: "/*.png", path: "aXpng", no: true},
		{glob: "/**.png", path: "a/b/c.png"},
		{glob: "/**.png", path: "c.png"},
		{glob: "/**.png", path: "a.png/", no: true},
		{glob: "/**", path: "a/b"},
		{glob: "/**/x", path: "x"},
		{glob: "/**/x", path: "a/b/x"},
		{glob: "/**/x", path: "ax", no: true},
		{glob: "/a/**/b/*", path: "a/b/c"},
		{glob: "/a/**/b/*", path: "a/x/y/b/c"},
		{glob: "/a/**", path: "a/b"},
		{glob: "/a/**", path: "ab", no: true},
		{glob: "/?", path: "a"},
		{glob: "/?", path: "ä"},
		{glob: "/?", path: "ab", no: true},
		{glob: "/[a-c]", path: "b"},
		{glob: "/[a-c]", path: "d", no: true},
		{glob: "/[!a-c]", path: "d"},
		{glob: "/[^a-c]", path: "b", no: true},
		{glob: "/a[!b]c", path: "a/c", no: true},
		{glob: "/**[ -~]c", path: "a/c", no: true},
		{glob: "/**[ -~]c", path: "a.c"},
		{glob: "/[]]", path: "]"},
		{glob: `/[\]-]`, path: "-"},
		{glob: "/{a,b}.txt", path: "b.txt"},
		{glob: "/{a,b*}", path: "bcd"},
		{glob: "/{a,b}.txt", path: "c.txt", no: true},
		{glob: "/a,b", path: "a,b"},
		{glob: `/\*`, path: "*"},
		{glob: `/\*`, path: "a", no: true},
		{glob: `/\(a\)`, path: "(a)"},
		{glob: "/a.b+c$", path: "a.b+c$"},
		{glob: "/(*)", path: "a", values: []string{"a"}},
		{glob: "/(*)/(*).png", path: "cat/1.png", values: []string{"cat", "1"}},
		{glob: "/(*)-(*)", path: "a-b-c", values: []string{"a-b", "c"}},
		{glob: "/((*)-*)", path: "a-b", values: []string{"a-b", "a"}},
		{glob: "/({a,b})*", path: "bx", values: []string{"b"}},
		{glob: "/(**)/x", path: "a/b/x", values: []string{"a/b"}},
		{glob: "/(*/*)", path: "a/b", values: []string{"a/b"}},
		{glob: "/a\nb", path: "a\nb"},
		{glob: "/*", path: "\xff"},
	} {
		g, err := Parse(c.glob)
		if err != nil {
			t.Errorf("%q: %v", c.glob, err)
			continue
		}
		path, folder := strings.CutSuffix(c.path, "/")
		values, ok := g.Match(path, folder)
		if ok == c.no || cmp.Diff(c.values, values) != "" {
			t.Errorf("%q on %q: %v %q", c.glob, c.path, ok, values)
		}
		if ok && !strings.HasPrefix(path, g.Prefix()) {
			t.Errorf("%q matches %q, which does not begin with %q", c.glob, path, g.Prefix())
		}
	}
}

func TestGlobRefused(t *testing.T) {
	for glob, says := range map[string]string{
		"/(a":         "not closed",
		"/a)":         "not open",
		"/{a":         "not closed",
		"/a}":         "not open",
		"/[a":         "not closed",
		"/[]":         "not closed",
		"/[b-a]":      "has to be before",
		"/[/]":        "slash in brackets",
		"/{a/b,c}":    "slash within braces",
		"/{(a),b}":    "within braces",
		"/a//b":       "empty part",
		"//":          "empty part",
		"/**/":        "files alone",
		`/a\`:         `ends with \`,
		`/[a\`:        `ends with \`,
		"/@(a|b)":     `\@(`,
		"/!(a)":       "no meaning",
		"/a\x00b":     "NUL",
		"/\xff":       "UTF-8",
		"/((((((((((": "more than 9",
	} {
		if _, err := Parse(glob); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", glob, err, says)
		}
	}
}

func TestGlobPrefix(t *testing.T) {
	for _, c := range []struct {
		glob, prefix, narrowed string // with the value x for the first group
	}{
		{"/", "", ""},
		{"/a/b*", "a/b", "a/b"},
		{"/(*)/y", "", "x/y"},
		{"/a/(*)/(*)", "a/", "a/x/"},
		{"/*/(*)", "", ""},
		{"/a(b*)c", "a", "axc"},
		{`/a\*b`, "a*b", "a*b"},
		{"/{a,b}/(*)", "", ""},
	} {
		g, err := Parse(c.glob)
		if err != nil {
			t.Fatal(err)
		}
		if g.Prefix() != c.prefix || g.PrefixOf(1, "x") != c.narrowed {
			t.Errorf("%q: %q, %q", c.glob, g.Prefix(), g.PrefixOf(1, "x"))
		}
	}
}

func TestTemplate(t *testing.T) {
	values := []string{"a", "b"}
	for text, want := range map[string]string{"$1": "a", "$2": "b", "$1-$2": "a-b", "x$1$2": "xab", "$12": "a2"} {
		p, err := ParseTemplate(text, 2)
		if err != nil || p.Expand(values) != want {
			t.Errorf("%q: %v", text, err)
		}
	}
	for text, says := range map[string]string{"": "refers to nothing", "a": "refers to nothing", "$": "after $", "$x": "after $", "$0": "after $", "$3": "has 2 parts"} {
		if _, err := ParseTemplate(text, 2); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", text, err, says)
		}
	}
}

// FuzzGlob: whatever a glob and a path are, nothing panics, what matches begins as
// it should, and the datum of an entry is the entry or a folder that it is in.
func FuzzGlob(f *testing.F) {
	for _, seed := range [][2]string{{"/(*)/{a,b}[!c-e]?", "x/ay"}, {"/**/x", "a/x"}, {`/\[(**)`, "[a/b"}, {"/*/", "a/b"}, {"/[]-a]", "]"}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, glob, path string) {
		g, err := Parse(glob)
		if err != nil {
			return
		}
		again, err := Parse(g.String())
		if err != nil || again.all != g.all || !g.all && again.match.String() != g.match.String() {
			t.Fatalf("%q is %q, which is read otherwise: %v", glob, g, err)
		}
		at, folder, ok := g.Datum(path)
		if !ok {
			return
		}
		if at != path && at != "" && !strings.HasPrefix(path, at+"/") {
			t.Fatalf("%q: the datum of %q is %q", glob, path, at)
		}
		values, matches := g.Match(at, folder)
		if !matches {
			return
		}
		if len(values) != g.Groups() && !g.all || !strings.HasPrefix(at, g.Prefix()) {
			t.Fatalf("%q matches %q with %q, prefix %q", glob, at, values, g.Prefix())
		}
		if !g.deep && !g.all && strings.Count(at, "/") != g.depth-1 {
			t.Fatalf("%q matches %q at another depth", glob, at)
		}
		if g.Groups() > 0 && !strings.HasPrefix(at, g.PrefixOf(1, values[0])) {
			t.Fatalf("%q with %q matches %q, prefix %q", glob, values[0], at, g.PrefixOf(1, values[0]))
		}
	})
}

// FuzzGlobTime: no glob of the length that the API allows takes more than the length of a path.
func FuzzGlobTime(f *testing.F) {
	for _, seed := range []string{"**/", "*a", "(*)", "**", "{a,", "?", "[!a]*"} {
		f.Add(seed, "", "a/", "b")
	}
	f.Fuzz(func(t *testing.T, part, last, folder, name string) {
		const longest = 1024 // of a glob
		if part == "" || folder == "" || len(part)+len(last) > longest || len(folder)+len(name) > tree.MaxPath {
			return
		}
		g, err := Parse(strings.Repeat(part, (longest-len(last))/len(part)) + last)
		if err != nil {
			return
		}
		path := strings.Repeat(folder, (tree.MaxPath-len(name))/len(folder)) + name
		began := time.Now()
		g.Match(path, false)
		if took := time.Since(began); took > 5*time.Second {
			t.Fatalf("%q takes %s for %q", g, took, path)
		}
	})
}

// FuzzTemplate: the text of a template has the values that the template refers to, in order.
func FuzzTemplate(f *testing.F) {
	f.Add("$1-$2", "a", "b")
	f.Add("$12$", "$1", "")
	f.Fuzz(func(t *testing.T, text, one, two string) {
		p, err := ParseTemplate(text, 2)
		if err != nil {
			return
		}
		if want := strings.NewReplacer("$1", one, "$2", two).Replace(text); p.Expand([]string{one, two}) != want {
			t.Fatalf("%q of %q and %q is %q, want %q", text, one, two, p.Expand([]string{one, two}), want)
		}
	})
}
