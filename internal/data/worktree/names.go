package worktree

import (
	"crypto/rand"
	"fmt"
	"os"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// NameError reports a path that no checkout can write to this folder.
type NameError struct{ text string }

// Error implements error.
func (e *NameError) Error() string { return e.text }

// names finds paths that are one for a file system that ignores case or forms of characters. Of two
// such paths the second would silently replace the first.
type names struct {
	// folds is true if the file system does that. Only then names are kept.
	folds bool
	seen  map[string]string
}

// probe reports whether the file system of the folder ignores case, by a file that it makes there. No
// known file system ignores forms of characters alone. In a folder that cannot be written to the
// result is false: nothing can be replaced there.
func (w *Worktree) probe() bool {
	id := strings.ToLower(rand.Text()) // another checkout may be in the same folder
	lower, upper := reserved+"probe-"+id, reserved+"PROBE-"+strings.ToUpper(id)
	file, err := w.root.OpenFile(lower, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return false
	}
	_, err = w.root.Lstat(upper)
	_, _ = file.Close(), w.root.Remove(lower) // another checkout may have removed it
	return err == nil
}

// take notes a path and the folders above it. It returns an error if one of them is, for the file
// system, another one that was noted.
func (n *names) take(path string) error {
	if !n.folds {
		return nil
	}
	if n.seen == nil {
		n.seen = map[string]string{}
	}
	for end := len(path); end > 0; end = max(strings.LastIndexByte(path[:end], '/'), 0) {
		name := path[:end]
		folded := Fold(name)
		found, ok := n.seen[folded]
		switch {
		case !ok:
			n.seen[folded] = name
		case found == name && end < len(path):
			return nil // so are the folders above it
		case found != name:
			return &NameError{fmt.Sprintf("%q and %q are one name for this file system: check out on another file system, or rename one", found, name)}
		}
	}
	return nil
}

// Fold returns the same for names that a file system which ignores case and forms takes for one.
func Fold(name string) string {
	return strings.Map(func(r rune) rune {
		least := r
		for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
			least = min(least, f)
		}
		return least
	}, norm.NFD.String(name))
}
