package address

import (
	"path"
	"strings"
)

// IsPattern reports whether a path holds anything that stands for other
// characters.
func IsPattern(path string) bool {
	for i := 0; i < len(path); i++ {
		switch path[i] {
		case '\\':
			i++
		case '*', '?', '[':
			return true
		}
	}
	return false
}

// Literal is a path that is no pattern, without its backslashes.
func Literal(pattern string) string {
	var text strings.Builder
	for i := 0; i < len(pattern); i++ {
		if pattern[i] == '\\' && i+1 < len(pattern) {
			i++
		}
		text.WriteByte(pattern[i])
	}
	return text.String()
}

// Base is the folder in which everything is that matches a pattern: what comes
// before its first name that stands for others; empty: the top.
func Base(pattern string) string {
	names := strings.Split(pattern, "/")
	fixed := 0
	for fixed < len(names)-1 && !IsPattern(names[fixed]) {
		fixed++
	}
	return Literal(strings.Join(names[:fixed], "/"))
}

// Inside is the pattern of everything in the folder that a path names, which is no
// pattern itself. The store takes a path for its folder only where nothing in it
// has to be taken literally.
func Inside(path string) string {
	if strings.Contains(path, `\`) {
		return path + "/**"
	}
	return path
}

// checkPattern reports a pattern that cannot be read.
func checkPattern(pattern string) error {
	for name := range strings.SplitSeq(pattern, "/") {
		if _, err := path.Match(name, ""); err != nil {
			return problem("the pattern " + name + " cannot be read: a [ needs its ], and a backslash something after it")
		}
	}
	return nil
}
