package docs

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// The sizes that keep README.md readable.
const (
	readmeLines = 150
	cellRunes   = 120
)

const index = "docs/README.md"

func repository(t *testing.T) (fs.FS, map[string]page) {
	t.Helper()
	fsys := os.DirFS("../..")
	found, err := pages(fsys)
	if err != nil {
		t.Fatal(err)
	}
	if len(found) < 30 {
		t.Fatalf("%d pages found below the repository, which has more", len(found))
	}
	return fsys, found
}

// TestLinksResolve: every relative link names a file that exists and, where it
// has an anchor, a heading of that file.
func TestLinksResolve(t *testing.T) {
	for _, problem := range broken(repository(t)) {
		t.Error(problem)
	}
}

func broken(fsys fs.FS, all map[string]page) (problems []string) {
	for name, p := range all {
		for _, l := range p.links {
			file, anchor := resolve(name, l.target)
			if file == "" {
				continue
			}
			switch target, isPage := all[file]; {
			case !exists(fsys, file):
				problems = append(problems, fmt.Sprintf("%s:%d: %s: there is no file %s", name, l.line, l.target, file))
			case anchor != "" && isPage && !target.anchors[anchor]:
				problems = append(problems, fmt.Sprintf("%s:%d: %s: %s has no heading with the anchor %s", name, l.line, l.target, file, anchor))
			}
		}
	}
	slices.Sort(problems)
	return problems
}

func exists(fsys fs.FS, name string) bool {
	_, err := fs.Stat(fsys, name)
	return err == nil
}

// TestIndexIsComplete: a reader who starts at docs/README.md finds every document.
func TestIndexIsComplete(t *testing.T) {
	_, all := repository(t)
	for _, name := range unlisted(all) {
		t.Errorf("%s: not linked from %s or an index that it links; add it there", name, index)
	}
}

// unlisted returns the documents that no index links: all pages below docs, and
// the READMEs of folders that people use by themselves.
func unlisted(all map[string]page) (missing []string) {
	listed := map[string]bool{index: true}
	for open := []string{index}; len(open) > 0; open = open[1:] {
		for _, l := range all[open[0]].links {
			file, _ := resolve(open[0], l.target)
			if !listed[file] && strings.HasPrefix(file, "docs/") && path.Base(file) == "README.md" {
				open = append(open, file)
			}
			listed[file] = true
		}
	}
	for name := range all {
		if !listed[name] && mustBeListed(name) {
			missing = append(missing, name)
		}
	}
	slices.Sort(missing)
	return missing
}

func mustBeListed(name string) bool {
	top, _, _ := strings.Cut(name, "/")
	return slices.Contains([]string{"docs", "examples", "python", "benchmarks"}, top)
}

// TestReadmeIsShort keeps README.md short enough for a reader who does not know
// Muster yet.
func TestReadmeIsShort(t *testing.T) {
	_, all := repository(t)
	for _, problem := range tooLong(all["README.md"]) {
		t.Errorf("README.md%s", problem)
	}
}

func tooLong(readme page) (problems []string) {
	if readme.lines == 0 || readme.lines > readmeLines {
		problems = append(problems, fmt.Sprintf(": %d lines; at most %d: move details to docs", readme.lines, readmeLines))
	}
	for _, c := range readme.cells {
		if n := utf8.RuneCountInString(c.text); n > cellRunes {
			problems = append(problems, fmt.Sprintf(":%d: a table cell of %d characters; at most %d: move details to docs", c.line, n, cellRunes))
		}
	}
	return problems
}

// TestChecksFind holds the checks against pages with a fault of each kind.
func TestChecksFind(t *testing.T) {
	fsys := fstest.MapFS{}
	for name, text := range map[string]string{
		"README.md": "# A\n[docs](docs/README.md#the-index) [away](https://example.com/x.md) [gone](gone.md)\n" +
			"```\n[code](nowhere.md)\n# no heading\n```\nand `[code](nowhere.md)`\n",
		"docs/README.md":        "# The index\n[here](#the-index) [there](#no-heading) [a](a.md) [more](more/README.md) ![](image.svg)\n",
		"docs/a.md":             "## What `muster up` does, and why\n## Twice\n## Twice\n[1](#what-muster-up-does-and-why) [2](#twice-1) [3](#twice-2)\n",
		"docs/b.md":             "linked by no index\n",
		"docs/more/README.md":   "[c](c.md)\n",
		"docs/more/c.md":        "<a id=\"spot\"></a>[up](../a.md#gone) [d](d.md#spot) [spot](#spot)\n",
		"docs/more/d.md":        "linked by a page that is no index\n",
		"examples/x/README.md":  "linked by none\n",
		"env/pyvenv.cfg":        "",
		"env/lib/p/README.md":   "[gone](gone.md)\n",
		".cache/module/page.md": "[gone](gone.md)\n",
	} {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	all, err := pages(fsys)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{
		"README.md:2: gone.md: there is no file gone.md",
		"docs/README.md:2: #no-heading: docs/README.md has no heading with the anchor no-heading",
		"docs/README.md:2: image.svg: there is no file docs/image.svg",
		"docs/a.md:4: #twice-2: docs/a.md has no heading with the anchor twice-2",
		"docs/more/c.md:1: ../a.md#gone: docs/a.md has no heading with the anchor gone",
		"docs/more/c.md:1: d.md#spot: docs/more/d.md has no heading with the anchor spot",
	}, broken(fsys, all)); diff != "" {
		t.Errorf("links (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"docs/b.md", "docs/more/d.md", "examples/x/README.md"}, unlisted(all)); diff != "" {
		t.Errorf("documents that no index links (-want +got):\n%s", diff)
	}
	long := parse(strings.Repeat("line\n", readmeLines-1) + "| a | " + strings.Repeat("ä", cellRunes+1) + " |\n")
	if got := tooLong(long); len(got) != 1 || !strings.HasPrefix(got[0], ":150: a table cell of 121 characters") {
		t.Errorf("a long cell in the last line: %q", got)
	}
	if got := tooLong(parse(strings.Repeat("line\n", readmeLines+1))); len(got) != 1 {
		t.Errorf("a line too many: %q", got)
	}
}
