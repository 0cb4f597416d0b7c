// Package wire is what a cluster and the first process of one of its machines
// say to each other: a [Setup] as the process's argument, then [Order]s on its
// standard input and [Event]s on its standard output, one JSON object a line.
//
// It owns the types alone; it knows neither who sends them nor what programs
// do.
package wire

// Setup is what a machine is before anything runs on it.
type Setup struct {
	// Hostname is the machine's name.
	Hostname string
	// Binds are folders or files of the host that the machine sees elsewhere,
	// made in this order.
	Binds []Bind
	// Tmpfs are folders that are empty and the machine's own.
	Tmpfs []string
	// Sysctls are files below /proc/sys of the machine's network, and what is
	// written into them.
	Sysctls map[string]string
	// Masks are shown instead of files below /proc/sys that belong to the
	// whole host, so that nobody on the machine changes them.
	Masks []Bind
}

// Bind shows the host's From as To.
type Bind struct{ From, To string }

// Order asks for one thing; exactly one of its fields besides ID is set.
type Order struct {
	// ID is repeated in the answer.
	ID     int     `json:"id"`
	Run    *Run    `json:",omitempty"`
	Kill   *Kill   `json:",omitempty"`
	Link   *Link   `json:",omitempty"`
	Bridge *Bridge `json:",omitempty"`
}

// Run starts a program.
type Run struct {
	// Name is what the program is called in events and in [Kill].
	Name string
	// Line is its path and arguments.
	Line []string
	// Env is its environment, KEY=value.
	Env []string
	// Log is the file that its output is appended to.
	Log string
}

// Kill sends a signal to a program by its name.
type Kill struct {
	Name   string
	Signal int
}

// Link gives a network link an address and brings it up.
type Link struct {
	// Name of a link that lies in the machine's network.
	Name string
	// Address as in 10.1.0.2/24; empty: none.
	Address string
	// Master is the bridge that the link is put into; empty: none.
	Master string
	// Routes are destinations (10.244.1.0/24, or "default") and the gateways
	// that lead there.
	Routes map[string]string
}

// Bridge makes a bridge and gives it an address.
type Bridge struct{ Name, Address string }

// Event is an answer to an order, or the end of a program.
type Event struct {
	// Answer is the ID of the order that was carried out; 0 for none. The
	// first event of a machine answers order 0: it stands.
	Answer int `json:"answer"`
	// Error says why an order could not be carried out.
	Error string `json:",omitempty"`
	// Ended is the name of a program that has ended, How how.
	Ended string `json:",omitempty"`
	How   string `json:",omitempty"`
}
