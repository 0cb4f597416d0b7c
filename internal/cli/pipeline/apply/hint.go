package apply

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/muster-dev/muster/internal/osfile"
)

// mostScript limits the part of a script that is searched for imports, in bytes.
const mostScript = 1 << 20

// imported finds the modules that a line of Python imports.
var imported = regexp.MustCompile(`(?m)^[ \t]*(?:from[ \t]+([A-Za-z_][A-Za-z0-9_]*)|import[ \t]+([A-Za-z_][A-Za-z0-9_., \t]*))`)

// beside returns the files and folders beside a script that the script imports. A script that
// cannot be read imports none: storing it returns the error.
func beside(script string) []string {
	folder, err := os.OpenRoot(filepath.Dir(script))
	if err != nil {
		return nil
	}
	defer func() { _ = folder.Close() }()
	text, err := osfile.ReadRegular(folder, filepath.Base(script), mostScript)
	if err != nil {
		return nil
	}
	var found []string
	for _, match := range imported.FindAllStringSubmatch(string(text), -1) {
		for name := range strings.SplitSeq(match[1]+match[2], ",") {
			name = strings.TrimSpace(name)
			if end := strings.IndexAny(name, ". \t"); end >= 0 {
				name = name[:end]
			}
			if name == "" {
				continue
			}
			for _, at := range []string{name + ".py", filepath.Join(name, "__init__.py")} {
				if info, err := folder.Stat(at); err == nil && info.Mode().IsRegular() && at != filepath.Base(script) && !slices.Contains(found, at) {
					found = append(found, at)
				}
			}
		}
	}
	slices.Sort(found)
	return found
}

// hint prints a hint if a stage's code is one script that imports files beside it: they are not
// part of the code.
func (o *options) hint(stage any, folder, script string) error {
	found := beside(filepath.Join(folder, script))
	if len(found) == 0 {
		return nil
	}
	_, err := fmt.Fprintf(o.factory.Streams.Err, "hint: stage %v: %s imports %s, and its code is that one file: give `code: %s` to take the folder along\n",
		stage, script, strings.Join(found, ", "), filepath.Dir(script))
	return err
}
