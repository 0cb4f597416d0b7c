package describe

import (
	"context"
	"maps"
	"slices"
)

// Logins are the logins of the users of queues, by queue; empty for a queue of no user. Nil: Muster
// has one user, or runs on a cluster.
type Logins map[string]string

// LoginsOf returns those that the door named.
func LoginsOf(all []Document) Logins {
	out := Logins{}
	for i := range all {
		out[all[i].Name] = all[i].Login
	}
	return out
}

// LoginsOn asks the door of a machine that several users share; another Muster has no logins.
// Without an answer queues have their names.
func LoginsOn(ctx context.Context, shared bool, ask Asker) Logins {
	if !shared {
		return nil
	}
	all, err := ask(ctx)
	if err != nil {
		return nil
	}
	return LoginsOf(all)
}

// Show is the name of a queue for tables: that of a user is the login.
func (l Logins) Show(queue string) string {
	if login := l[queue]; login != "" {
		return login
	}
	return queue
}

// each is Show for several queues.
func (l Logins) each(queues []string) []string {
	out := make([]string, len(queues))
	for i, queue := range queues {
		out[i] = l.Show(queue)
	}
	return out
}

// title is the name of a queue above its page. Commands that change a queue take its name.
func (l Logins) title(queue string) string {
	if login := l[queue]; login != "" {
		return login + " (queue " + queue + ")"
	}
	return queue
}

// queue is the name of the queue that a word of the command line names: a queue, or the login
// of one user with a queue.
func (l Logins) queue(word string) string {
	if _, is := l[word]; is {
		return word
	}
	name := word
	for queue, login := range l {
		if login != word {
			continue
		}
		if name != word {
			return word // two users have this login
		}
		name = queue
	}
	return name
}

// all are the logins, for suggestions.
func (l Logins) all() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Values(l)), func(login string) bool { return login == "" })
}
