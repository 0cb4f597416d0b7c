package scheduling

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/muster-dev/muster/internal/scheduling/placement"
	"github.com/muster-dev/muster/internal/scheduling/queue"
)

// whole asserts that every plan of the last decision has every member, each
// with what it asked for on a node that is there.
func (s *stage) whole() {
	for _, p := range s.last.Plans {
		at := 0
		for _, r := range s.jobs[p.UID].req.Roles {
			for i := range r.Replicas {
				if at == len(p.Members) {
					s.failf("%s is planned in part: %+v", p.Key, p.Members)
					return
				}
				m := p.Members[at]
				at++
				n := s.node(m.Node)
				if m.Role != r.Name || m.Index != i || len(m.GPUs) != int(r.GPUs) || n == nil || s.down[m.Node] {
					s.failf("%s-%d of %s got %+v", r.Name, i, p.Key, m)
					return
				}
				for _, uuid := range m.GPUs {
					if d := slices.IndexFunc(n.Devices, func(d Device) bool { return d.UUID == uuid }); d < 0 || !r.accepts(n.Devices[d]) {
						s.failf("%s-%d of %s got the device %s", r.Name, i, p.Key, uuid)
					}
				}
			}
		}
		if at != len(p.Members) {
			s.failf("%s: %d members planned, %d wanted", p.Key, len(p.Members), at)
		}
		if where := astray(s.Nodes, s.jobs[p.UID].req, p); where != "" {
			s.failf("%s has to be %s", p.Key, where)
		}
	}
}

func (s *stage) node(name string) *Node {
	if i := slices.IndexFunc(s.Nodes, func(n Node) bool { return n.Name == name }); i >= 0 {
		return &s.Nodes[i]
	}
	return nil
}

// books asserts that nothing is given twice and no node is overdrawn.
func (s *stage) books() {
	taken := map[string]string{}
	used := map[string]Resources{}
	take := func(what, by string) {
		if other, twice := taken[what]; twice {
			s.failf("%s is given to %s and to %s", what, other, by)
		}
		taken[what] = by
	}
	for _, uid := range s.uids() {
		j := s.jobs[uid]
		if !j.placed {
			continue
		}
		for _, m := range j.plan.Members {
			r := j.role(m.Role)
			used[m.Node] = used[m.Node].plus(r.Resources)
			for _, d := range m.GPUs {
				take(d, uid)
			}
			for _, p := range append(portList(m.Port), r.FixedPorts...) {
				take(fmt.Sprint(m.Node, ":", p), uid)
			}
		}
	}
	for _, n := range s.Nodes {
		if short := n.Allocatable.short(used[n.Name]); short != "" {
			s.failf("%s is overdrawn in %s: %+v", n.Name, short, used[n.Name])
		}
	}
}

// limits asserts that no queue has more than its limit, with all below it, by
// a sum of its own. Whoever is there when a queue is charged counts.
func (s *stage) limits() {
	if len(s.Queues) == 0 {
		return
	}
	parent := map[string]string{}
	for _, q := range s.Queues {
		parent[q.Name] = q.Parent
	}
	used := map[string]queue.Amounts{}
	for _, j := range s.jobs {
		if !j.placed {
			continue
		}
		for name := j.req.Queue; name != ""; name = parent[name] {
			if used[name] == nil {
				used[name] = queue.Amounts{}
			}
			for _, m := range j.plan.Members {
				used[name]["cpu"] += j.role(m.Role).Resources.MilliCPU
				used[name]["gpu"] += int64(len(m.GPUs)) * placement.Whole
				if len(m.GPUs) > 0 {
					used[name][s.node(m.Node).Devices[0].Model] += int64(len(m.GPUs)) * placement.Whole
				}
			}
		}
	}
	for _, q := range s.Queues {
		for class, limit := range q.Limit {
			if used[q.Name][class] > limit {
				s.failf("queue %s has %d of %s, its limit is %d", q.Name, used[q.Name][class], class, limit)
			}
		}
		if g, named := q.Guaranteed["gpu"]; named && q.NoBorrowing && used[q.Name]["gpu"] > g {
			s.failf("queue %s may not borrow, is guaranteed %d, and has %d", q.Name, g, used[q.Name]["gpu"])
		}
	}
	if used["missing"] != nil {
		s.failf("something runs in a queue that does not exist")
	}
}

