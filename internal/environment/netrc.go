//go:build linux

package environment

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/muster-dev/muster/internal/environment/confinement"
)

// copyNetrc gives the installer the passwords of its indexes, as ~/.netrc of the build,
// which ends with the build. It runs before all programs of the build.
func (b *build) copyNetrc(ctx context.Context) error {
	if b.secret == "" {
		return nil
	}
	if b.netrc == nil {
		return fmt.Errorf("the Secret %s cannot be read here; leave indexSecret out", b.secret)
	}
	text, err := b.netrc(ctx, b.secret)
	if err != nil {
		return err
	}
	b.hide = hider(text)
	home := filepath.Join(b.scratch(), confinement.HomeFolder)
	if err := os.MkdirAll(home, 0o700); err != nil {
		return fmt.Errorf("writing the netrc of the build: %w", full(err))
	}
	if err := os.WriteFile(filepath.Join(home, ".netrc"), []byte(text), 0o600); err != nil {
		return fmt.Errorf("writing the netrc of the build: %w", full(err))
	}
	return nil // makeFolders gives the folder away
}

// shortestHidden is the length of the shortest password that is taken out of texts: a
// shorter one would take out parts of words.
const shortestHidden = 4

var (
	// netrcWord is a word of a netrc. One in quotation marks may have spaces.
	netrcWord = regexp.MustCompile(`"(?:\\.|[^"\\\n])*"|\S+`)
	escaped   = regexp.MustCompile(`\\(.)`)
)

// hider takes the passwords of a netrc out of texts: a package may print them.
func hider(netrc string) *strings.Replacer {
	var passwords []string
	words := netrcWord.FindAllString(netrc, -1)
	for i := 1; i < len(words); i++ {
		if words[i-1] == "password" || words[i-1] == "account" {
			plain := strings.Trim(words[i], `"`)
			passwords = append(passwords, words[i], plain, escaped.ReplaceAllString(plain, "$1"))
		}
	}
	// The longest come first: another password may be the beginning of one.
	slices.SortFunc(passwords, func(a, b string) int { return len(b) - len(a) })
	var pairs []string
	for _, word := range passwords {
		if len(word) >= shortestHidden {
			pairs = append(pairs, word, "****")
		}
	}
	return strings.NewReplacer(pairs...)
}
