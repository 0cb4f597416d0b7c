package scheduling

import (
	"fmt"
	"strings"

	"github.com/muster-dev/muster/internal/scheduling/estimate"
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
	if r.After != "" {
		return r.After + "; tried again at " + clock(r.Until)
	}
	return "cooling off after a failure; tried again at " + clock(r.Until)
}

// Render says it in words.
func (r Refused) Render(Clock) string { return "the API server refuses its pods: " + r.Words }

// Render says it in words.
func (r Missing) Render(Clock) string { return r.Words + AfterMissing }

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
	rest := withheldText(r.Withheld)
	switch {
	case len(r.Withheld) > 0 && r.Withheld[0].Counts:
		return impossible + "no node has a GPU of which a part can be given" + rest
	case len(r.Have) == 0 && len(r.Withheld) > 0:
		return fmt.Sprintf(impossible+"no node that is Muster's has %s", what) + rest
	case len(r.Have) == 0 && r.Single:
		return impossible + "this machine has no GPU"
	case len(r.Have) == 0:
		return fmt.Sprintf(impossible+"no node has %s; %s no GPU", what, where)
	}
	var have []string
	for _, m := range r.Have {
		have = append(have, fmt.Sprintf("%d %s", m.Count, m.Model))
	}
	return fmt.Sprintf(impossible+"no node has %s; %s %s", what, where, strings.Join(have, " and ")) + rest
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
		return fmt.Sprintf(impossible+"each %s needs %s on one node; %s %s", r.Role, amount(r.Need), where, amount(r.Have)) + withheldText(r.Withheld) + r.misnamedGPU()
	}
	where := "the nodes have"
	if r.Single {
		where = "this machine has"
	}
	return fmt.Sprintf(impossible+"needs %s at once; %s %s in all", amount(r.Need), where, amount(r.Have)) + withheldText(r.Withheld) + r.misnamedGPU()
}

// misnamedGPU is a hint for a resource that no node has and whose name looks like GPUs; "" for others.
func (r TooLarge) misnamedGPU() string {
	_, name, _ := strings.Cut(r.Resource, "/")
	switch {
	case r.Have > 0 || r.Resource == resourceGPU || !strings.Contains(strings.ToLower(name), "gpu"):
		return ""
	case r.Single:
		return ". GPUs are asked for as nvidia.com/gpu, and a part of one as muster.dev/gpu-milli and muster.dev/gpu-memory: name one of these in the limits"
	}
	return ". Ask for GPUs by a resource that the nodes have, such as nvidia.com/gpu"
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
	by := func(n int, share Share, who string) {
		amount := fmt.Sprint(n)
		if share.some() {
			amount = share.like(Share{Milli: 1})
		}
		verb := ""
		if !held {
			verb, held = " are held", true
			if n == 1 || share.some() {
				verb = " is held"
			}
		}
		parts = append(parts, fmt.Sprintf("%s%s by %s", amount, verb, who))
	}
	rest := 0
	for i, h := range r.Holders {
		if i >= shown {
			rest += max(1, h.Count)
			continue
		}
		who := h.String()
		switch {
		case h.Claim:
			who = "claim " + who + " (not Muster's)"
		case h.Pod:
			who = "pod " + who
		}
		if h.Since != 0 {
			who += " since " + clock(h.Since)
		}
		if h.Count > 0 {
			by(h.Count, Share{}, who)
		}
		if h.Share.some() {
			by(0, h.Share, who)
		}
	}
	if rest > 0 {
		by(rest, Share{}, "others")
	}
	for _, f := range r.Foreign {
		by(1, Share{}, f.text())
	}
	for _, u := range r.Unhealthy {
		parts = append(parts, fmt.Sprintf("1 is out of order (%s)", u.Why))
	}
	return fmt.Sprintf("needs %s at once; %s", wantText(int64(r.Need), r.Models), strings.Join(parts, ", ")) + withheldText(r.Withheld)
}

// longestCommand is how much of a command line a sentence can take, in
// characters.
const longestCommand = 40

