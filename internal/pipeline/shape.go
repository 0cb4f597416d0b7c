package pipeline

import (
	"slices"

	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/pipeline/glob"
)

// Shape names how a stage's input is cut into datums, and whose results count: what
// its state depends on beside trees and recipe.
func (s *Stage) Shape() digest.ID {
	h := newHash("shape")
	s.input.shape(h)
	for _, key := range slices.Sorted(slices.Values(s.Spec.AcceptKeys)) {
		h.text(key)
	}
	return h.sum()
}

func (n *node) shape(h *hash) {
	h.number(uint64(n.how))
	h.number(uint64(len(n.parts)))
	if s := n.source; s != nil {
		h.text(s.Name)
		h.text(s.Glob.String())
		for _, t := range []*glob.Template{s.joinOn, s.groupBy} {
			if t != nil {
				h.text("$" + t.String())
			} else {
				h.text("")
			}
		}
		if s.outer {
			h.number(1)
		} else {
			h.number(0)
		}
	}
	for _, part := range n.parts {
		part.shape(h)
	}
}
