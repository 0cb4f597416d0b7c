package explanation

import (
	"fmt"
	"strings"

	"github.com/muster-dev/muster/internal/scheduling"
)

// codeNotReady is the code of the advice to make nodes ready again.
const codeNotReady = "NodeNotReady"

// returning advises to make nodes ready again if they have the GPUs that are missing: nothing of
// the request is wrong then.
func returning(why scheduling.Reason) []Advice {
	var need, have int64
	var withheld []scheduling.Withheld
	alone := false // each node needs enough by itself
	switch r := why.(type) {
	case scheduling.TooLarge:
		need, have, withheld, alone = r.Need, r.Have, r.Withheld, r.Role != ""
	case scheduling.ShortOfGPUs:
		need, have, withheld = int64(r.Need), int64(r.Free), r.Withheld
	}
	var nodes []string
	for _, w := range withheld {
		switch {
		case w.NotReady == "" || alone && int64(w.Count) < need:
			continue
		case alone:
			have = need
		}
		have += int64(w.Count)
		nodes = append(nodes, w.Node)
	}
	switch {
	case len(nodes) == 0 || have < need:
		return nil
	case len(nodes) == 1:
		return []Advice{{Code: codeNotReady, Text: fmt.Sprintf("make node %s ready again: it has the missing GPUs", nodes[0])}}
	case alone:
		return []Advice{{Code: codeNotReady, Text: "make one of these nodes ready again, each has the missing GPUs: " + named(nodes)}}
	}
	return []Advice{{Code: codeNotReady, Text: "make these nodes ready again, they have the missing GPUs: " + named(nodes)}}
}

// named lists the first four.
func named(nodes []string) string {
	const most = 4
	if len(nodes) <= most {
		return strings.Join(nodes, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(nodes[:most], ", "), len(nodes)-most)
}
