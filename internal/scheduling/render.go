package scheduling

import (
	"fmt"
	"strings"
)

// shown is how many holders or nodes a sentence names before it counts the
// rest.
const shown = 5

// Render says it in words.
func (Suspended) Render(Clock) string { return "suspended; set suspend to false to run again" }

// Render says it in words.
func (Draining) Render(Clock) string { return "the members of the last attempt are being stopped" }

// Render says it in words.
func (r CoolingOff) Render(clock Clock) string {
	return "cooling off after a failure; tried again at " + clock(r.Until)
}

// Render says it in words.
func (r Refused) Render(Clock) string { return "the API server refuses its pods: " + r.Words }

// Render says it in words.
func (r Placed) Render(clock Clock) string {
	return fmt.Sprintf("placed since %s (attempt %d)", clock(r.Since), r.Attempt)
}

// Render says it in words.
func (Finished) Render(Clock) string { return "finished" }

// Render says it in words.
func (Fits) Render(Clock) string { return "everything it needs is free; it is about to start" }

// Render says it in words.
func (NoNodes) Render(Clock) string { return "there is no node to run on yet" }

// Render says it in words.
func (r NoNodeAllows) Render(Clock) string {
	var parts []string
	for i, n := range r.Nodes {
		if i == shown {
			parts = append(parts, fmt.Sprintf("and %d more", len(r.Nodes)-shown))
			break
		}
		parts = append(parts, n.Node+" "+n.Why)
	}
	return fmt.Sprintf("no node takes role %s: %s", r.Role, strings.Join(parts, "; "))
}

// Render says it in words.
func (r NoSuchModel) Render(Clock) string {
	where := "the nodes have"
	if r.Single {
		where = "this machine has"
	}
	what := "a GPU"
	if len(r.Models) > 0 {
		what = article(r.Models[0]) + " " + strings.Join(r.Models, " or ")
	}
	if len(r.Have) == 0 {
		return fmt.Sprintf("no node has %s; %s no GPU", what, where)
	}
	var have []string
	for _, m := range r.Have {
		have = append(have, fmt.Sprintf("%d %s", m.Count, m.Model))
	}
	return fmt.Sprintf("no node has %s; %s %s", what, where, strings.Join(have, " and "))
}

// article is "a" or "an", as the name of a model is spoken.
func article(model string) string {
	if model != "" && strings.ContainsRune("AEFHILMNORSX8aeio", rune(model[0])) {
		return "an"
	}
	return "a"
}

// Render says it in words.
func (r TooLarge) Render(Clock) string {
	amount := func(n int64) string {
		if r.Resource == resourceGPU {
			return wantText(n, r.Models)
		}
		return amountText(r.Resource, n)
	}
	if r.Role != "" {
		where := "the largest node has"
		if r.Single {
			where = "this machine has"
		}
		return fmt.Sprintf("each %s needs %s on one node; %s %s", r.Role, amount(r.Need), where, amount(r.Have))
	}
	where := "the nodes have"
	if r.Single {
		where = "this machine has"
	}
	return fmt.Sprintf("needs %s at once; %s %s in all", amount(r.Need), where, amount(r.Have))
}

// Render says it in words.
func (r ShortOfGPUs) Render(clock Clock) string {
	here := ""
	if r.Single {
		here = " here"
	}
	var parts []string
	switch r.Free {
	case 0:
		parts = append(parts, "none is free"+here)
	case 1:
		parts = append(parts, "1 is free"+here)
	default:
		parts = append(parts, fmt.Sprintf("%d are free%s", r.Free, here))
	}
	held := false
	by := func(n int, who string) {
		verb := ""
		if !held {
			verb, held = " are held", true
			if n == 1 {
				verb = " is held"
			}
		}
		parts = append(parts, fmt.Sprintf("%d%s by %s", n, verb, who))
	}
	rest := 0
	for i, h := range r.Holders {
		if i >= shown {
			rest += h.Count
			continue
		}
		who := h.String()
		if h.Pod {
			who = "pod " + who
		}
		if h.Since != 0 {
			who += " since " + clock(h.Since)
		}
		by(h.Count, who)
	}
	if rest > 0 {
		by(rest, "others")
	}
	for _, f := range r.Foreign {
		by(1, f.text())
	}
	for _, u := range r.Unhealthy {
		parts = append(parts, fmt.Sprintf("1 is out of order (%s)", u.Why))
	}
	return fmt.Sprintf("needs %s at once; %s", wantText(int64(r.Need), r.Models), strings.Join(parts, ", "))
}

func (f GPUForeign) text() string {
	var who []string
	if f.Process.PID != 0 {
		who = append(who, fmt.Sprintf("pid %d", f.Process.PID))
	}
	text := "a process that is not Muster's"
	if f.Process.User != "" {
		text = "a process of another user that is not Muster's"
		who = append(who, f.Process.User)
	}
	if f.Process.Command != "" {
		who = append(who, f.Process.Command)
	}
	if len(who) == 0 {
		return text
	}
	return text + " (" + strings.Join(who, ", ") + ")"
}

// Render says it in words.
func (r ShortOfResource) Render(Clock) string {
	text := fmt.Sprintf("needs %s at once; %s free", amountText(r.Resource, r.Need), amountText(r.Resource, max(0, r.Free)))
	if len(r.Holders) == 0 {
		return text
	}
	var who []string
	for i, h := range r.Holders {
		if i == shown {
			who = append(who, "others")
			break
		}
		who = append(who, h.String())
	}
	return text + ", the rest is held by " + strings.Join(who, ", ")
}

// Render says it in words.
func (r ShortOfPorts) Render(Clock) string {
	if len(r.Fixed) > 0 {
		var ports []string
		for _, p := range r.Fixed {
			ports = append(ports, fmt.Sprint(p))
		}
		return "needs port " + strings.Join(ports, " and ") + " of a node, which another pod has"
	}
	return fmt.Sprintf("needs %d ports at once; %d are free on the nodes", r.Need, r.Free)
}

// Render says it in words.
func (r Scattered) Render(Clock) string {
	if r.GPUs == 0 {
		return fmt.Sprintf("enough is free in all, but not on one node for each %s", r.Role)
	}
	return fmt.Sprintf("enough GPUs are free in all, but each %s needs %s on one node and the most free on one is %d",
		r.Role, wantText(int64(r.GPUs), r.Models), r.Most)
}

// Coarse says a reason in words that do not change with every start and end
// of others: what is needed, not who has it.
func Coarse(r Reason, clock Clock) string {
	switch r := r.(type) {
	case ShortOfGPUs:
		return fmt.Sprintf("needs %s at once; not enough are free", wantText(int64(r.Need), r.Models))
	case ShortOfResource:
		return fmt.Sprintf("needs %s at once; not enough is free", amountText(r.Resource, r.Need))
	case ShortOfPorts:
		return fmt.Sprintf("needs %d ports at once; not enough are free", r.Need)
	case Scattered:
		return fmt.Sprintf("each %s finds no node with enough free", r.Role)
	}
	return r.Render(clock)
}
