//go:build !linux

package cli

import "github.com/muster-dev/muster/internal/cli/absent"

// verbsOfSystem stand in for those that only run on Linux, by group.
var verbsOfSystem = map[string][]Verb{
	"cluster": {absent.New("serve", "Run Muster's manager on a cluster")},
	"other":   {absent.New("prune", "Remove what Muster keeps and needs no longer")},
}
