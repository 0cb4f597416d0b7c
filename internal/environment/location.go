package environment

import (
	"fmt"
	"net/url"
	"path"
	"regexp"
	"strings"
)

// web are the schemes of addresses from which packages come.
var web = map[string]bool{"http": true, "https": true}

var (
	// plainAddress has no character that shlex, the requirements file or a marker
	// gives a meaning to.
	plainAddress = regexp.MustCompile(`^[A-Za-z0-9._~:/?#\[\]@!$&()*+,=%-]+$`)
	// revision is a branch, tag or commit. git takes a text that begins with a
	// dash for an option.
	revision = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/+-]*$`)
	// anchor is one part of an address behind "#".
	anchor = regexp.MustCompile(`^(egg=[A-Za-z0-9._-]+(\[[A-Za-z0-9._,-]*\])?|(md5|sha1|sha224|sha256|sha384|sha512)=[0-9A-Fa-f]+|subdirectory=[A-Za-z0-9._/-]+)$`)
)

// checkAddress checks an address on the network: of an index, or, where it may
// be one of a package, of a file or of a repository (git+https://...).
func checkAddress(text string, ofPackage bool) error {
	named, _, found := strings.Cut(text, "://")
	scheme, git := strings.CutPrefix(strings.ToLower(named), "git+")
	switch {
	case !found || git && !ofPackage:
		return fmt.Errorf("%q is no address; give one that begins with http:// or https://", Mask(text))
	case !web[scheme]:
		return fmt.Errorf("addresses that begin with %s:// are not allowed; give one that begins with http://, https://, git+http:// or git+https://", named)
	case !plainAddress.MatchString(text):
		return fmt.Errorf("the address %q has characters that are not allowed; write them with %%, such as %%22", Mask(text))
	}
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || strings.HasPrefix(u.Hostname(), "-") || strings.ContainsAny(u.Path+u.RawQuery, "[]") {
		return fmt.Errorf("the address %q names no host", Mask(text))
	}
	if git {
		// pip takes the text behind the last "@" of the path for the revision.
		if i := strings.LastIndexByte(u.EscapedPath(), '@'); i >= 0 && !revision.MatchString(u.EscapedPath()[i+1:]) {
			return fmt.Errorf("the address %q names no branch, tag or commit behind \"@\"", Mask(text))
		}
	}
	_, fragment, _ := strings.Cut(text, "#")
	return checkFragment(fragment)
}

// checkFragment checks the part of an address behind "#". A subdirectory outside of the
// fetched package would be a folder of the machine that builds.
func checkFragment(fragment string) error {
	for part := range strings.SplitSeq(fragment, "&") {
		folder, found := strings.CutPrefix(part, "subdirectory=")
		switch {
		case part == "":
		case !anchor.MatchString(part):
			return fmt.Errorf("%q behind \"#\" is not allowed; allowed are egg=NAME, subdirectory=FOLDER and hashes such as sha256=HEX", part)
		case found && (path.IsAbs(folder) || path.Clean("/"+folder) != "/"+path.Clean(folder)):
			return fmt.Errorf("the subdirectory %q leads out of the package", folder)
		}
	}
	return nil
}
