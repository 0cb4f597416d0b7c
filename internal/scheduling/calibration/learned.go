package calibration

// Ratios are the counts of one category; -1 stands for any.
type Ratios struct {
	Size   int `json:"size"`
	Length int `json:"length"`
	Ahead  int `json:"ahead"`
	// Counts are by bucket of the ratio's logarithm. A bucket is a fifth of a doubling
	// wide, and the middle bucket is the ratio one.
	Counts map[int]float64 `json:"counts"`
}

// Drift returns the correction of the margin: a part of the probability. A positive
// drift widens ranges.
func (t *Table) Drift() float64 { return t.drift }

// Learned returns the counts.
func (t *Table) Learned() (out []Ratios) {
	t.each(func(size, length, ahead int, r *ratios) {
		counts := map[int]float64{}
		for i, w := range r.w {
			if w > 0 {
				counts[i] = w
			}
		}
		if len(counts) > 0 {
			out = append(out, Ratios{Size: size, Length: length, Ahead: ahead, Counts: counts})
		}
	})
	return out
}

// each visits all ratios, in a fixed order.
func (t *Table) each(visit func(size, length, ahead int, r *ratios)) {
	visit(-1, -1, -1, &t.all)
	for s := range t.kin {
		for l := range t.kin[s] {
			visit(s, l, -1, &t.kin[s][l])
			for a := range t.alike[s][l] {
				visit(s, l, a, &t.alike[s][l][a])
			}
		}
	}
}

// New returns a Table with the drift and the counts of an earlier one. It ignores
// unknown categories and counts out of range.
func New(drift float64, learned []Ratios) Table {
	t := Table{drift: min(drifts, max(-drifts, drift))}
	t.each(func(size, length, ahead int, r *ratios) {
		for _, l := range learned {
			if l.Size != size || l.Length != length || l.Ahead != ahead {
				continue
			}
			for i := range r.w {
				if w := l.Counts[i]; w > 0 && w <= 2*fades {
					r.w[i] = w
					r.n += w
				}
			}
		}
	})
	return t
}
