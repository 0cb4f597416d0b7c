package address

import (
	"path"
	"strings"

	"github.com/muster-dev/muster/internal/data/glob"
)

// IsPattern reports whether a path holds anything that stands for other
// characters.
func IsPattern(path string) bool { return glob.IsPattern(path) }

// Literal is a path that is no pattern, without its backslashes.
func Literal(pattern string) string { return glob.Literal(pattern) }

// Base is the folder in which everything is that matches a pattern; see [glob.Base].
func Base(pattern string) string { return glob.Base(pattern) }

// Inside is the pattern of everything in the folder that a path names; see
// [glob.Inside].
func Inside(path string) string { return glob.Inside(path) }

// checkPattern reports a pattern that cannot be read.
func checkPattern(pattern string) error {
	for name := range strings.SplitSeq(pattern, "/") {
		if _, err := path.Match(name, ""); err != nil {
			return problem("the pattern " + name + " cannot be read: a [ needs its ], and a backslash something after it")
		}
	}
	return nil
}
