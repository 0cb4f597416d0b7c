package snapshot

import (
	"fmt"

	"github.com/muster-dev/muster/internal/scheduling"
	"github.com/muster-dev/muster/internal/scheduling/queue"
	"github.com/muster-dev/muster/internal/visibility"
)

// Redact returns a Snapshot as a caller may see it. What others have is there, or reasons
// would be wrong, but their namespaces, jobs, pods and users bear made-up names, the same
// ones throughout, and of processes on GPUs there is what the rule shows. Nodes and queues
// keep their names. (A rule of the caller about pods of a namespace of others, by its name,
// finds none then.) The mask makes users of the made-up names in what the core says, where
// the rule shows them. The snapshot s is not changed.
func Redact(s scheduling.Snapshot, rule visibility.Rule, logins visibility.Logins) (scheduling.Snapshot, scheduling.Mask) {
	if rule.Administrator {
		return s, scheduling.Mask{Queue: queuesOf(rule, logins)}
	}
	r := &redaction{rule: rule, namespaces: map[string]string{}, names: map[scheduling.Key]string{}, users: map[string]string{}}
	// 1. Users whose work is the caller's own keep their names.
	for i := range s.Requests {
		if rule.Sees(s.Requests[i].Namespace) {
			r.users[s.Requests[i].User] = s.Requests[i].User
		}
	}
	// 2. Everything by its made-up name.
	s.Requests = each(s.Requests, r.request)
	s.Placements = each(s.Placements, func(p *scheduling.Placement) { p.Gang = r.key(p.Gang) })
	s.Pods = each(s.Pods, func(p *scheduling.Pod) { p.Key = r.key(p.Key) })
	s.Quotas = each(s.Quotas, func(q *scheduling.Quota) { q.Key = r.key(q.Key) })
	s.Users.Usage = each(s.Users.Usage, func(u *queue.UserUsage) { u.User = r.user(u.User) })
	s.Nodes = each(s.Nodes, r.node)
	return s, r.mask(logins)
}

// MaskOf returns the mask for reasons that bear the real names.
func MaskOf(rule visibility.Rule, logins visibility.Logins) scheduling.Mask {
	if rule.Administrator {
		return scheduling.Mask{Queue: queuesOf(rule, logins)}
	}
	return scheduling.Mask{
		Queue: queuesOf(rule, logins),
		Key: func(k scheduling.Key) scheduling.Key {
			if rule.Sees(k.Namespace) {
				return k
			}
			return scheduling.Key{Namespace: rule.Person(k.Namespace, logins)}
		},
		Process: func(p scheduling.Process) scheduling.Process {
			p.User, p.Command = rule.Process(p.User, p.Command)
			return p
		},
	}
}

// queuesOf returns the login to show for the queue of a user; nil where there are none.
func queuesOf(rule visibility.Rule, logins visibility.Logins) func(string) string {
	if logins == nil {
		return nil
	}
	return func(name string) string { return rule.Queue(name, logins) }
}

// each returns a copy of a list with changed elements.
func each[T any](list []T, change func(*T)) []T {
	out := make([]T, len(list))
	for i, one := range list {
		change(&one)
		out[i] = one
	}
	return out
}

// redaction is which made-up names were given.
type redaction struct {
	rule       visibility.Rule
	namespaces map[string]string
	names      map[scheduling.Key]string
	users      map[string]string
}

// hidden stands for sentences about requests of others.
const hidden = "not shown"

func (r *redaction) request(q *scheduling.Request) {
	if !r.rule.Sees(q.Namespace) {
		q.LastEnd = ""
		for _, text := range []*string{&q.Refused, &q.Missing, &q.Unsupported} {
			if *text != "" {
				*text = hidden // that there is one decides
			}
		}
	}
	q.Key, q.User = r.key(q.Key), r.user(q.User)
}

// node hides the processes that hold GPUs beside pods.
func (r *redaction) node(n *scheduling.Node) {
	n.Devices = each(n.Devices, func(d *scheduling.Device) {
		if len(d.Foreign) > 0 {
			d.Foreign = each(d.Foreign, func(p *scheduling.Process) { p.User, p.Command = r.rule.Process(p.User, p.Command) })
		}
	})
}

func (r *redaction) key(k scheduling.Key) scheduling.Key {
	if r.rule.Sees(k.Namespace) {
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
		if made == r.rule.Own {
			made = "others-" + made // the caller's namespace has such a name
		}
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

// mask shows the users of made-up names, where the rule does.
func (r *redaction) mask(logins visibility.Logins) scheduling.Mask {
	queues := queuesOf(r.rule, logins)
	if !r.rule.ShowUsers {
		return scheduling.Mask{Queue: queues}
	}
	persons := map[string]string{}
	for namespace, made := range r.namespaces {
		persons[made] = r.rule.Person(namespace, logins)
	}
	return scheduling.Mask{Queue: queues, Key: func(k scheduling.Key) scheduling.Key {
		if person := persons[k.Namespace]; person != "" && !r.rule.Sees(k.Namespace) {
			return scheduling.Key{Namespace: person}
		}
		return k
	}}
}
