package scheduling

import "strings"

// choice is a room for one member and the model that it would get there.
type choice struct {
	room  int
	model string
	score [5]int64
}

// best returns the best room for the next member of a role; its room is -1 if
// there is none. Compared in this order: the preferred model; a node without
// GPUs for a member that needs none; a node that the gang is on already; the
// fewest GPUs left over; the least CPU left over; the node's name.
func (t *trial) best(r *Role, allowed []bool) choice {
	best := choice{room: -1}
	for i := range t.house.rooms {
		if !allowed[i] {
			continue
		}
		room := t.room(i)
		if room.free.short(r.Resources) != "" || !room.hasPorts(r.FixedPorts) {
			continue
		}
		c, ok := room.choose(r)
		if !ok {
			continue
		}
		c.room = i
		c.score[1] = 0
		if r.GPUs == 0 && len(room.node.Devices) > 0 {
			c.score[1] = 1
		}
		c.score[2] = 1
		if _, here := t.rooms[i]; here {
			c.score[2] = 0
		}
		c.score[4] = room.free.MilliCPU - r.Resources.MilliCPU
		if best.room < 0 || less(c.score, best.score) {
			best = c
		}
	}
	return best
}

func less(a, b [5]int64) bool {
	for i := range a {
		if a[i] != b[i] {
			return a[i] < b[i]
		}
	}
	return false
}

func (r *room) hasPorts(ports []int32) bool {
	for _, p := range ports {
		if r.ports[p] {
			return false
		}
	}
	return true
}

// choose picks the model for a member on this node: the first in the role's
// preference of which enough are free; without preference the one that leaves
// the fewest behind.
func (r *room) choose(role *Role) (choice, bool) {
	if role.GPUs == 0 {
		return choice{}, true
	}
	free := map[string]int64{}
	var models []string
	for _, d := range r.gpus {
		m := strings.ToLower(d.Model)
		if free[m] == 0 {
			models = append(models, m)
		}
		free[m]++
	}
	if len(role.Models) > 0 {
		for rank, want := range role.Models {
			if left := free[strings.ToLower(want)] - int64(role.GPUs); left >= 0 {
				return choice{model: want, score: [5]int64{int64(rank), 0, 0, left}}, true
			}
		}
		return choice{}, false
	}
	var best choice
	found := false
	for _, m := range models {
		left := free[m] - int64(role.GPUs)
		if left < 0 || (found && left >= best.score[3]) {
			continue
		}
		best, found = choice{model: m, score: [5]int64{0, 0, 0, left}}, true
	}
	return best, found
}
