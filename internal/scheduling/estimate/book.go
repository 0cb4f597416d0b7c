package estimate

// Evidence is what is known of a piece of work before it ends. Zero values
// mean "not known".
type Evidence struct {
	// Like names groups of like work, the most specific first: a user's jobs
	// of that name and size, the user's jobs, the queue's jobs.
	Like []string
	// Declared is how long its owner says it will run.
	Declared Span
	// Limit is after how long it is stopped, whatever it does.
	Limit Span
	// Reports are how far it said that it is, in its present attempt, or in the
	// last one while it waits.
	Reports Reports
}

// said is what the owner said of the run time, and whether anything.
func (e Evidence) said() (Span, bool) {
	switch {
	case e.Declared > 0 && e.Limit > 0:
		return min(e.Declared, e.Limit), true
	case e.Declared > 0:
		return e.Declared, true
	}
	return e.Limit, e.Limit > 0
}

// How much is remembered and how strongly the wider group counts.
const (
	// memory is after how many observations of a group the old ones begin to
	// fade: counts are halved when there are twice as many.
	memory = 1000
	// prior is how many observations the next wider group is worth.
	prior = 10
	// maxGroups bounds the number of groups; further ones are not remembered.
	maxGroups = 1 << 16
)

// Book is what was learned from work that has ended. The zero value has
// learned nothing. It is used by one goroutine at a time.
type Book struct {
	times  map[string]*counts
	ratios map[string]*declarations
	all    counts
	// allSaid are the declarations of all, and bySize their ratios by how much
	// was declared: short ones are overrun, long ones are not, and some are what
	// everybody says.
	allSaid declarations
	bySize  [size]*counts
	// claims are how reports of progress came true: early ones, and settled ones.
	claims  [2]claims
	version int
}

// counts are observations by bucket.
type counts struct {
	w weights
	n float64
}

// declarations are what declarations came to: the ratios of the true run times
// to them, and how much was declared.
type declarations struct{ ratios, said counts }

func (d *declarations) add(ratio, said int) {
	d.ratios.add(ratio)
	d.said.add(said)
}

func (c *counts) add(i int) {
	c.w[i]++
	c.n++
	if c.n >= 2*memory {
		for k := range c.w {
			c.w[k] /= 2
		}
		c.n /= 2
	}
}

// over mixes the counts over a wider distribution, which sums to one.
func (c *counts) over(wide *weights) weights {
	var out weights
	total := c.n + prior
	for i := range out {
		out[i] = (c.w[i] + prior*wide[i]) / total
	}
	return out
}

// Version changes with every observation: an estimate made at the same version
// from the same evidence is the same.
func (b *Book) Version() int { return b.version }

// Observe enters work that ended by itself after having run for so long in
// all. Work that was stopped tells only that it would have run longer, and is
// not to be entered.
func (b *Book) Observe(e Evidence, ran Span) {
	if ran < 0 {
		return
	}
	b.version++
	if b.times == nil {
		b.times, b.ratios = map[string]*counts{}, map[string]*declarations{}
	}
	at := bucket(ran)
	b.all.add(at)
	for _, group := range e.Like {
		if c := remember(b.times, group); c != nil {
			c.add(at)
		}
	}
	b.observeClaims(e, ran)
	said, ok := e.said()
	if !ok {
		return
	}
	at, declared := ratioBucket(ran, said), bucket(said)
	b.allSaid.add(at, declared)
	if b.bySize[declared] == nil {
		b.bySize[declared] = &counts{}
	}
	b.bySize[declared].add(at)
	for _, group := range e.Like {
		if d := remember(b.ratios, group); d != nil {
			d.add(at, declared)
		}
	}
}

func remember[T any](groups map[string]*T, name string) *T {
	c := groups[name]
	if c == nil && len(groups) < maxGroups {
		c = new(T)
		groups[name] = c
	}
	return c
}

// unity is the bucket of a ratio of one: run times up to 2^unity/2 times
// shorter and up to 2^(size-unity)/2 times longer than declared are told
// apart.
const unity = size / 2

// ratioBucket is where a ratio of run time to declaration falls: each bucket
// is a factor of the square root of two, and bucket unity ends at one.
func ratioBucket(ran, said Span) int {
	return min(size-1, max(0, bucket(ran)-bucket(said)+unity))
}

// Estimate is the distribution of the whole run time: by what the work reports
// of itself, as far as that goes, and by what is known without.
func (b *Book) Estimate(e Evidence) Estimate {
	out := b.unreported(e)
	if len(e.Reports) > 0 {
		return b.progressed(e, out)
	}
	return out
}

// unreported is the estimate without what the work reports of itself.
func (b *Book) unreported(e Evidence) Estimate {
	if said, ok := e.said(); ok {
		return b.calibrated(e, said)
	}
	wide := guess()
	w := b.all.over(&wide)
	for i := len(e.Like) - 1; i >= 0; i-- {
		if c := b.times[e.Like[i]]; c != nil {
			w = c.over(&w)
		}
	}
	return Estimate{w: w}
}

// calibrated reads a declaration by what declarations came to.
func (b *Book) calibrated(e Evidence, said Span) Estimate {
	wide := trust()
	all := b.allSaid.ratios.over(&wide)
	r, mix := all, b.allSaid.said.over(&weights{})
	for i := len(e.Like) - 1; i >= 0; i-- {
		if d := b.ratios[e.Like[i]]; d != nil {
			r, mix = d.ratios.over(&r), d.said.over(&mix)
		}
	}
	b.bySaid(&r, &mix, &all, bucket(said))
	// Shift the ratios to the declared time; what falls off the grid stays at
	// its ends, and what is beyond the limit cannot be.
	var out Estimate
	last := size - 1
	if e.Limit > 0 {
		last = bucket(e.Limit)
	}
	shift := bucket(said) - unity
	for i := range r {
		out.w[min(last, max(0, i+shift))] += r[i]
	}
	return out
}

// bySaid turns what a group's declarations come to into what those of one size
// do: by how what all of that size come to differs from what all of the sizes
// come to that the group declares, mix being how much of each. A group that
// declares but one size is taken at its own word; of one that declares like all
// others, the size decides. What few have declared tells little.
func (b *Book) bySaid(r, mix, all *weights, said int) {
	c, total := b.bySize[said], mix.sum()
	if c == nil || total <= 0 {
		return
	}
	var expected weights
	for i, of := range b.bySize {
		if of == nil || mix[i] <= 0 {
			continue
		}
		for k, x := range of.over(all) {
			expected[k] += x * mix[i] / total
		}
	}
	here, known := c.over(all), c.n/(c.n+prior)
	for k := range r {
		if expected[k] > 0 {
			r[k] *= 1 - known + known*here[k]/expected[k]
		}
	}
	*r = normalised(*r)
}

// trust is what a declaration is taken to mean before anything was learned:
// most work ends well within what was declared, by a factor of up to sixteen;
// little runs longer.
func trust() weights {
	var w weights
	for i := range w {
		switch {
		case i > unity-8 && i <= unity:
			w[i] = 1
		case i > unity && i <= unity+6, i > unity-16 && i <= unity-8:
			w[i] = 0.1
		}
	}
	return normalised(w)
}

// guess is what is taken of work of which nothing is known: anything from a
// minute to a week is as likely in each bucket.
func guess() weights {
	var w weights
	for i := range w {
		if edges[i] > Minute && edges[i] <= 10*24*Hour {
			w[i] = 1
		}
	}
	return normalised(w)
}

func normalised(w weights) weights {
	s := w.sum()
	for i := range w {
		w[i] /= s
	}
	return w
}
