package scheduling

import "sort"

// Result is what a decision comes to: for every request that is not placed and
// not finished, a plan or a reason.
type Result struct {
	// Plans are to be journalled, in the order in which they were made.
	Plans []Plan
	// Waiting are the others, in their order.
	Waiting []Waiting
}

// Decide plans every request that fits, in order, on what is left by all that
// is held and by the plans before it. It changes nothing in the snapshot.
func Decide(s Snapshot) Result {
	// 1. What is held, and by whom.
	ledger := NewLedger(s)
	left := newHouse(s.Nodes, ledger)
	placed := placements(s)

	// 2. In order, each on what the ones before it left.
	var result Result
	for _, req := range inOrder(s.Requests) {
		if _, here := placed[req.UID]; here || req.Finished {
			continue
		}
		if reason := notNow(req, s.Now); reason != nil {
			result.Waiting = append(result.Waiting, req.waiting(reason))
			continue
		}
		members, trial := left.fit(req)
		if members == nil {
			reason := diagnose(req, s, left, ledger)
			result.Waiting = append(result.Waiting, req.waiting(reason))
			continue
		}
		// 3. What was planned is held from now on.
		trial.commit()
		hold(ledger, req, members, s.Now)
		result.Plans = append(result.Plans, Plan{
			Key: req.Key, UID: req.UID, Pod: req.Pod, Attempt: req.Attempt + 1, Members: members,
		})
	}
	return result
}

func (r *Request) waiting(reason Reason) Waiting {
	return Waiting{Key: r.Key, UID: r.UID, Pod: r.Pod, Reason: reason}
}

// placements returns the newest placement of each request.
func placements(s Snapshot) map[string]*Placement {
	out := map[string]*Placement{}
	for i := range s.Placements {
		p := &s.Placements[i]
		if have := out[p.UID]; have == nil || have.Attempt < p.Attempt {
			out[p.UID] = p
		}
	}
	return out
}

// inOrder sorts requests: the highest priority, then the oldest, then by name.
func inOrder(requests []Request) []*Request {
	out := make([]*Request, len(requests))
	for i := range requests {
		out[i] = &requests[i]
	}
	sort.Slice(out, func(i, j int) bool {
		a, b := out[i], out[j]
		switch {
		case a.Priority != b.Priority:
			return a.Priority > b.Priority
		case a.Created != b.Created:
			return a.Created < b.Created
		case a.Key != b.Key:
			return a.before(b.Key)
		}
		return a.UID < b.UID
	})
	return out
}

// notNow returns why a request is not to be planned whatever is free, or nil.
func notNow(req *Request, now Instant) Reason {
	switch {
	case req.Suspended:
		return Suspended{}
	case req.Draining:
		return Draining{}
	case req.Refused != "":
		return Refused{Words: req.Refused}
	case req.NotBefore > now:
		return CoolingOff{Until: req.NotBefore}
	}
	return nil
}

// hold enters a plan in the ledger, so that later reasons name it.
func hold(l *Ledger, req *Request, members []Assignment, now Instant) {
	roles := map[string]*Role{}
	for i := range req.Roles {
		roles[req.Roles[i].Name] = &req.Roles[i]
	}
	for _, m := range members {
		role := roles[m.Role]
		if role.done(m.Index) {
			continue
		}
		l.add(Holding{
			Key: req.Key, Pod: req.Pod, Role: m.Role, Index: m.Index, Node: m.Node, Since: now,
			GPUs: m.GPUs, Ports: append(portList(m.Port), role.FixedPorts...), Resources: role.Resources,
		})
	}
}

// Explain says where the named gang stands: why it waits, since when it is
// placed, or that it fits now. It is false if the snapshot has no such gang.
func Explain(s Snapshot, key Key) (Reason, bool) {
	return explain(s, key, false)
}

// ExplainPod is [Explain] for a lone pod.
func ExplainPod(s Snapshot, key Key) (Reason, bool) {
	return explain(s, key, true)
}

func explain(s Snapshot, key Key, pod bool) (Reason, bool) {
	for i := range s.Requests {
		req := &s.Requests[i]
		if req.Key != key || req.Pod != pod {
			continue
		}
		if p := placements(s)[req.UID]; p != nil {
			return Placed{Since: p.Created, Attempt: p.Attempt}, true
		}
		if req.Finished {
			return Finished{}, true
		}
		for _, w := range Decide(s).Waiting {
			if w.UID == req.UID {
				return w.Reason, true
			}
		}
		return Fits{}, true
	}
	return nil, false
}
