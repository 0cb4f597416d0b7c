package source

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// The files that say what is no code, in the order in which they speak: a
// later rule overrules an earlier one.
var ignoreFiles = []string{".gitignore", ".musterignore"}

// defaultIgnored is never code, unless an ignore file says otherwise with "!".
const defaultIgnored = `__pycache__/
node_modules/
.venv/
.mypy_cache/
.pytest_cache/
.ruff_cache/
.ipynb_checkpoints/
.tox/
.nox/
.hg/
.svn/
.DS_Store
`

// maxIgnoreFile bounds an ignore file that is read into memory.
const maxIgnoreFile = 1 << 20

// rules are the patterns in force in a folder, from the weakest to the
// strongest.
type rules []ruleset

// ruleset is one ignore file.
type ruleset struct {
	// name is how the file is called in reasons.
	name string
	// above is put before paths, for a file that lies above the root; below
	// is cut off them, for one that lies deeper. Both end in a slash if set.
	above, below string
	patterns     []pattern
}

// pattern is one line of an ignore file.
type pattern struct {
	negated, folders bool
	// anchored patterns match the path from the file's folder; others the
	// last name of any path.
	anchored bool
	// Exactly one is set: the text itself, the end of a name, an expression.
	literal, suffix string
	expression      *regexp.Regexp
}

// startingRules are those that hold in the root: the defaults, and the ignore
// files above it up to the top of its Git working tree.
func startingRules(root string) rules {
	out := rules{{name: "the defaults", patterns: parseIgnore(defaultIgnored)}}
	if exists(filepath.Join(root, ".git")) {
		return out
	}
	var outer rules
	above := filepath.Base(root) + "/"
	for dir := filepath.Dir(root); dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		var here rules
		for _, name := range ignoreFiles {
			path := filepath.Join(dir, name)
			if patterns, err := readIgnore(path); err == nil {
				here = append(here, ruleset{name: path, above: above, patterns: patterns})
			}
		}
		outer = append(here, outer...)
		if exists(filepath.Join(dir, ".git")) {
			return append(out, outer...)
		}
		above = filepath.Base(dir) + "/" + above
	}
	return out // in no working tree: what lies above is nobody's business
}

// enter returns the rules that hold inside a folder.
func (r rules) enter(abs, rel string, entries []fs.DirEntry) (rules, error) {
	out := r
	for _, name := range ignoreFiles {
		for _, e := range entries {
			if e.Name() != name || e.IsDir() {
				continue
			}
			patterns, err := readIgnore(filepath.Join(abs, name))
			if err != nil {
				return nil, fmt.Errorf("reading %s: %w", filepath.Join(rel, name), err)
			}
			set := ruleset{name: filepath.ToSlash(filepath.Join(rel, name)), patterns: patterns}
			if rel != "" {
				set.below = rel + "/"
			}
			out = append(out[:len(out):len(out)], set)
		}
	}
	return out, nil
}

// reason says why the path is left out; it is empty where it is kept.
func (r rules) reason(rel string, folder bool) string {
	if rel == ".git" || strings.HasSuffix(rel, "/.git") {
		return "Git's own data"
	}
	for i := len(r) - 1; i >= 0; i-- {
		set := &r[i]
		path := set.above + strings.TrimPrefix(rel, set.below)
		for j := len(set.patterns) - 1; j >= 0; j-- {
			p := &set.patterns[j]
			if !p.match(path, folder) {
				continue
			}
			if p.negated {
				return ""
			}
			return "ignored by " + set.name
		}
	}
	return ""
}

func (p *pattern) match(path string, folder bool) bool {
	if p.folders && !folder {
		return false
	}
	if !p.anchored {
		path = path[strings.LastIndexByte(path, '/')+1:]
	}
	switch {
	case p.expression != nil:
		return p.expression.MatchString(path)
	case p.suffix != "":
		return strings.HasSuffix(path, p.suffix)
	}
	return path == p.literal
}

func readIgnore(path string) ([]pattern, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxIgnoreFile {
		return nil, fmt.Errorf("it must be a file of at most %s", FormatBytes(maxIgnoreFile))
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return parseIgnore(string(data)), nil
}

// parseIgnore reads Git's pattern language, one pattern a line. What Git would
// never match is dropped.
func parseIgnore(text string) []pattern {
	var out []pattern
	for line := range strings.Lines(strings.TrimPrefix(text, "\ufeff")) {
		line = trimTrailing(strings.TrimRight(line, "\r\n"))
		if line == "" || line[0] == '#' {
			continue
		}
		var p pattern
		if line[0] == '!' {
			p.negated, line = true, line[1:]
		}
		if strings.HasSuffix(line, "/") {
			p.folders, line = true, strings.TrimSuffix(line, "/")
		}
		if line == "" {
			continue
		}
		p.anchored = strings.Contains(line, "/")
		line = strings.TrimPrefix(line, "/")
		switch {
		case !strings.ContainsAny(line, `*?[\`):
			p.literal = line
		case !p.anchored && line[0] == '*' && !strings.ContainsAny(line[1:], `*?[\`) && len(line) > 1:
			p.suffix = line[1:]
		default:
			expression, err := regexp.Compile(expressionOf(line))
			if err != nil {
				continue
			}
			p.expression = expression
		}
		out = append(out, p)
	}
	return out
}

// trimTrailing removes trailing spaces that are not escaped.
func trimTrailing(line string) string {
	for strings.HasSuffix(line, " ") && !strings.HasSuffix(line, `\ `) {
		line = line[:len(line)-1]
	}
	return line
}

// expressionOf translates a glob into a regular expression over a
// slash-separated path.
func expressionOf(glob string) string {
	var out strings.Builder
	out.WriteString("^")
	for i := 0; i < len(glob); {
		rest := glob[i:]
		switch {
		case strings.HasPrefix(rest, "**/") && (i == 0 || glob[i-1] == '/'):
			out.WriteString("(?:.*/)?")
			i += 3
		case rest == "**" && i > 0 && glob[i-1] == '/':
			out.WriteString(".+")
			i += 2
		case rest[0] == '*':
			out.WriteString("[^/]*")
			i++
		case rest[0] == '?':
			out.WriteString("[^/]")
			i++
		case rest[0] == '[':
			class, n := classOf(rest)
			out.WriteString(class)
			i += n
		case rest[0] == '\\' && len(rest) > 1:
			out.WriteString(regexp.QuoteMeta(rest[1:2]))
			i += 2
		default:
			out.WriteString(regexp.QuoteMeta(rest[:1]))
			i++
		}
	}
	out.WriteString("$")
	return out.String()
}

// classOf translates "[...]" and returns how long it is in the glob; a bracket
// that is never closed is itself.
func classOf(rest string) (string, int) {
	start := 1
	if len(rest) > 1 && (rest[1] == '!' || rest[1] == '^') {
		start = 2
	}
	length := strings.IndexByte(rest[min(start+1, len(rest)):], ']')
	if length < 0 {
		return `\[`, 1
	}
	end := start + 1 + length
	body := strings.ReplaceAll(rest[start:end], `[`, `\[`)
	if strings.HasPrefix(body, "]") {
		body = `\` + body
	}
	if start == 2 {
		return "[^/" + body + "]", end + 1
	}
	return "[" + body + "]", end + 1
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
