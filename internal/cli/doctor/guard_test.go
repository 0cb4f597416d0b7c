//go:build linux

package doctor

import (
	"strings"
	"testing"
)

func TestUnguarded(t *testing.T) {
	for name, c := range map[string]struct {
		able    bool
		last    string
		root    bool
		verdict Verdict
		says    string
	}{
		"possible":          {able: true, root: true, verdict: Good, says: "muster up --guard"},
		"asked for":         {last: "gpus", root: true, verdict: Limited, says: "the last start had --guard=gpus: no reason"},
		"root without":      {root: true, verdict: Good, says: "not possible here: no reason"},
		"user, nothing":     {},
		"user, asked for":   {last: "compute", verdict: Limited, says: "--guard=compute"},
		"possible for user": {able: true, verdict: Good, says: "none: programs outside of Muster can open the GPUs"},
	} {
		got := unguarded(c.able, "no reason", c.last, c.root)
		if c.says == "" {
			if len(got) > 0 {
				t.Errorf("%s: %+v", name, got)
			}
			continue
		}
		if len(got) != 1 || got[0].Verdict != c.verdict || !strings.Contains(got[0].Says, c.says) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
