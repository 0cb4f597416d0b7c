package scheduling

import (
	"fmt"
	"strings"

	"github.com/muster-dev/muster/internal/scheduling/placement"
)

// Share is a part of one GPU. As a wish, the amount that is 0 follows from the
// other and the GPU; as what somebody has, both are known, but for MiB where
// the GPU does not tell its memory. The zero value is no part: whole GPUs, or
// none.
type Share struct {
	// Milli is how much of the GPU, in thousandths.
	Milli int64
	// MiB is how much of its memory.
	MiB int64
}

// some reports that it is a part of a GPU.
func (s Share) some() bool { return s.Milli > 0 || s.MiB > 0 }

// wantsGPU reports that members of the role need a GPU or a part of one.
func (r *Role) wantsGPU() bool { return r.GPUs > 0 || r.Share.some() }

// milli is how much of GPUs a member of the role takes, in thousandths. What
// memory alone comes to depends on the GPU: it is the least, on the GPU with
// the most memory among those that will do.
func (c *Core) milli(r *Role) int64 {
	switch {
	case r.GPUs > 0:
		return int64(r.GPUs) * placement.Whole
	case r.Share.Milli > 0:
		return r.Share.Milli
	case r.Share.MiB == 0:
		return 0
	}
	most := int64(0)
	for model, memory := range c.memories {
		if r.accepts(Device{Model: model}) {
			most = max(most, memory)
		}
	}
	if r.Share.MiB >= most {
		return placement.Whole
	}
	return (r.Share.MiB*placement.Whole + most - 1) / most
}

// asked is the part of a GPU that a member which holds something asked for; what
// is not known of its role any more counts as it was given.
func (c *Core) asked(e *entry, h *held) Share {
	for i := range e.req.Roles {
		if e.req.Roles[i].Name == h.role {
			return e.req.Roles[i].Share
		}
	}
	for _, s := range h.seats {
		if s.Devices != 0 && s.Milli < placement.Whole {
			return Share{Milli: int64(s.Milli), MiB: s.MiB}
		}
	}
	return Share{}
}

// given is what a seat has of each of its devices; no share if that is all.
func given(s placement.Seat, r *Role) Share {
	if !r.Share.some() {
		return Share{}
	}
	return Share{Milli: int64(s.Milli), MiB: s.MiB}
}

// seatShare seats somebody who has a part of a device already, exactly as it
// was given; where the device tells another size of its memory since, by the
// thousandths alone. It is false where that is not free.
func (c *Core) seatShare(on placement.NodeID, uuid string, s Share) (placement.Seat, bool) {
	asks := []placement.Ask{{ShareMilli: s.Milli, ShareMiB: s.MiB}, {ShareMilli: s.Milli}}
	if s.Milli >= placement.Whole {
		asks = []placement.Ask{{ShareMiB: s.MiB}, {GPUs: 1}}
	}
	for _, ask := range asks {
		if seat, ok := c.seat(ask, on, uuid); ok {
			return seat, true
		}
	}
	return placement.Seat{}, false
}

// left is what is free of a device of the node; false if it may not be given
// out.
func (r *room) left(device int) (Share, bool) {
	d := &r.node.Devices[device]
	if !d.usable() {
		return Share{}, false
	}
	free := Share{Milli: placement.Whole, MiB: d.MemoryMiB}
	for _, u := range r.tenants[device] {
		free.Milli -= u.share.Milli
		free.MiB -= u.share.MiB
	}
	return Share{Milli: max(0, free.Milli), MiB: max(0, free.MiB)}, true
}

// lodgeSeats enters whose the devices of a member's seats are.
func (c *Core) lodgeSeats(r *room, who *tenant, seats []placement.Seat) {
	var few [placement.MaxDevices]string
	for _, s := range seats {
		share := Share{Milli: int64(s.Milli), MiB: s.MiB}
		for _, uuid := range c.cluster.SeatDevices(s, few[:0]) {
			if d := r.node.device(uuid); d >= 0 {
				r.tenants[d] = append(r.tenants[d], portion{tenant: who, share: share})
			}
		}
	}
}

// portionOf is what the share takes of a device, and whether the device could
// give that if it were free.
func (s Share) portionOf(d *Device) (Share, bool) {
	switch {
	case s.MiB > d.MemoryMiB:
		return Share{}, false
	case s.MiB == 0:
		return Share{Milli: s.Milli, MiB: s.Milli * d.MemoryMiB / placement.Whole}, true
	case s.Milli == 0:
		return Share{Milli: max(1, (s.MiB*placement.Whole+d.MemoryMiB-1)/d.MemoryMiB), MiB: s.MiB}, true
	}
	return s, true
}

// times is how often a part goes into what is free.
func (s Share) times(part Share) int64 {
	n := s.Milli / max(1, part.Milli)
	if part.MiB > 0 {
		n = min(n, s.MiB/part.MiB)
	}
	return n
}

// ShareText names a part of a GPU for people: "250m of a GPU", "8 GiB of the
// memory of an A100 or H100".
func ShareText(s Share, models []string) string {
	what := "a GPU"
	if len(models) > 0 {
		what = article(models[0]) + " " + strings.Join(models, " or ")
	}
	switch {
	case s.MiB == 0:
		return fmt.Sprintf("%dm of %s", s.Milli, what)
	case s.Milli == 0:
		return fmt.Sprintf("%s of the memory of %s", mibText(s.MiB), what)
	}
	return fmt.Sprintf("%dm of %s and %s of its memory", s.Milli, what, mibText(s.MiB))
}

// like is the share in the amounts that another was asked for in: "100m",
// "4 GiB", "100m and 4 GiB".
func (s Share) like(asked Share) string {
	switch {
	case asked.MiB == 0:
		return fmt.Sprintf("%dm", s.Milli)
	case asked.Milli == 0:
		return mibText(s.MiB)
	}
	return fmt.Sprintf("%dm and %s", s.Milli, mibText(s.MiB))
}

// mibText writes an amount of memory without rounding: "8 GiB", "8193 MiB".
func mibText(mib int64) string {
	if mib >= 1024 && mib%1024 == 0 {
		return fmt.Sprintf("%d GiB", mib/1024)
	}
	return fmt.Sprintf("%d MiB", mib)
}
