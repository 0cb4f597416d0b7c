package visibility

// Others stands for the namespace or the user of somebody whose name is not shown.
const Others = "others"

// Rule says which names a caller sees. The zero value shows no names of others.
type Rule struct {
	// Own is the namespace whose names the caller sees; empty: none.
	Own string
	// Login is the caller's login on the machine, who sees the commands of their own
	// processes; empty: not known.
	Login string
	// Administrator sees all names.
	Administrator bool
	// ShowUsers shows everybody who holds which GPU and since when, by login.
	ShowUsers bool
}

// Everything is the rule for an administrator.
func Everything() Rule { return Rule{Administrator: true} }

// Sees reports whether the caller sees the names of jobs and pods in a namespace.
func (r Rule) Sees(namespace string) bool {
	return r.Administrator || r.Own != "" && namespace == r.Own
}

// Person is the name by which the caller knows the owner of a namespace.
func (r Rule) Person(namespace string, logins Logins) string {
	if !r.Administrator && !r.ShowUsers && !r.Sees(namespace) {
		return Others
	}
	if login, is := logins.OfNamespace(namespace); is {
		return login
	}
	if r.Sees(namespace) {
		return namespace
	}
	return Others
}

// Queue is the login to show for the queue of a user of the machine. It is empty for other
// queues, and where the caller does not see users: then the queue's name is shown.
func (r Rule) Queue(name string, logins Logins) string {
	login, is := logins.OfNamespace(name)
	if !is || !r.Administrator && !r.ShowUsers && !r.Sees(name) {
		return ""
	}
	return login
}

// Process is a process on a GPU that Muster did not start, as the caller sees it: its
// user and its command line. The command is empty if only the user is shown.
func (r Rule) Process(user, command string) (shownUser, shownCommand string) {
	switch {
	case r.Administrator, r.ShowUsers && r.Login != "" && user == r.Login:
		return user, command
	case r.ShowUsers:
		return user, ""
	}
	return "somebody", "a process"
}