func (f GPUForeign) text() string {
	text := "a process"
	if f.Process.PID != 0 {
		text = fmt.Sprintf("process %d", f.Process.PID)
	}
	if f.Process.User != "" {
		text += " of " + f.Process.User
	}
	if command := []rune(f.Process.Command); len(command) > longestCommand {
		text += " (" + string(command[:longestCommand-1]) + "…)"
	} else if len(command) > 0 {
		text += " (" + string(command) + ")"
	}
	return text + ", which is not Muster's"
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
	case ShortOfShare:
		return r.need() + "; not enough is free"
	case ShortOfResource:
		return fmt.Sprintf("needs %s at once; not enough is free", amountText(r.Resource, r.Need))
	case ShortOfPorts:
		return fmt.Sprintf("needs %d ports at once; not enough are free", r.Need)
	case OverQuota:
		r.Holders = nil
		if !r.Uncounted && r.Asked <= r.Hard {
			return fmt.Sprintf("this asks for %s, and less is left of quota %s of namespace %s%s", quotaAmount(r.Resource, r.Asked), r.Quota.Name, r.Quota.Namespace, kindText(r.Resource))
		}
		return r.Render(clock)
	case Scattered:
		return fmt.Sprintf("each %s finds no node with enough free", r.Role)
	case InDomain:
		return r.coarse(clock)
	}
	return r.Render(clock)
}

// Render says it in words.
func (r BlockedByQueue) Render(clock Clock) string {
	switch r.Rule {
	case RuleMissing:
		return fmt.Sprintf("there is no queue %s; create it, or name another", r.Queue)
	case RuleGone:
		return fmt.Sprintf("%s was deleted; create it again, or name another", theQueue(r.Queue, r.Login))
	case RuleStopped:
		return fmt.Sprintf("%s is stopped: nothing new starts in it", theQueue(r.Queue, r.Login))
	}
	of := theQueue(r.Queue, r.Login)
	amount := func(n int64) string { return queueAmount(r.Resource, n) }
	var text string
	switch r.Rule {
	case RuleBorrowing:
		text = fmt.Sprintf("%s may not borrow: it is guaranteed %s and uses %s, and this asks for %s",
			of, amount(r.Allowed), amount(r.Used), amount(r.Asked))
	case RuleReserved:
		text = fmt.Sprintf("what is free is kept for queues that do not lend it; %s is short of %s, and this asks for %s",
			of, amount(r.Missing), amount(r.Asked))
	default:
		text = fmt.Sprintf("%s may use %s and uses %s, and this asks for %s", of, amount(r.Allowed), amount(r.Used), amount(r.Asked))
	}
	text += heldText(r.Holders, amount, clock)
	for i, b := range r.Borrowers {
		if i == shown {
			break
		}
		lead := ", "
		if i == 0 {
			lead = "; borrowed by "
		}
		text += fmt.Sprintf("%s%s: %s", lead, theQueue(b.Queue, b.Login), amount(b.Amount))
	}
	return text
}

// theQueue names a queue in a sentence: that of a user by the login.
func theQueue(name, login string) string {
	if login == "" {
		return "queue " + name
	}
	return "the queue of " + login
}

// heldText names who holds most of something, and counts the rest.
func heldText(holders []QueueHolder, amount func(int64) string, clock Clock) string {
	var text string
	for i, h := range holders {
		if i == shown {
			return text + fmt.Sprintf(", and %d more", len(holders)-shown)
		}
		lead := ", "
		if i == 0 {
			lead = "; held by "
		}
		text += fmt.Sprintf("%s%s (%s", lead, h.Key, amount(h.Amount))
		if h.Since != 0 {
			text += " since " + clock(h.Since)
		}
		text += ")"
	}
	return text
}