// same asserts that the core's books are those of a fresh core that was shown
// a snapshot: who waits in which order, who holds what, what is free and what
// is charged. What legitimately differs: promises, nominations, who was told
// to go, what may still be lost by evictions, and how queues were used before.
// What is held on a node that is gone is known to the core that was there alone.
func (s *stage) same() {
	for _, j := range s.jobs {
		if j.placed && slices.ContainsFunc(j.plan.Members, func(m Assignment) bool { return s.down[m.Node] }) {
			return
		}
	}
	fresh := NewCore(s.Options)
	for _, l := range s.learned {
		fresh.Observe(l.evidence, l.ran)
	}
	fresh.Sync(s.snapshot())
	if a, b := s.core.cluster.Totals(), fresh.cluster.Totals(); a != b {
		s.failf("free: %+v, from a snapshot: %+v", a, b)
	}
	if a, b := accounts(s.core), accounts(fresh); a != b {
		s.failf("the books differ:\n%s\nfrom a snapshot:\n%s", a, b)
	}
}

// accounts writes down who waits, who holds what and what queues are charged.
func accounts(c *Core) string {
	var b strings.Builder
	uids := make([]string, 0, len(c.waiting))
	for _, e := range c.waiting {
		// The order depends on when each estimate was last made.
		uids = append(uids, e.req.UID)
	}
	slices.Sort(uids)
	fmt.Fprintln(&b, "waiting", uids)
	for _, e := range c.running {
		fmt.Fprintf(&b, "%s since %d attempt %d gpus %d:", e.req.UID, e.since, e.attempt, e.gpus)
		var held []string
		for i := range e.held {
			h := &e.held[i]
			var devices []string
			for _, seat := range h.seats {
				devices = c.cluster.SeatDevices(seat, devices)
			}
			slices.Sort(devices)
			ports := slices.Clone(h.ports)
			slices.Sort(ports)
			held = append(held, fmt.Sprint(h.role, h.index, h.site.node.Name, devices, ports, amounts(c, func(k queue.Class) int64 { return h.charged[k] })))
		}
		slices.Sort(held)
		fmt.Fprintln(&b, held)
	}
	for _, name := range sortedKeys(c.nodes) {
		n := c.nodes[name]
		fmt.Fprintf(&b, "%s: ports %v, %d milli, %d here\n", name, n.ports, n.milli, len(n.here))
	}
	for _, q := range c.tree.Children(queue.Root, nil) {
		fmt.Fprintf(&b, "queue %s: %s\n", c.tree.Name(q), amounts(c, func(k queue.Class) int64 { return c.tree.Used(q, k) }))
	}
	return b.String()
}

