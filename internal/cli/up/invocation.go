package up

// invocation is how a person calls muster for a data folder.
type invocation struct {
	// program is "muster", with the flags that name the folder.
	program string
	// system says that the folder is that of all users of the machine.
	system bool
}

// verb is the command line of a verb that everybody uses, such as status.
func (i invocation) verb(name string) string { return i.program + " " + name }

// start and stop are the command lines of up and down.
func (i invocation) start() string { return i.asRoot("up") }
func (i invocation) stop() string  { return i.asRoot("down") }

func (i invocation) asRoot(verb string) string {
	if i.system {
		return "sudo " + i.program + " " + verb + " --system"
	}
	return i.verb(verb)
}
