package address

import (
	"path"
	"regexp"
	"strconv"
	"strings"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/exit"
)

// The longest path, and the longest name in one, in bytes: what Linux takes.
const (
	MaxPath = 4095
	MaxName = 255
)

// maxBack is the furthest that ~N reaches back.
const maxBack = 1_000_000

// Address names a dataset, a version of it, and a path in that version.
type Address struct {
	// Dataset is the object's name.
	Dataset string
	// Version is a branch, a tag, a commit or the first digits of one; empty
	// where none was given: [v1alpha1.DefaultBranch].
	Version string
	// Back is how many commits before the version is meant.
	Back int
	// Path is slash-separated, clean, and has no slash at either end; empty for
	// everything. It may be a pattern, and has its backslashes.
	Path string
	// HasPath says that a path was given, if only "/".
	HasPath bool
	// Folder says that the path was given with a slash at its end: a folder is
	// meant.
	Folder bool
}

var (
	datasetName = regexp.MustCompile(`^[a-z0-9][-a-z0-9]{1,61}[a-z0-9]$`)
	refName     = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`)
	commitName  = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// shape is what an address looks like, for messages.
const shape = "give DATASET[@BRANCH][:PATH], such as digits, digits@main or digits@v1:/train/0.png"

// Parse reads an address. An error is of exit code 2 and says what is allowed.
func Parse(text string) (Address, error) {
	var a Address
	name, where, hasPath := strings.Cut(text, ":")
	name, version, hasVersion := strings.Cut(name, "@")
	if err := CheckDataset(name); err != nil {
		return a, exit.Usage("%q: %w; %s", text, err, shape)
	}
	a.Dataset = name
	if hasVersion {
		if err := a.setVersion(version); err != nil {
			return a, exit.Usage("%q: %w", text, err)
		}
	}
	if hasPath {
		a.HasPath, a.Folder = true, strings.HasSuffix(where, "/")
		clean, err := CleanPath(where)
		if err == nil {
			err = checkPattern(clean)
		}
		if err != nil {
			return a, exit.Usage("%q: %w", text, err)
		}
		a.Path = clean
	}
	return a, nil
}

// ParseBare reads an address that may name no path: for commands that are
// about versions as a whole.
func ParseBare(text string) (Address, error) {
	a, err := Parse(text)
	if err == nil && a.HasPath {
		return a, exit.Usage("%q: this command is about whole versions: leave out what comes after the colon", text)
	}
	return a, err
}

// ParseBranch reads an address that new commits are to go to: its version, if
// it names one, has to be a branch.
func ParseBranch(text string) (Address, error) {
	a, err := Parse(text)
	if err != nil {
		return a, err
	}
	if a.Back > 0 || commitName.MatchString(a.Version) {
		return a, exit.Usage("%q: a commit cannot be changed; give a branch, such as %s@%s", text, a.Dataset, v1alpha1.DefaultBranch)
	}
	return a, nil
}

// setVersion reads what comes after the @.
func (a *Address) setVersion(text string) error {
	version, back, hasBack := strings.Cut(text, "~")
	if hasBack {
		count, err := strconv.Atoi(back)
		if back == "" {
			count, err = 1, nil
		}
		if err != nil || count < 0 || count > maxBack {
			return problem("what comes after ~ is how many commits before: give a whole number, such as ~1")
		}
		a.Back = count
	}
	if !commitName.MatchString(version) && !refName.MatchString(version) {
		return problem("after @ comes a branch, a tag or a commit: up to 63 letters, digits, '.', '_' and '-', or the 64 digits of a commit")
	}
	a.Version = version
	return nil
}

// problem is an error of words alone.
type problem string

func (p problem) Error() string { return string(p) }

// CheckDataset reports what is wrong with a dataset's name.
func CheckDataset(name string) error {
	switch {
	case name == "":
		return problem("the name of a dataset is missing")
	case !datasetName.MatchString(name):
		return problem(strconv.Quote(name) + " is no name for a dataset: it has 3 to 63 lower-case letters, digits and '-'")
	}
	return nil
}

// CheckRef reports what is wrong with the name of a new branch or tag, kind
// says which.
func CheckRef(kind, name string) error {
	if !refName.MatchString(name) {
		return exit.Usage("%q is no name for a %s: give up to 63 letters, digits, '.', '_' and '-', beginning and ending with a letter or digit", name, kind)
	}
	return nil
}

// CleanPath returns a path without superfluous slashes, relative to the top.
// It refuses what could lead out of it and what no file system takes.
func CleanPath(given string) (string, error) {
	if len(given) > MaxPath {
		return "", problem("the path has " + strconv.Itoa(len(given)) + " bytes; at most " + strconv.Itoa(MaxPath) + " are allowed")
	}
	for name := range strings.SplitSeq(given, "/") {
		switch {
		case name == "..":
			return "", problem("a path must not hold \"..\": give it from the top of the dataset")
		case len(name) > MaxName:
			return "", problem("a name in the path has " + strconv.Itoa(len(name)) + " bytes; at most " + strconv.Itoa(MaxName) + " are allowed")
		case strings.ContainsRune(name, 0):
			return "", problem("a path must not hold the character NUL")
		}
	}
	return strings.Trim(path.Clean("/"+given), "/"), nil
}

// Branch is the version as a branch: main where none was given.
func (a Address) Branch() string {
	if a.Version == "" {
		return v1alpha1.DefaultBranch
	}
	return a.Version
}

// Revision is the version with what ~N adds, as it is typed: "main~1".
func (a Address) Revision() string {
	if a.Back == 0 {
		return a.Branch()
	}
	return a.Branch() + "~" + strconv.Itoa(a.Back)
}

// String is the address in full: "digits@main:/train".
func (a Address) String() string {
	text := a.Dataset + "@" + a.Revision()
	if a.HasPath || a.Path != "" {
		text += ":/" + a.Path
	}
	return text
}
