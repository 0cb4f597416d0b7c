package scheduling

import "fmt"

// The kinds of advice that have to do with the topology.
const (
	CodeWider    Code = "WiderDomain"
	CodeTogether Code = "MayShareDomain"
)

// WiderDomain advises to require a wider domain, or none.
type WiderDomain struct {
	// From is the level that is required, To the narrowest wider one with which
	// it would start; empty: it would if none was required.
	From, To Level
}

// MayShareDomain advises to let members of a role be in one domain.
type MayShareDomain struct {
	Role  string
	Level Level
}

// Code is CodeWider.
func (WiderDomain) Code() Code { return CodeWider }

// Code is CodeTogether.
func (MayShareDomain) Code() Code { return CodeTogether }

// Render says it in words.
func (a WiderDomain) Render(Clock) string {
	if a.To == "" {
		return fmt.Sprintf("prefer one %s instead of requiring it (--near %s)", a.From.noun(), a.From)
	}
	return fmt.Sprintf("require one %s instead of one %s (--within %s)", a.To.noun(), a.From.noun(), a.To)
}

// Render says it in words.
func (a MayShareDomain) Render(Clock) string {
	return fmt.Sprintf("let %s share a %s where there are too few (--spread %s)", plural(2, a.Role), a.Level.noun(), a.Level)
}

// topology tries what is asked of the topology less strictly.
func (t *trial) topology() []Advice {
	var out []Advice
	if from := t.entry.req.Topology; from.Within != "" && from.Required {
		for _, to := range from.Within.wider()[1:] {
			wish := Topology{Within: to, Required: true}
			if to == "" {
				wish = Topology{Within: from.Within}
			}
			if t.startsWith(func(r *Request) { r.Topology = wish }) {
				out = append(out, WiderDomain{From: from.Within, To: to})
				break
			}
		}
	}
	for i := range t.entry.req.Roles {
		r := &t.entry.req.Roles[i]
		if r.Spread.Over != "" && r.Spread.Required && t.starts(i, func(r *Role) { r.Spread.Required = false }) {
			out = append(out, MayShareDomain{Role: r.Name, Level: r.Spread.Over})
		}
	}
	return out
}
