package license

import (
	"fmt"
	"slices"

	"github.com/google/licensecheck"
)

// enough is how much of a licence's file, in percent, must be words of known
// licences. What is left are names and years, or a heading.
const enough = 75

// identify returns the licences in the notices of a module. Those files that are no
// licence (NOTICE, PATENTS, COPYRIGHT) need not be known.
func identify(m Module) ([]string, error) {
	var found []string
	for _, notice := range m.Notices {
		covered := licensecheck.Scan([]byte(notice.Text))
		if covered.Percent < enough {
			continue
		}
		for _, match := range covered.Match {
			if !match.IsURL && !slices.Contains(found, match.ID) {
				found = append(found, match.ID)
			}
		}
	}
	slices.Sort(found)
	if len(found) == 0 {
		return nil, fmt.Errorf("the module %s %s has no licence that is known: look at its files, and do without it if it has none", m.Path, m.Version)
	}
	return found, nil
}
