package docs

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

var (
	codeSpan   = regexp.MustCompile("`+[^`]*`+")
	inlineLink = regexp.MustCompile(`\]\(([^)\s]+)(?:\s+"[^"]*")?\)`)
	definition = regexp.MustCompile(`^\[[^\]]+\]:\s+(\S+)`)
	attribute  = regexp.MustCompile(`\b(?:src|srcset|href)="([^"]+)"`)
	identifier = regexp.MustCompile(`<[a-z]+ [^>]*\b(?:id|name)="([^"]+)"`)
	heading    = regexp.MustCompile(`^#{1,6}\s+(.*?)\s*#*$`)
	linkText   = regexp.MustCompile(`!?\[([^\]]*)\]\([^)]*\)`)
	scheme     = regexp.MustCompile(`^[a-z][a-z0-9+.-]*:`)
)

// page is the part of a Markdown file that the checks look at.
type page struct {
	links   []link
	anchors map[string]bool
	// cells are the table cells, each with its line.
	cells []cell
	lines int
}

type link struct {
	line   int
	target string
}

type cell struct {
	line int
	text string
}

// parse reads a page. Fenced code has no links, headings or tables.
func parse(text string) page {
	p := page{anchors: map[string]bool{}}
	fence, slugs := "", map[string]int{}
	for line := range strings.Lines(text) {
		p.lines++
		line = strings.TrimRight(line, "\r\n")
		if mark := fenceOf(line); mark != "" && (fence == "" || strings.HasPrefix(mark, fence)) {
			if fence == "" {
				fence = mark
			} else {
				fence = ""
			}
			continue
		}
		if fence != "" {
			continue
		}
		p.prose(line, slugs)
	}
	return p
}

// fenceOf returns the backquotes or tildes with which a line opens or closes
// fenced code, and nothing for any other line.
func fenceOf(line string) string {
	line = strings.TrimLeft(line, " ")
	for _, mark := range []string{"`", "~"} {
		if rest := strings.TrimLeft(line, mark); len(line)-len(rest) >= 3 {
			return line[:len(line)-len(rest)]
		}
	}
	return ""
}

func (p *page) prose(line string, slugs map[string]int) {
	if found := heading.FindStringSubmatch(line); found != nil {
		name := slug(found[1])
		if slugs[name]++; slugs[name] > 1 {
			name = fmt.Sprintf("%s-%d", name, slugs[name]-1)
		}
		p.anchors[name] = true
	}
	if trimmed := strings.TrimSpace(line); strings.HasPrefix(trimmed, "|") {
		for text := range strings.SplitSeq(strings.Trim(trimmed, "|"), "|") {
			p.cells = append(p.cells, cell{p.lines, strings.TrimSpace(text)})
		}
	}
	bare := codeSpan.ReplaceAllString(line, "")
	for _, found := range identifier.FindAllStringSubmatch(bare, -1) {
		p.anchors[found[1]] = true
	}
	for _, pattern := range []*regexp.Regexp{inlineLink, definition, attribute} {
		for _, found := range pattern.FindAllStringSubmatch(bare, -1) {
			p.links = append(p.links, link{p.lines, found[1]})
		}
	}
}

// slug is the anchor that GitHub gives a heading.
func slug(title string) string {
	title = linkText.ReplaceAllString(title, "$1")
	var b strings.Builder
	for _, r := range strings.ToLower(title) {
		switch {
		case r == ' ':
			b.WriteByte('-')
		case r == '-', r == '_', unicode.IsLetter(r), unicode.IsDigit(r):
			b.WriteRune(r)
		}
	}
	return b.String()
}

// pages reads every Markdown file below a folder, by path. Hidden folders, and
// those that are built or installed, are left out.
func pages(fsys fs.FS) (map[string]page, error) {
	found := map[string]page{}
	err := fs.WalkDir(fsys, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if skipped(fsys, name) {
				return fs.SkipDir
			}
			return nil
		}
		if path.Ext(name) != ".md" {
			return nil
		}
		text, err := fs.ReadFile(fsys, name)
		if err != nil {
			return fmt.Errorf("reading %s: %w", name, err)
		}
		found[name] = parse(string(text))
		return nil
	})
	return found, err
}

func skipped(fsys fs.FS, dir string) bool {
	base := path.Base(dir)
	if dir != "." && strings.HasPrefix(base, ".") || slices.Contains([]string{"bin", "dist", "node_modules"}, base) {
		return true
	}
	_, err := fs.Stat(fsys, path.Join(dir, "pyvenv.cfg"))
	return err == nil
}

// resolve returns the file and the anchor that a link of a page names; the file
// is empty for a link with a scheme.
func resolve(from, target string) (file, anchor string) {
	if scheme.MatchString(target) {
		return "", ""
	}
	file, anchor, _ = strings.Cut(target, "#")
	if file == "" {
		return from, anchor
	}
	return path.Join(path.Dir(from), file), anchor
}