// Render says it in words.
func (r OverQuota) Render(clock Clock) string {
	name := fmt.Sprintf("quota %s of namespace %s", r.Quota.Name, r.Quota.Namespace)
	amount := func(n int64) string { return quotaAmount(r.Resource, n) }
	switch {
	case r.Uncounted:
		return fmt.Sprintf("%s is new or was changed; waiting until the API server has counted what is used of %s", name, r.Resource)
	case r.Asked > r.Hard:
		return fmt.Sprintf(impossible+"this asks for %s, and %s allows %s in all%s; ask for less, or have the quota raised",
			amount(r.Asked), name, amount(r.Hard), kindText(r.Resource))
	}
	kept := ""
	if r.Kept > 0 {
		kept = fmt.Sprintf(", and %s kept for %s, which has waited for too long", usedText(amount(r.Kept)), r.KeptFor)
	}
	return fmt.Sprintf("%s allows %s%s, of which %s used%s, and this asks for %s", name, amount(r.Hard), kindText(r.Resource), usedText(amount(r.Used)), kept, amount(r.Asked)) +
		heldText(r.Holders, amount, clock)
}

// kindText tells requests from limits.
func kindText(resource string) string {
	if OfClaims(resource) {
		return " (" + resource + ")"
	}
	if name, _, some := strings.Cut(resource, "."); some && (name == "requests" || name == "limits") {
		return " (" + resource + ")"
	}
	return ""
}

// usedText says that so much is, or are, used.
func usedText(amount string) string {
	if strings.HasPrefix(amount, "1 ") || strings.HasSuffix(amount, " of memory") {
		return amount + " is"
	}
	return amount + " are"
}

// quotaAmount writes an amount of what quotas count.
func quotaAmount(resource string, n int64) string {
	switch {
	case resource == QuotaClaims && n == 1:
		return "1 claim of devices"
	case resource == QuotaClaims:
		return fmt.Sprintf("%d claims of devices", n)
	case OfClaims(resource):
		return wantText(n, nil)
	}
	name := strings.TrimPrefix(strings.TrimPrefix(strings.TrimPrefix(resource, "requests."), "limits."), "count/")
	switch {
	case name == quotaGPU:
		return wantText(n, nil)
	case name == resourcePods && n == 1:
		return "1 pod"
	case name == "ephemeral-storage" || strings.HasPrefix(name, "hugepages-"):
		return bytesText(n) + " of " + name
	}
	return amountText(name, n)
}

// queueAmount writes an amount of what queues count: GPUs and CPU in
// thousandths, memory in bytes.
func queueAmount(resource string, n int64) string {
	switch resource {
	case resourceCPU, resourceMemory:
		return amountText(resource, n)
	case resourceGPU:
		if n == 1000 {
			return "1 GPU"
		}
		return fmt.Sprintf("%.4g GPUs", float64(n)/1000)
	}
	return fmt.Sprintf("%.4g %s", float64(n)/1000, resource)
}

// Render says it in words.
func (r KeptFree) Render(clock Clock) string {
	return fmt.Sprintf("there is room, but it is kept free for %s, which has waited for too long and is expected to start there by %s", r.For, clock(r.Until))
}

// Render says it in words.
func (r MakingRoom) Render(Clock) string {
	if len(r.Victims) == 0 {
		return "others have made room for it; it is about to start"
	}
	return namesText(r.Victims) + " " + areText(len(r.Victims)) + " stopping to make room for it"
}

// Render says it in words.
func (Paused) Render(Clock) string { return "nothing new is started, because scheduling is paused" }