// amounts writes down what is not 0, for models that no node has any more are
// still known.
func amounts(c *Core, of func(queue.Class) int64) string {
	var out []string
	for k := range queue.Class(c.tree.Classes().Len()) {
		if amount := of(k); amount != 0 {
			out = append(out, fmt.Sprintf("%s %d", c.tree.Classes().Name(k), amount))
		}
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// needed asserts of everything that was told to go, that the one it makes room
// for has room then, and has none if any one of them stays.
func (s *stage) needed() {
	if s.Options.Instantly {
		return
	}
	victims := map[Key][]*entry{}
	for _, e := range s.last.Evictions {
		victims[e.For] = append(victims[e.For], s.core.entries[e.UID])
	}
	for key, all := range victims {
		var e *entry
		for _, w := range s.core.waiting {
			if w.req.Key == key {
				e = w
			}
		}
		if e == nil {
			s.failf("evictions for %s, which does not wait", key)
			return
		}
		if !s.fitsWithout(e, all, nil) {
			s.failf("%d are evicted for %s, which has no room without them", len(all), key)
		}
		for _, v := range all {
			if s.fitsWithout(e, all, v) {
				s.failf("%s is evicted for %s, which has room without that", v.req.Key, key)
			}
		}
	}
}

// fitsWithout says whether an entry has room if all of these are gone but one.
func (s *stage) fitsWithout(e *entry, victims []*entry, but *entry) bool {
	c := s.core
	defer c.lifting()()
	for _, v := range victims {
		if v != but {
			c.lift(v)
		}
	}
	f, ok := c.place(e, c.avoidFor(e))
	if ok {
		f.back()
	}
	return ok
}

// empty asserts that nothing is left once everything is gone.
func (s *stage) empty() {
	for _, uid := range s.uids() {
		s.core.Drop(uid)
	}
	s.core.Decide(s.now)
	fresh := NewCore(s.Options)
	for _, n := range s.Nodes {
		if !s.down[n.Name] {
			fresh.SetNode(n)
		}
	}
	c := s.core
	if a, b := c.cluster.Totals(), fresh.cluster.Totals(); a != b {
		s.failf("in the end %+v is free of %+v", a, b)
	}
	for name, site := range c.nodes {
		if len(site.ports) > 0 || site.milli != 0 || len(site.here) > 0 {
			s.failf("%s still has ports %v, %d milli, %d entries", name, site.ports, site.milli, len(site.here))
		}
	}
	for class := range c.tree.Classes().Len() {
		if used := c.tree.Used(queue.Root, queue.Class(class)); used != 0 {
			s.failf("%d of class %d is still charged", used, class)
		}
	}
	if c.favoured != 0 || len(c.waiting)+len(c.running)+len(c.entries)+len(c.nominations)+len(c.promises) > 0 {
		s.failf("left over: favoured %d, %d waiting, %d running, %d entries, %d nominations, %d promises",
			c.favoured, len(c.waiting), len(c.running), len(c.entries), len(c.nominations), len(c.promises))
	}
}

// started asserts that whatever others were told to go for starts within the
// notice once they are gone, if nothing else happens.
func started(t episode) error {
	s := newStage(t)
	for s.step() {
		if len(s.last.Evictions) == 0 {
			continue
		}
		again := newStage(t)
		again.stopAfter = s.decided - 1
		waits := map[Key]bool{}
		for again.step() {
			if again.stopped() < 0 {
				continue
			}
			if again.stopped() == 0 {
				for _, e := range again.last.Evictions {
					waits[e.For] = true
				}
			}
			for _, p := range again.last.Plans {
				delete(waits, p.Key)
			}
			if len(waits) == 0 || again.stopped() > 0 && again.now.since(s.now) > notice {
				break
			}
		}
		for key := range waits {
			return fmt.Errorf("decision %d evicts for %s, which does not start after that", again.stopAfter, key)
		}
	}
	return nil
}

// plays plays a episode, twice.
func plays(t episode) error {
	first, second := newStage(t), newStage(t)
	if err := first.run(); err != nil {
		return err
	}
	if err := second.run(); err != nil {
		return err
	}
	if string(first.log) != string(second.log) {
		return fmt.Errorf("the same events gave other decisions:\n%s\n%s", first.log, second.log)
	}
	if t.Options.Instantly {
		return nil
	}
	return started(t)
}

// seeds is how many episodes are made.
const seeds = 60

func TestCourse(t *testing.T) {
	evictions := 0
	for seed := range uint64(seeds) {
		c := newEpisode(seed)
		err := guarded(c)
		if err == nil {
			s := newStage(c)
			_ = s.run()
			evictions += s.evictions
			continue
		}
		c = shrunk(c, guarded)
		t.Fatalf("seed %d: %v\nshrunk: %v\n%s", seed, err, guarded(c), c.words())
	}
	if evictions < seeds/4 {
		t.Errorf("only %d evictions in all: these episodes show little", evictions)
	}
}

// guarded tells a panic like any other failure.
func guarded(t episode) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	return plays(t)
}
