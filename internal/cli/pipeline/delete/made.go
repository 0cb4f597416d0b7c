package delete

import "strings"

// madeBy says whether a commit's message has the identity of a run.
func madeBy(message, identity string) bool {
	for line := range strings.Lines(message) {
		if strings.TrimSpace(line) == "Identity: "+identity {
			return true
		}
	}
	return false
}
