package scheduling

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/muster-dev/muster/internal/scheduling/placement"
)

// The kinds of reasons and advice that are about parts of GPUs.
const (
	CodeShare         Code = "ShortOfShare"
	CodeShareTooLarge Code = "ShareTooLarge"
	CodeLessShare     Code = "SmallerShare"
)

// ShortOfShare means that there are GPUs that would do, and that too little is
// free of each of them.
type ShortOfShare struct {
	// Role is the role whose members find no room, Members how many they are,
	// and Fits for how many there is room.
	Role          string
	Members, Fits int64
	// Share is what each needs of a GPU: what was asked for, and what comes with
	// it where that is what is short. Models are those that would do; no models
	// means any.
	Share  Share
	Models []string
	// Freest is what is free of the GPU with the most free.
	Freest Share
	// None is true where no GPU that would do may be given out.
	None bool
	// Holders have the rest, the longest holding first.
	Holders []GPUHolder
	// Foreign are the GPUs with processes that are not Muster's.
	Foreign []GPUForeign
	// Unhealthy are those that are out of order.
	Unhealthy []GPUUnhealthy
}

// ShareTooLarge means that no GPU has so much, even if everything were free.
type ShareTooLarge struct {
	// Role is the role whose members ask for it, Members how many they are, and
	// Fits for how many there would be room.
	Role          string
	Members, Fits int64
	// Share is what each needs, Models are those that would do.
	Share  Share
	Models []string
	// Most is the largest memory of a GPU that would do, in MiB; 0: none tells.
	Most int64
}

// SmallerShare advises to ask for a smaller part of a GPU for each member.
type SmallerShare struct {
	Role string
	// From is what is asked for, To the most with which it would start: they
	// differ in one of the two amounts.
	From, To Share
	// Models are those that would do; empty means any.
	Models []string
}

// Code is CodeShare.
func (ShortOfShare) Code() Code { return CodeShare }

// Code is CodeShareTooLarge.
func (ShareTooLarge) Code() Code { return CodeShareTooLarge }

// Code is CodeLessShare.
func (SmallerShare) Code() Code { return CodeLessShare }

// sharesEver finds a part of a GPU asked for that no GPU has, or more of them
// than all GPUs together.
func (d *diagnosis) sharesEver() Reason {
	for i := range d.req.Roles {
		r := &d.req.Roles[i]
		if !r.Share.some() || members(r) == 0 {
			continue
		}
		reason := ShareTooLarge{Role: r.Name, Members: members(r), Share: r.Share, Models: r.Models}
		d.left.each(r, func(room *room, at int) {
			dev := &room.node.Devices[at]
			reason.Most = max(reason.Most, dev.MemoryMiB)
			if part, ok := r.Share.portionOf(dev); ok {
				reason.Fits += Share{Milli: placement.Whole, MiB: dev.MemoryMiB}.times(part)
			}
		})
		if reason.Fits < reason.Members {
			return reason
		}
	}
	return nil
}

// sharesNow finds a role whose members' parts are not free.
func (d *diagnosis) sharesNow() Reason {
	for i := range d.req.Roles {
		r := &d.req.Roles[i]
		if !r.Share.some() || members(r) == 0 {
			continue
		}
		reason := ShortOfShare{Role: r.Name, Members: members(r), Share: r.Share, Models: r.Models, None: true}
		var whole Share // what the share comes to on the freest
		d.left.each(r, func(room *room, at int) {
			free, usable := room.left(at)
			part, ok := r.Share.portionOf(&room.node.Devices[at])
			if usable && ok {
				reason.None = false
				reason.Fits += free.times(part)
				if freer(free, reason.Freest, r.Share) {
					reason.Freest, whole = free, part
				}
			}
		})
		if reason.Fits < reason.Members {
			if reason.Fits == 0 && reason.Freest.Milli >= r.Share.Milli && reason.Freest.MiB >= r.Share.MiB {
				// What comes with what was asked for is short.
				reason.Share = whole
			}
			told := d.left.tell(r)
			reason.Holders, reason.Foreign, reason.Unhealthy = told.holders, told.foreign, told.unhealthy
			return reason
		}
	}
	return nil
}