// namesText names a few and counts the rest.
func namesText(keys []Key) string {
	var names []string
	for i, k := range keys {
		if i == shown {
			names = append(names, fmt.Sprintf("%d more", len(keys)-shown))
			break
		}
		names = append(names, k.String())
	}
	if len(names) == 1 {
		return names[0]
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}

func areText(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

// Render says it in words.
func (a FewerGPUs) Render(Clock) string {
	return fmt.Sprintf("ask for %s for each %s instead of %d", wantText(int64(a.To), a.Models), a.Role, a.From)
}

// Render says it in words.
func (a FewerMembers) Render(Clock) string {
	return fmt.Sprintf("ask for %d %s instead of %d", a.To, plural(int64(a.To), a.Role), a.From)
}

// Render says it in words.
func (a SmallerMembers) Render(Clock) string {
	return fmt.Sprintf("ask for %d %s with %s each instead of %d with %d", a.ToMembers, plural(int64(a.ToMembers), a.Role),
		wantText(int64(a.ToGPUs), nil), a.Members, a.GPUs)
}

// Render says it in words.
func (a OtherModel) Render(Clock) string {
	return fmt.Sprintf("also allow %s for %s, beside %s", a.Also, a.Role, strings.Join(a.Models, " and "))
}

// Render says it in words.
func (a LessOfResource) Render(Clock) string {
	return fmt.Sprintf("ask for %s for each %s instead of %s", amountText(a.Resource, a.To), a.Role, amountText(a.Resource, a.From))
}

// Render says it in words.
func (a ShorterTime) Render(Clock) string {
	return fmt.Sprintf("if it takes less than %s, declare so: there is room until %s starts", spanText(a.Within), a.For)
}

// Render says it in words.
func (a QueueHasRoomLater) Render(clock Clock) string {
	verb := "use"
	if a.Borrow {
		verb = "borrow"
	}
	return fmt.Sprintf("%s may %s %s more after %s %s, about %s", theQueue(a.Queue, a.Login), verb, queueAmount(a.Resource, a.Amount),
		namesText(a.After), endText(len(a.After)), clock(a.At))
}

func endText(n int) string {
	if n == 1 {
		return "ends"
	}
	return "end"
}

// spanText writes a length of time for people: "40 min", "3 h", "2 days".
func spanText(d estimate.Span) string {
	switch {
	case d < 2*estimate.Hour:
		return fmt.Sprintf("%d min", max(1, int64(d/estimate.Minute)))
	case d < 48*estimate.Hour:
		return fmt.Sprintf("%d h", int64(d/estimate.Hour))
	}
	return fmt.Sprintf("%d days", int64(d/(24*estimate.Hour)))
}

// Render says it in words.
func (p Position) Render() string {
	if p.Place == 1 {
		return fmt.Sprintf("first of %d that wait", p.Of)
	}
	var parts []string
	add := func(n int, what string) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, what))
		}
	}
	add(p.Priority, "of higher priority")
	add(p.Overdue, "waited too long")
	add(p.Shorter, "shorter")
	add(p.Older, "older")
	add(p.Owed, "whose queue or user has had less")
	return fmt.Sprintf("number %d of %d that wait; ahead: %s", p.Place, p.Of, strings.Join(parts, ", "))
}

// Render says it in words.
func (x Expected) Render(clock Clock) string {
	later := ""
	if x.Later {
		later = "; rules about other pods are left out and may make it later"
	}
	words := "between %s and %s (%s%s)"
	if estimate.Span(x.To-x.From) > 24*estimate.Hour {
		words = "not before %s, and most likely by %s (%s%s)" // a range of days says little else
	}
	return fmt.Sprintf(words, clock(x.From), clock(x.To), basisText(x.Basis), later)
}

func basisText(b estimate.Basis) string {
	switch b {
	case estimate.BasisProgress:
		return "from the progress that is reported"
	case estimate.BasisDeclared:
		return "from the run times that were declared"
	case estimate.BasisHistory:
		return "from what these jobs took before"
	case estimate.BasisLimit:
		return "from their time limits"
	}
	return "a guess: nothing is known of how long these jobs run"
}

// Render says it in words.
func (t Tenure) Render(clock Clock) string {
	switch {
	case t.MakingRoom != 0:
		return "told at " + clock(t.MakingRoom) + " to make room for others"
	case t.Never:
		return "keeps what it has until it ends"
	}
	text := "may be stopped for more important work or for a queue that is guaranteed its share"
	if t.ForShorter {
		text = "may be stopped for shorter work, and goes on from where it was saved"
	}
	return text + ", from " + clock(t.SafeUntil) + " on"
}
