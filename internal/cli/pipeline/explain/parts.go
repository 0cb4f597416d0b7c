package explain

import (
	"fmt"
	"maps"
	"slices"
)

// parts are the lines about what a stage's recipe is made of and what it computed.
func parts(e *Explained) string {
	out := ""
	for _, name := range slices.Sorted(maps.Keys(e.Parts)) {
		out += fmt.Sprintf("    %s: %s\n", name, e.Parts[name])
	}
	for i := range e.Computed {
		r := &e.Computed[i]
		how := fmt.Sprintf("computed in %.2f s", r.Seconds)
		if r.Error != "" {
			how = "failed: " + r.Error
		}
		out += fmt.Sprintf("    %s  %s\n", r.Datum, how)
	}
	return out
}
