package snapshot

import (
	"fmt"

	"github.com/muster-dev/muster/internal/scheduling"
	"github.com/muster-dev/muster/internal/scheduling/queue"
)

// Redact returns a Snapshot as somebody may see it who may see one namespace
// alone: what others have is there, or reasons would be wrong, but their
// namespaces, jobs, pods, users and processes bear made-up names, the same ones
// throughout. Nodes and queues keep theirs. (A rule of one's own about pods of a
// namespace of others, by that one's name, finds none then.) What it is made from
// is not changed.
func Redact(s scheduling.Snapshot, own string) scheduling.Snapshot {
	r := &redaction{own: own, namespaces: map[string]string{}, names: map[scheduling.Key]string{}, users: map[string]string{}}
	// 1. Users whose work is one's own keep their names.
	for i := range s.Requests {
		if s.Requests[i].Namespace == own {
			r.users[s.Requests[i].User] = s.Requests[i].User
		}
	}
	// 2. Everything by its made-up name.
	requests := make([]scheduling.Request, len(s.Requests))
	for i, q := range s.Requests {
		q.Key, q.User = r.key(q.Key), r.user(q.User)
		requests[i] = q
	}
	placements := make([]scheduling.Placement, len(s.Placements))
	for i, p := range s.Placements {
		p.Gang = r.key(p.Gang)
		placements[i] = p
	}
	pods := make([]scheduling.Pod, len(s.Pods))
	for i, p := range s.Pods {
		p.Key = r.key(p.Key)
		pods[i] = p
	}
	quotas := make([]scheduling.Quota, len(s.Quotas))
	for i, q := range s.Quotas {
		q.Key = r.key(q.Key)
		quotas[i] = q
	}
	s.Requests, s.Placements, s.Pods, s.Quotas = requests, placements, pods, quotas
	s.Nodes = withoutProcesses(s.Nodes)
	s.Users = r.memory(s.Users)
	return s
}

// withoutProcesses takes out whose processes hold GPUs beside pods, and what
// they are.
func withoutProcesses(nodes []scheduling.Node) []scheduling.Node {
	out := make([]scheduling.Node, len(nodes))
	for i, n := range nodes {
		devices := make([]scheduling.Device, len(n.Devices))
		for k, d := range n.Devices {
			foreign := make([]scheduling.Process, len(d.Foreign))
			for j := range foreign {
				foreign[j] = scheduling.Process{PID: d.Foreign[j].PID, User: "somebody", Command: "a process"}
			}
			if len(foreign) > 0 {
				d.Foreign = foreign
			}
			devices[k] = d
		}
		n.Devices = devices
		out[i] = n
	}
	return out
}

// memory is what is known of the usage of users.
func (r *redaction) memory(users queue.Users) queue.Users {
	usage := make([]queue.UserUsage, len(users.Usage))
	for i, u := range users.Usage {
		u.User = r.user(u.User)
		usage[i] = u
	}
	users.Usage = usage
	return users
}

// redaction is which made-up names were given.
type redaction struct {
	own        string
	namespaces map[string]string
	names      map[scheduling.Key]string
	users      map[string]string
}

func (r *redaction) key(k scheduling.Key) scheduling.Key {
	if k.Namespace == r.own {
		return k
	}
	name := r.names[k]
	if name == "" {
		name = fmt.Sprintf("job-%d", len(r.names)+1)
		r.names[k] = name
	}
	return scheduling.Key{Namespace: r.namespace(k.Namespace), Name: name}
}

func (r *redaction) namespace(name string) string {
	made := r.namespaces[name]
	if made == "" {
		made = fmt.Sprintf("other-%d", len(r.namespaces)+1)
		r.namespaces[name] = made
	}
	return made
}

func (r *redaction) user(name string) string {
	made, known := r.users[name]
	if !known {
		made = fmt.Sprintf("user-%d", len(r.users)+1)
		r.users[name] = made
	}
	return made
}