// freer reports that more is free in a than in b, of what is asked for.
func freer(a, b, asked Share) bool {
	byMilli, byMiB := cmp.Compare(a.Milli, b.Milli), cmp.Compare(a.MiB, b.MiB)
	if asked.Milli == 0 {
		return cmp.Or(byMiB, byMilli) > 0
	}
	return cmp.Or(byMilli, byMiB) > 0
}

// shares tries a smaller part of a GPU: less of what was asked for, to a
// thousandth or a MiB.
func (t *trial) shares(i int) []Advice {
	r := &t.entry.req.Roles[i]
	var out []Advice
	try := func(from int64, set func(*Share, int64)) {
		k := most(from, func(k int64) bool { return t.starts(i, func(r *Role) { set(&r.Share, k) }) })
		if k > 0 {
			to := r.Share
			set(&to, k)
			out = append(out, SmallerShare{Role: r.Name, From: r.Share, To: to, Models: r.Models})
		}
	}
	try(r.Share.Milli, func(s *Share, to int64) { s.Milli = to })
	try(r.Share.MiB, func(s *Share, to int64) { s.MiB = to })
	return out
}

// Render says it in words.
func (r ShortOfShare) Render(clock Clock) string {
	text := r.need() + "; "
	switch {
	case r.None:
		text += "none may be given out"
	case r.Fits > 0:
		text += fmt.Sprintf("there is room for %d of them, and the freest has %s", r.Fits, r.Freest.like(r.Share))
	default:
		text += "the freest has " + r.Freest.like(r.Share)
	}
	var held []string
	for i, h := range r.Holders {
		if i == shown {
			held = append(held, "others")
			break
		}
		held = append(held, h.shareText(r.Share, clock))
	}
	if len(held) > 0 {
		text += "; held by " + strings.Join(held, ", ")
	}
	for _, f := range r.Foreign {
		text += ", 1 by " + f.text()
	}
	for _, u := range r.Unhealthy {
		text += fmt.Sprintf(", 1 is out of order (%s)", u.Why)
	}
	return text
}

// need is what is needed, in words.
func (r ShortOfShare) need() string {
	if r.Members == 1 {
		return "needs " + ShareText(r.Share, r.Models)
	}
	return fmt.Sprintf("needs %s for each of %d %s at once", ShareText(r.Share, r.Models), r.Members, plural(r.Members, r.Role))
}

// shareText names a holder and what it has: "vision/a (500m since 12:00)".
func (h GPUHolder) shareText(asked Share, clock Clock) string {
	who := h.String()
	switch {
	case h.Claim:
		who = "claim " + who + ", not Muster's"
	case h.Pod:
		who = "pod " + who
	}
	var has []string
	if h.Count > 0 {
		has = append(has, wantText(int64(h.Count), nil))
	}
	if h.Share.some() {
		has = append(has, h.Share.like(asked))
	}
	text := strings.Join(has, " and ")
	if h.Since != 0 {
		text += " since " + clock(h.Since)
	}
	return who + " (" + text + ")"
}

// Render says it in words.
func (r ShareTooLarge) Render(Clock) string {
	need := impossible + ShortOfShare{Role: r.Role, Members: r.Members, Share: r.Share, Models: r.Models}.need()
	switch {
	case r.Fits > 0:
		return fmt.Sprintf("%s; if everything were free there would be room for %d of them", need, r.Fits)
	case r.Most == 0:
		return need + "; no such GPU here tells how much memory it has"
	}
	return fmt.Sprintf("%s; the largest has %s", need, mibText(r.Most))
}

// Render says it in words.
func (a SmallerShare) Render(Clock) string {
	asked := Share{Milli: a.From.Milli}
	if a.To.Milli == a.From.Milli {
		asked = Share{MiB: a.From.MiB}
	}
	to := asked
	if to.MiB == 0 {
		to.Milli = a.To.Milli
	} else {
		to.MiB = a.To.MiB
	}
	return fmt.Sprintf("ask for %s for each %s instead of %s", ShareText(to, a.Models), a.Role, asked.like(asked))
}

// tenancy adds what a tenant has of one device to what it has of others.
func (h *GPUHolder) tenancy(p portion) {
	if p.share.Milli >= placement.Whole && p.share.MiB == 0 {
		h.Count++
	} else {
		h.Share.Milli += p.share.Milli
		h.Share.MiB += p.share.MiB
	}
	h.Since = min(h.Since, p.since)
}
