package describe

import (
	"context"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/output"
	"github.com/muster-dev/muster/internal/cli/queue/survey"
	"github.com/muster-dev/muster/internal/cli/suggestion"
	"github.com/muster-dev/muster/internal/cli/terminal"
	"github.com/muster-dev/muster/internal/visibility"
)

// Seen describes every queue, by name, with the users and jobs that a caller sees.
func Seen(ctx context.Context, reader client.Reader, rule visibility.Rule, logins visibility.Logins) ([]Document, error) {
	now, err := survey.Read(ctx, reader)
	if err != nil {
		return nil, err
	}
	documents := []Document{}
	for _, name := range now.Names() {
		q, ok := now.Tree.Find(name)
		if !ok {
			continue
		}
		d := (&page{now: now, queue: q, name: name}).document()
		d.Login = rule.Queue(name, logins)
		documents = append(documents, d.seen(rule, logins))
	}
	return documents, nil
}

// seen is the document with the names that a caller sees. Where users are not shown, users and
// jobs of others are left out: the counts and amounts of the queue remain.
func (d Document) seen(rule visibility.Rule, logins visibility.Logins) Document {
	own := map[string]bool{}
	jobs := d.Jobs
	d.Jobs = nil
	for _, job := range jobs {
		namespace, _, _ := strings.Cut(job.Name, "/")
		sees := rule.Sees(namespace)
		own[job.User] = own[job.User] || sees
		switch user := logins.OfUser(job.User); {
		case sees:
			job.User = user
		case rule.ShowUsers:
			job.Name, job.User = "", rule.Person(namespace, logins)
		default:
			continue
		}
		d.Jobs = append(d.Jobs, job)
	}
	d.Users = slices.DeleteFunc(slices.Clone(d.Users), func(u User) bool { return !own[u.Name] && !rule.ShowUsers && !rule.Administrator })
	for i := range d.Users {
		d.Users[i].Name = known(d.Users[i].Name, own[d.Users[i].Name] || rule.Administrator, logins)
	}
	return d
}

// known is the name of a user to show: of the machine by login, and any other only to who sees
// their jobs.
func known(user string, sees bool, logins visibility.Logins) string {
	if login := logins.OfUser(user); login != user || sees {
		return login
	}
	return visibility.Others
}

// Asker has Muster describe every queue.
type Asker func(context.Context) ([]Document, error)

// AtDoor asks at the door.
func AtDoor(f *connection.Factory) Asker {
	return func(ctx context.Context) ([]Document, error) {
		manager, err := f.Visitor()
		if err != nil {
			return nil, err
		}
		namespace, err := f.Namespace()
		if err != nil {
			return nil, err
		}
		var all []Document
		err = manager.Ask(ctx, namespace, "/queues", nil, &all)
		return all, err
	}
}

// answered prints what the door said of the named queues.
func answered(all []Document, streams terminal.Streams, format output.Format, names []string) error {
	logins := LoginsOf(all)
	there := make([]string, len(all))
	for i := range all {
		there[i] = all[i].Name
	}
	documents := make([]Document, 0, len(names))
	for _, name := range names {
		at := slices.Index(there, logins.queue(name))
		if at < 0 {
			return exit.NotFound("there is no queue %s%s", name, suggestion.Phrase(name, append(there, logins.all()...)))
		}
		documents = append(documents, all[at])
	}
	return show(documents, logins, streams, format)
}
