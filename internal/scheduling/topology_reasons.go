package scheduling

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// The kinds of reasons that have to do with the topology.
const (
	CodeNoDomain       Code = "NoDomain"
	CodeDomainTooSmall Code = "DomainTooSmall"
	CodeDomainShort    Code = "DomainShort"
	CodeTooFewDomains  Code = "TooFewDomains"
	CodeKeptApart      Code = "KeptApart"
	CodeUnsupported    Code = "Unsupported"
)

// NoDomain means that all members have to be within one domain of a level, and
// no node is in any.
type NoDomain struct {
	Level Level
}

// InDomain means that all members have to be within one domain, and none has
// room: Of is what keeps them from the one that comes nearest.
type InDomain struct {
	Level Level
	// Domain is the one that has the most, Domains how many there are.
	Domain  string
	Domains int
	// Ever is true if that one is too small even if nothing else ran there.
	Ever bool
	// Of is the reason there.
	Of Reason
}

// TooFewDomains means that no two members of a role may be in one domain, and
// that too few have room.
type TooFewDomains struct {
	Role  string
	Level Level
	// Need is how many members there are, Have in how many domains one of them
	// has room, now, or ever if Ever is true.
	Need, Have int
	Ever       bool
}

// KeptApart means that there is room, but not where rules about other pods
// allow it.
type KeptApart struct {
	// Fields are where its own rules are written; empty: the rules are those of
	// others.
	Fields []string
}

// Unsupported means that its pods ask for what Muster cannot honour.
type Unsupported struct {
	// Words name the field, and say what to do.
	Words string
}

// Code is CodeKeptApart.
func (KeptApart) Code() Code { return CodeKeptApart }

// Code is CodeUnsupported.
func (Unsupported) Code() Code { return CodeUnsupported }

// Render says it in words.
func (r KeptApart) Render(Clock) string {
	if len(r.Fields) == 0 {
		return "there is room, but only beside pods whose podAntiAffinity keeps it away"
	}
	return "there is room, but not where " + strings.Join(r.Fields, " and ") + " of its pods, or of pods that run, allow it"
}

// Render says it in words.
func (r Unsupported) Render(Clock) string { return r.Words }

// Code is CodeNoDomain.
func (NoDomain) Code() Code { return CodeNoDomain }

// Code is CodeDomainTooSmall or CodeDomainShort.
func (r InDomain) Code() Code {
	if r.Ever {
		return CodeDomainTooSmall
	}
	return CodeDomainShort
}

// Code is CodeTooFewDomains.
func (TooFewDomains) Code() Code { return CodeTooFewDomains }

// noun is what one domain of a level is called.
func (l Level) noun() string {
	if l == LevelNVLink {
		return "NVLink domain"
	}
	return string(l)
}

// label is the label of nodes that says in which domain of a level they are.
func (l Level) label() string {
	if labels := v1alpha1.LabelsOfLevel(v1alpha1.Level(l)); len(labels) > 0 {
		return labels[0]
	}
	return ""
}

// impossible leads what cannot be while the nodes stay as they are.
const impossible = "impossible now: "

// Render says it in words.
func (r NoDomain) Render(Clock) string {
	return fmt.Sprintf(impossible+"must be within one %s, and no node says in which it is; put the label %s on nodes, or do not require it",
		r.Level.noun(), r.Level.label())
}

// Render says it in words.
func (r InDomain) Render(clock Clock) string {
	lead, one, has := "", "within one "+r.Level.noun(), "has the most free"
	if r.Level == LevelNode {
		one = "on one node"
	}
	if r.Ever {
		lead, has = impossible, "is the largest"
	}
	where := fmt.Sprintf("%s %s", r.Domain, has)
	if r.Domains > 1 {
		where = fmt.Sprintf("of %d %ss %s", r.Domains, r.Level.noun(), where)
	} else {
		where = fmt.Sprintf("the only %s is %s", r.Level.noun(), r.Domain)
	}
	switch of := r.Of.(type) {
	case ShortOfGPUs:
		if _, have, found := strings.Cut(of.Render(clock), "; "); found {
			return fmt.Sprintf("%sneeds %s %s; %s: %s", lead, wantText(int64(of.Need), of.Models), one, where, have)
		}
	case TooLarge:
		if of.Role == "" && of.Resource == resourceGPU {
			return fmt.Sprintf("%sneeds %s %s; %s, with %s", lead, wantText(of.Need, of.Models), one, where, wantText(of.Have, of.Models))
		}
	}
	return fmt.Sprintf("%smust be %s; %s: %s", lead, one, where, strings.TrimPrefix(r.Of.Render(clock), impossible))
}

// Render says it in words.
func (r TooFewDomains) Render(Clock) string {
	rule := fmt.Sprintf("no two %s may be in one %s", plural(2, r.Role), r.Level.noun())
	if r.Level == LevelNode {
		rule = fmt.Sprintf("no two %s may be on one node", plural(2, r.Role))
	}
	if r.Ever {
		rule = impossible + rule
	}
	if r.Ever && r.Have == 0 && r.Level != LevelNode {
		return fmt.Sprintf("%s, and no node that would do says in which it is; put the label %s on nodes, or do not require it", rule, r.Level.label())
	}
	what := fmt.Sprintf("only %d %s %s room for one", r.Have, plural(int64(r.Have), r.Level.noun()), haveText(r.Have))
	if r.Ever {
		what = fmt.Sprintf("only %d %s would do", r.Have, plural(int64(r.Have), r.Level.noun()))
	}
	return fmt.Sprintf("%s, and there are %d; %s", rule, r.Need, what)
}

