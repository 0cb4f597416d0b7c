package license

import (
	"fmt"
	"path"
	"slices"

	"github.com/google/licensecheck"
)

// enough is how much of a licence's file, in percent, must be words of known
// licences. What is left are names and years, or a heading.
const enough = 75

// identify returns the licences in the notices of a module. What is called NOTICE,
// PATENTS or COPYRIGHT need not be a licence.
func identify(m Module) ([]string, error) {
	var found []string
	for _, notice := range m.Notices {
		covered := licensecheck.Scan([]byte(notice.Text))
		if covered.Percent < enough {
			if slices.Contains(besideLicences, firstWord(path.Base(notice.Name))) {
				continue
			}
			return nil, fmt.Errorf("the module %s %s has a licence in %s that is not known (%.0f%% of it are words of known ones): read it, and do without the module or teach this program", m.Path, m.Version, notice.Name, covered.Percent)
		}
		for _, match := range covered.Match {
			if !match.IsURL && !slices.Contains(found, match.ID) {
				found = append(found, match.ID)
			}
		}
	}
	slices.Sort(found)
	if len(found) == 0 {
		return nil, fmt.Errorf("the module %s %s has no licence: do without it", m.Path, m.Version)
	}
	return found, nil
}
