package scheduling

import (
	"cmp"
	"slices"

	"github.com/muster-dev/muster/internal/scheduling/placement"
)

// chance is how one node can be made to have room for members of an entry.
type chance struct {
	site    *site
	victims []*entry
	price   float64
	fits    int
}

// chances are the nodes that can be made to have room, the cheapest first.
func (c *Core) chances(s *search, now Instant) []chance {
	role := &s.wants.req.Roles[0]
	per := c.chunk(role, int(members(role)))
	var out []chance
	for _, at := range c.sites {
		if !c.known(at) || s.avoid.Has(at.id) {
			continue
		}
		if ch, ok := c.chance(s, at, now, per); ok {
			out = append(out, ch)
		}
	}
	slices.SortStableFunc(out, func(a, b chance) int {
		return cmp.Or(cmp.Compare(a.price, b.price), cmp.Compare(a.site.node.Name, b.site.node.Name))
	})
	return out
}

// suffice are the first of the chances that have room for all members together;
// nil if all do not. Where members have to be in one domain, they are those of
// the domain in which that is cheapest; where no two may be in one, one of each.
func (c *Core) suffice(e *entry, chances []chance) []chance {
	need := int(members(&e.req.Roles[0]))
	within, apart := e.req.Topology, e.req.Roles[0].Spread
	if !within.Required && !apart.Required {
		for i := range chances {
			if need -= chances[i].fits; need <= 0 {
				return chances[:i+1]
			}
		}
		return nil
	}
	type part struct {
		chances []chance
		used    map[placement.DomainID]bool
		fits    int
		price   float64
	}
	parts := map[placement.DomainID]*part{}
	var best *part
	for _, ch := range chances {
		in, known := placement.NoDomain, true
		if within.Required {
			in, known = c.domainOf(ch.site.id, within.Within)
		}
		p := parts[in]
		if p == nil {
			p = &part{used: map[placement.DomainID]bool{}}
			parts[in] = p
		}
		if !known || p.fits >= need {
			continue
		}
		if apart.Required {
			d, some := c.domainOf(ch.site.id, apart.Over)
			if !some || p.used[d] {
				continue
			}
			p.used[d] = true
		}
		p.chances, p.fits, p.price = append(p.chances, ch), p.fits+ch.fits, p.price+ch.price
		if p.fits >= need && (best == nil || p.price < best.price) {
			best = p
		}
	}
	if best == nil {
		return nil
	}
	return best.chances
}

// chance works out whom a node would lose for so many members.
func (c *Core) chance(s *search, at *site, now Instant, per int) (chance, bool) {
	want := int64(per) * int64(s.wants.req.Roles[0].GPUs) * placement.Whole
	free := int64(len(at.node.Devices))*placement.Whole - at.milli
	// 1. Quickly: would everything that may go suffice?
	most := free
	for _, v := range at.here {
		if most >= want {
			break
		}
		if c.mayGo(v, s, now) {
			most += v.milliAt(at)
		}
	}
	if most < want {
		return chance{}, false
	}
	ch := chance{site: at, fits: per}
	if free < want {
		free = c.choose(&ch, s, now, free, want)
	}
	// 3. What would be left over is a price, too: the node that fits best.
	ch.price += float64(free - want)
	return ch, true
}

// choose takes the cheapest victims of a node until what is free suffices,
// without those that turn out not to be needed. It returns what is free then.
func (c *Core) choose(ch *chance, s *search, now Instant, free, want int64) int64 {
	at := ch.site
	for _, v := range at.here {
		if c.mayGo(v, s, now) {
			ch.victims = append(ch.victims, v)
		}
	}
	slices.SortStableFunc(ch.victims, func(a, b *entry) int { return c.byPrice(a, b, s, now) })
	n := 0
	for ; free < want; n++ {
		free += ch.victims[n].milliAt(at)
	}
	ch.victims = slices.DeleteFunc(ch.victims[:n], func(v *entry) bool {
		if m := v.milliAt(at); free-m >= want {
			free -= m
			return true
		}
		return false
	})
	for _, v := range ch.victims {
		ch.price += c.price(v, s, now) * placement.Whole
	}
	return free
}

// milliAt is what an entry holds of a node's devices.
func (e *entry) milliAt(s *site) int64 {
	if len(e.held) == 1 && !e.held[0].up {
		return e.held[0].milli()
	}
	var sum int64
	for i := range e.held {
		if e.held[i].site == s && !e.held[i].up {
			sum += e.held[i].milli()
		}
	}
	return sum
}
