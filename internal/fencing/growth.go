package fencing

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// String is the number as the name of a Placement and the status of a gang hold
// it: "<epoch>-<number>".
func (g Growth) String() string { return fmt.Sprintf("%d-%d", g.Epoch, g.Number) }

// ParseGrowth returns what [Growth.String] has written; the zero Growth for
// anything else.
func ParseGrowth(text string) Growth {
	first, second, _ := strings.Cut(text, "-")
	epoch, err := strconv.ParseInt(first, 10, 64)
	if err != nil || epoch < 0 {
		return Growth{}
	}
	number, err := strconv.ParseInt(second, 10, 64)
	if err != nil || number < 0 {
		return Growth{}
	}
	return Growth{epoch, number}
}

// GrowthOf is the number of the Placement of a further replica, by its name; the
// zero Growth where the scheduler that planned it has not named it so.
func GrowthOf(p *v1alpha1.Placement) Growth {
	g := ParseGrowth(p.Name[strings.LastIndexByte(p.Name, '.')+1:])
	if g.Epoch != p.Spec.Epoch {
		return Growth{}
	}
	return g
}
