package estimate

// Basis is what an estimate rests on.
type Basis string

// The bases, the firmest first.
const (
	// BasisProgress: how far the work reports that it is.
	BasisProgress Basis = "progress"
	// BasisDeclared: what the owner declared, read by what declarations came to.
	BasisDeclared Basis = "declared"
	// BasisHistory: what like work took before.
	BasisHistory Basis = "history"
	// BasisLimit: the time limit.
	BasisLimit Basis = "limit"
	// BasisGuess: nothing is known.
	BasisGuess Basis = "guess"
)

// Basis says what an estimate from this evidence rests on.
func (b *Book) Basis(e Evidence) Basis {
	if c, ok := e.Reports.claim(); ok && c.weight >= earlyWeight/2 {
		return BasisProgress
	}
	switch {
	case e.Declared > 0:
		return BasisDeclared
	case e.Limit > 0:
		for _, group := range e.Like {
			if d := b.ratios[group]; d != nil && d.ratios.n >= prior {
				return BasisHistory
			}
		}
		return BasisLimit
	}
	for _, group := range e.Like {
		if c := b.times[group]; c != nil && c.n > 0 {
			return BasisHistory
		}
	}
	return BasisGuess
}
