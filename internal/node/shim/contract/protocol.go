package contract

import "time"

// The names in a container's folder.
const (
	// SpecFile holds the Spec.
	SpecFile = "spec.json"
	// IdentityFile holds the Identity of the shim.
	IdentityFile = "shim.json"
	// ExitFile holds the Exit, once no process of the tree is left.
	ExitFile = "exit.json"
	// SocketFile is the control socket.
	SocketFile = "control"
	// LogFolder holds the log files.
	LogFolder = "logs"
	// ShimLogFile is what the shim itself has to say.
	ShimLogFile = "shim.log"
	// OverlayFolder holds what mount targets that do not exist on the host
	// need to come into being.
	OverlayFolder = "overlay"
	// RootFolder is where the isolated tier assembles the tree it moves to.
	RootFolder = "root"
)

// The files that a shim is started with, besides the standard ones. Its one
// argument is the container's folder.
const (
	// OrderFD is a connected stream socket: muster writes one Order and reads
	// Replies as if it had sent OpWait. Without an Order the shim ends at once
	// and nothing is started.
	OrderFD = 3
	// ListenFD is the listening control socket.
	ListenFD = 4
)

// Identity tells a shim from any other process that bears its number later.
type Identity struct {
	// Boot is the kernel's boot id.
	Boot string `json:"boot"`
	// PID is the shim's number on the host.
	PID int `json:"pid"`
	// StartTicks is the shim's start time as /proc/<pid>/stat has it.
	StartTicks uint64 `json:"startTicks"`
	// Groups are the container's control groups.
	Groups []Group `json:"groups,omitempty"`
}

// Group is one control group of a container.
type Group struct {
	// Path is the group's folder.
	Path string `json:"path"`
	// Unified says that the group is of version 2, which can be entered at
	// birth and killed as a whole. Groups of version 1 are entered by thread.
	Unified bool `json:"unified,omitempty"`
	// Memory says that the group bounds memory and counts kills.
	Memory bool `json:"memory,omitempty"`
}

// Order is what muster tells a shim to begin with.
type Order struct {
	// HostPID is the shim's number on the host.
	HostPID int `json:"hostPID"`
	// Groups are the control groups that the tree lives in.
	Groups []Group `json:"groups,omitempty"`
	// Processes is the user's limit of processes (RLIMIT_NPROC) where no control group keeps it.
	// 0: there is none, or a control group keeps it.
	Processes int64 `json:"processes,omitempty"`
}

// Op is what a connection to the control socket asks for.
type Op string

// The operations. Each connection carries one.
const (
	// OpWait answers with a Reply now and at each change, until the exit.
	OpWait Op = "wait"
	// OpStop stops the container: every process gets SIGTERM, and the rest is killed after Grace.
	OpStop Op = "stop"
	// OpSignal sends Signal to the main process.
	OpSignal Op = "signal"
	// OpResize sets the terminal's size.
	OpResize Op = "resize"
	// OpExec runs one more command, and kills it when the connection closes.
	// Three files come along for its standard streams; with TTY none, and the
	// terminal's master comes back with the first Reply.
	OpExec Op = "exec"
	// OpInput feeds the one file that comes along to the main process's
	// standard input, and answers when it has ended.
	OpInput Op = "input"
	// OpWatch answers with one byte, now and then, after output was logged.
	OpWatch Op = "watch"
)

// Request is the first line on a connection, as JSON.
type Request struct {
	Op Op `json:"op"`
	// Grace belongs to OpStop.
	Grace time.Duration `json:"grace,omitempty"`
	// Signal belongs to OpSignal.
	Signal int `json:"signal,omitempty"`
	// Columns and Rows belong to OpResize and OpExec.
	Columns uint16 `json:"columns,omitempty"`
	Rows    uint16 `json:"rows,omitempty"`
	// Argv, Env, Dir and TTY belong to OpExec, as ExecOptions has them.
	Argv []string `json:"argv,omitempty"`
	Env  []string `json:"env,omitempty"`
	Dir  string   `json:"dir,omitempty"`
	TTY  bool     `json:"tty,omitempty"`
}

// Reply is a line that the shim answers with, as JSON.
type Reply struct {
	// Started says that the main process, or the command of OpExec, runs.
	Started bool `json:"started,omitempty"`
	// PID is its number in the container's own process namespace.
	PID int `json:"pid,omitempty"`
	// StartedAt is when it was executed.
	StartedAt time.Time `json:"startedAt,omitzero"`
	// Exit is how it ended. It is the last reply of OpWait and OpExec.
	Exit *Exit `json:"exit,omitempty"`
	// Done says that the operation was carried out.
	Done bool `json:"done,omitempty"`
	// Ended says that it came too late: the main process has ended.
	Ended bool `json:"ended,omitempty"`
	// Error says why the operation could not be carried out.
	Error string `json:"error,omitempty"`
}
