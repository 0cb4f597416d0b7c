//go:build linux

package environment

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"unicode"
)

// allowedOptions are the lines of a requirements file, other than
// requirements, that say where and how packages are found. Every other option
// reaches for files that lie beside the requirements, or changes what the
// installer does.
var allowedOptions = map[string]bool{
	"-i": true, "--index-url": true, "--pypi-url": true, "--extra-index-url": true,
	"--no-index": true, "-f": true, "--find-links": true,
	"--no-binary": true, "--only-binary": true, "--prefer-binary": true,
	"--require-hashes": true, "--pre": true, "--trusted-host": true, "--use-feature": true,
}

// Normalise reads a requirements file and returns what matters in it: one
// requirement or option a line, in order (the order of indexes counts),
// without comments and with single spaces. It refuses lines that refer to
// files.
func Normalise(text string) (string, error) {
	text = strings.TrimPrefix(text, "\ufeff")
	text = strings.ReplaceAll(text, "\r\n", "\n")
	var out strings.Builder
	number, joined := 0, ""
	for line := range strings.SplitSeq(text, "\n") {
		number++
		if strings.HasSuffix(line, `\`) && !strings.HasPrefix(strings.TrimSpace(line), "#") {
			joined += strings.TrimSuffix(line, `\`) + " "
			continue
		}
		line = clean(joined + line)
		joined = ""
		if line == "" {
			continue
		}
		if strings.ContainsFunc(line, unicode.IsControl) {
			// Python ends lines at \x1c, \x1d and \x1e, too.
			return "", fmt.Errorf("requirements, line %d: %q has a control character: remove it", number, Mask(line))
		}
		if strings.HasSuffix(line, `\`) {
			// The installer would join it with the next one, after both were checked.
			return "", fmt.Errorf("requirements, line %d: %q ends in a backslash before blanks or a comment: remove them if the line goes on, or else the backslash", number, Mask(line))
		}
		if err := checkLine(line); err != nil {
			return "", fmt.Errorf("requirements, line %d: %w", number, err)
		}
		out.WriteString(line + "\n")
	}
	if line := clean(joined); line != "" {
		return "", fmt.Errorf("requirements, line %d: the last line ends in a backslash, so it goes on, but nothing follows", number)
	}
	return out.String(), nil
}

var comment = regexp.MustCompile(`(^|\s+)#.*$`)

func clean(line string) string {
	return strings.Join(strings.Fields(comment.ReplaceAllString(line, "")), " ")
}

// checkLine refuses a line that does not mean the same everywhere.
func checkLine(line string) error {
	const advice = "the environment is built from the text alone; name a package of an index, or put your own modules into the code folder, which is on Python's path"
	if strings.HasPrefix(line, "-") {
		name := line
		if i := strings.IndexAny(line, " ="); i >= 0 {
			name = line[:i]
		}
		value := strings.TrimLeft(line[len(name):], " =")
		short := name
		if len(line) > 2 && line[1] != '-' { // -rother.txt, -ihttps://...
			short, value = line[:2], strings.TrimLeft(line[2:], " =")
		}
		switch {
		case short == "-e" || name == "--editable":
			return fmt.Errorf("%q installs from a folder; %s", Mask(line), advice)
		case short == "-r" || name == "--requirement":
			return fmt.Errorf("%q includes another file; copy its lines here", Mask(line))
		case short == "-c" || name == "--constraint":
			return fmt.Errorf("%q reads another file; write the versions here", Mask(line))
		case !allowedOptions[short]:
			return fmt.Errorf("the option %q is not allowed here; allowed are --index-url, --extra-index-url, --find-links, --no-index, --trusted-host, --no-binary, --only-binary, --prefer-binary, --pre, --require-hashes and --use-feature", name)
		case (short == "-f" || name == "--find-links") && !remote(value):
			return fmt.Errorf("%q refers to a folder; only http:// and https:// addresses mean the same on every machine", Mask(line))
		}
		return nil
	}
	target := line
	if _, after, found := strings.Cut(line, " @ "); found {
		target = after
	} else if i := strings.Index(line, "@"); i > 0 && !strings.Contains(line[:i], ":") && strings.Contains(line[i:], ":") {
		target = strings.TrimSpace(line[i+1:])
	}
	if remote(target) {
		return nil
	}
	lower := strings.ToLower(strings.TrimSpace(strings.SplitN(target, ";", 2)[0]))
	switch {
	case strings.Contains(lower, "file:"), strings.HasPrefix(lower, "."), strings.HasPrefix(lower, "/"), strings.HasPrefix(lower, "~"),
		strings.Contains(lower, "/") && !strings.Contains(lower, "://"),
		strings.HasSuffix(lower, ".whl"), strings.HasSuffix(lower, ".tar.gz"), strings.HasSuffix(lower, ".zip"):
		return fmt.Errorf("%q refers to a file; %s", Mask(line), advice)
	}
	return nil
}

// remote reports whether the text is an address on the network, of a file or
// of a repository (git+https://...).
func remote(text string) bool {
	scheme, _, ok := strings.Cut(text, "://")
	if !ok {
		return false
	}
	scheme = strings.ToLower(scheme)
	if i := strings.LastIndexByte(scheme, '+'); i >= 0 {
		scheme = scheme[i+1:]
	}
	return scheme == "http" || scheme == "https" || scheme == "ssh"
}

var address = regexp.MustCompile(`[a-zA-Z][a-zA-Z0-9+.-]*://[^\s'"]+`)

// Mask takes passwords and tokens out of the addresses in a text, so that it
// may be logged and shown.
func Mask(text string) string {
	return address.ReplaceAllStringFunc(text, func(found string) string {
		u, err := url.Parse(found)
		if err != nil {
			scheme, rest, _ := strings.Cut(found, "://")
			if i := strings.LastIndexByte(rest, '@'); i >= 0 {
				return scheme + "://****" + rest[i:]
			}
			return found
		}
		if u.User == nil {
			return found
		}
		scheme, rest, _ := strings.Cut(found, "://")
		host := rest
		if i := strings.IndexAny(rest, "/?#"); i >= 0 {
			host = rest[:i]
		}
		// A password may have an @ in it.
		return scheme + "://****" + rest[strings.LastIndexByte(host, '@'):]
	})
}