func haveText(n int) string {
	if n == 1 {
		return "has"
	}
	return "have"
}

// coarse says it in words that do not change with every start and end of
// others.
func (r InDomain) coarse(clock Clock) string {
	if r.Ever {
		return r.Render(clock)
	}
	if of, ok := r.Of.(ShortOfGPUs); ok {
		return fmt.Sprintf("needs %s within one %s; none has enough free", wantText(int64(of.Need), of.Models), r.Level.noun())
	}
	return fmt.Sprintf("must be within one %s; none has enough free", r.Level.noun())
}

// domain is the node's domain of a level as a key, and how it is shown; empty if
// it is in none.
func (n *Node) domain(l Level) (key, name string) {
	d := n.Domains
	switch l {
	case LevelNode:
		return n.Name, n.Name
	case LevelZone:
		name = d.Zone
	case LevelRack:
		name = d.Rack
	case LevelNVLink:
		name = d.NVLink
	}
	if name == "" {
		return "", ""
	}
	path := d.path()[:l.depth()]
	return strings.Join(path, "\x00"), name
}

// parts are diagnoses of the same request in each domain of the level that it
// requires, in order of their names.
func (d *diagnosis) parts() (parts []*diagnosis) {
	byKey := map[string]*diagnosis{}
	ofRoom := map[*room]*diagnosis{}
	for i := range d.left.rooms {
		r := &d.left.rooms[i]
		key, name := r.node.domain(d.req.Topology.Within)
		if key == "" {
			continue
		}
		p := byKey[key]
		if p == nil {
			p = &diagnosis{req: d.req, left: &house{}, name: name}
			byKey[key] = p
			parts = append(parts, p)
		}
		p.left.rooms = append(p.left.rooms, *r)
		ofRoom[r] = p
	}
	for _, t := range d.left.tenants {
		if p := ofRoom[t.room]; p != nil {
			p.left.tenants = append(p.left.tenants, t)
		}
	}
	slices.SortStableFunc(parts, func(a, b *diagnosis) int { return cmp.Compare(a.name, b.name) })
	return parts
}

// within finds out why no domain of a required level will do, ever or now.
func (d *diagnosis) within() Reason {
	level := d.req.Topology.Within
	if level == "" || !d.req.Topology.Required {
		return nil
	}
	parts := d.parts()
	if len(parts) == 0 {
		return NoDomain{Level: level}
	}
	// 1. Which are large enough, as far as can be told at once, and of those the
	// one with the most free that is.
	need := d.wanted()
	var may []*diagnosis
	for _, p := range parts {
		if p.all, p.free = p.size(true), p.size(false); p.all >= need {
			may = append(may, p)
		}
	}
	by := func(of func(*diagnosis) int64) func(a, b *diagnosis) int {
		return func(a, b *diagnosis) int { return cmp.Or(cmp.Compare(of(b), of(a)), cmp.Compare(a.name, b.name)) }
	}
	slices.SortStableFunc(may, by(func(p *diagnosis) int64 { return p.free }))
	for _, p := range may {
		if p.ever() == nil {
			return InDomain{Level: level, Domain: p.name, Domains: len(parts), Of: p.now()}
		}
	}
	// 2. None is: the largest.
	best := slices.MinFunc(parts, by(func(p *diagnosis) int64 { return p.all }))
	return InDomain{Level: level, Domain: best.name, Domains: len(parts), Ever: true, Of: best.ever()}
}

// wanted is how many GPUs of the first kind that is asked for are needed; where
// none is, how much CPU.
func (d *diagnosis) wanted() int64 {
	if demands := d.demands(); len(demands) > 0 {
		return demands[0].need
	}
	return d.need().MilliCPU
}

// size is how many GPUs that would do there are, or are free; where none is
// wanted, how much CPU.
func (d *diagnosis) size(all bool) int64 {
	if demands := d.demands(); len(demands) > 0 {
		sum := d.left.sum(demands[0].roles[0])
		if all {
			return sum.all
		}
		return sum.free
	}
	if d.left.count(); all {
		return d.left.has.MilliCPU
	}
	return d.left.left.MilliCPU
}

// apartEver finds a role of which no two members may be in one domain, and that
// has more members than there are domains that would do.
func (d *diagnosis) apartEver() Reason {
	return d.apart(true, func(r *Role, room *room) bool {
		most, _ := room.most(r)
		return most >= int64(r.GPUs) && room.node.Allocatable.short(r.Resources) == ""
	})
}

// apartNow is apartEver with what is free.
func (d *diagnosis) apartNow() Reason {
	return d.apart(false, func(r *Role, room *room) bool {
		_, most := room.most(r)
		return most >= int64(r.GPUs) && room.free.short(r.Resources) == "" && room.hasPorts(r.FixedPorts)
	})
}

func (d *diagnosis) apart(ever bool, will func(*Role, *room) bool) Reason {
	for i := range d.req.Roles {
		r := &d.req.Roles[i]
		if r.Spread.Over == "" || !r.Spread.Required {
			continue
		}
		have := map[string]bool{}
		for i := range d.left.rooms {
			room := &d.left.rooms[i]
			if key, _ := room.node.domain(r.Spread.Over); key != "" && room.node.refuses(*r) == "" && will(r, room) {
				have[key] = true
			}
			if len(have) >= int(members(r)) {
				break
			}
		}
		if need := int(members(r)); len(have) < need {
			return TooFewDomains{Role: r.Name, Level: r.Spread.Over, Need: need, Have: len(have), Ever: ever}
		}
	}
	return nil
}
