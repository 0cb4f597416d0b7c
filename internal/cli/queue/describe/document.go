package describe

import (
	"math"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/scheduling/queue"
	"github.com/muster-dev/muster/internal/scheduling/queue/manifest"
)

// Document is what `muster queue describe -o json` prints of a queue.
type Document struct {
	// Name is the queue's name, State how it stands in words.
	Name  string `json:"name"`
	State string `json:"state"`
	// Login is the user of the queue, on a machine of several users.
	Login string `json:"login,omitempty"`
	// Parent is the queue above it, empty for a child of the root.
	Parent   string   `json:"parent,omitempty"`
	Children []string `json:"children,omitempty"`
	// Problems are what in it cannot be honoured.
	Problems []string `json:"problems,omitempty"`
	// Running and Waiting count the jobs in it and below.
	Running int `json:"running"`
	Waiting int `json:"waiting"`
	// Share is its part of the cluster above its guarantee, by weight, 0 to 1.
	Share float64 `json:"share"`
	// Guaranteed, Used and Borrowed are amounts by class.
	Guaranteed v1alpha1.ResourceAmounts `json:"guaranteed,omitempty"`
	Used       v1alpha1.ResourceAmounts `json:"used,omitempty"`
	Borrowed   v1alpha1.ResourceAmounts `json:"borrowed,omitempty"`
	// CanTake is how much more it could take, of each class that is limited.
	CanTake v1alpha1.ResourceAmounts `json:"canTake,omitempty"`
	// Users and Jobs are those of the queue itself, without the queues below.
	Users []User `json:"users,omitempty"`
	Jobs  []Job  `json:"jobs,omitempty"`
}

// User is what one user has in a queue.
type User struct {
	// Name is the login on a machine of several users.
	Name    string                   `json:"name"`
	Holds   v1alpha1.ResourceAmounts `json:"holds,omitempty"`
	Running int                      `json:"running"`
	Waiting int                      `json:"waiting"`
}

// Job is one job of a queue.
type Job struct {
	// Name is namespace/name; empty if the name is not shown.
	Name string `json:"name"`
	User string `json:"user,omitempty"`
	// Runs is true if it holds what it asks for; else it waits.
	Runs bool `json:"runs"`
	// Amounts are what it holds, or asks for.
	Amounts v1alpha1.ResourceAmounts `json:"amounts,omitempty"`
}

// document puts the page into a document.
func (p *page) document() Document {
	tree := p.now.Tree
	amounts := func(of func(queue.Class) int64) v1alpha1.ResourceAmounts {
		return manifest.Quantities(tree.Classes(), of)
	}
	state, _ := p.state()
	d := Document{
		Name: p.name, State: state, Login: p.logins[p.name], Parent: tree.Name(tree.Parent(p.queue)), Share: tree.Share(p.queue),
		Guaranteed: amounts(func(c queue.Class) int64 { return tree.Guaranteed(p.queue, c) }),
		Used:       amounts(func(c queue.Class) int64 { return tree.Used(p.queue, c) }),
		Borrowed:   amounts(func(c queue.Class) int64 { return tree.Borrowed(p.queue, c) }),
		CanTake: amounts(func(c queue.Class) int64 {
			if room := p.room(c); room < math.MaxInt64 {
				return room
			}
			return 0
		}),
	}
	for _, child := range tree.Children(p.queue, nil) {
		d.Children = append(d.Children, tree.Name(child))
	}
	for _, problem := range p.now.Of(p.name) {
		d.Problems = append(d.Problems, problem.String())
	}
	d.Running, d.Waiting = p.now.Count(p.queue)
	names, counts := p.counts()
	for _, name := range names {
		u := tree.User(name)
		d.Users = append(d.Users, User{
			Name: name, Holds: amounts(func(c queue.Class) int64 { return tree.Held(p.queue, u, c) }),
			Running: counts[name][0], Waiting: counts[name][1],
		})
	}
	for i := range p.now.Work {
		if work := &p.now.Work[i]; work.Queue == p.name {
			d.Jobs = append(d.Jobs, Job{Name: work.Name, User: work.User, Runs: work.Holds, Amounts: amounts(func(c queue.Class) int64 { return work.Ask[c] })})
		}
	}
	return d
}
