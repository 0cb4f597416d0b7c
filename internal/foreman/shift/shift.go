// Package shift is what a worker and its foreman say to one another, and the
// names of the files that they share.
//
// One request does everything: a worker reports what it has done and what it
// still holds, and asks for more. It is sent as JSON by HTTP, on a socket in the
// foreman's folder, with the token of the stage that the worker belongs to.
//
// Files are shared with the foreman, or they are carried: a worker that does not
// see the foreman's folder gets the files of a datum as one stream and sends what
// it made of it as another (package parcel). Its socket and its token are in a
// folder of its stage, the post, which is all that it sees of the foreman.
package shift

import (
	"net/http"
	"time"
)

// Names in the foreman's folder, and in the folder of a stage in it.
const (
	// SocketFile is where the foreman listens: there, and in each post.
	SocketFile = "socket"
	// TokenFile is, in a stage's folder or its post, what its workers are known by.
	TokenFile = "token"
	// ShownFolder is, in a stage's folder, what is at the path that the stage names, where
	// its members share the folder of the datum: links to its inputs by their names, and to
	// its output. It is not in the datum's, which members may be able to change.
	ShownFolder = "shown"
)

// Names in the folder of a datum.
const (
	// InFolder has a folder for each input.
	InFolder = "in"
	// OutFolder is where the program writes.
	OutFolder = "out"
	// LogFile is what the program said, of every try.
	LogFile = "log"
	// GivenFile is there once a worker was given the datum, until a try is under way.
	GivenFile = "given"
	// BegunFile is there from then on.
	BegunFile = "begun"
	// SecretFile is what members of a job that computes a datum together know one
	// another by, where they are to.
	SecretFile = "secret"
	// LeaveFile is there once a member of a job was told to end that may leave it in order.
	LeaveFile = "leave"
	// OutcomeFile is an [Outcome], there once the datum is computed, so that
	// it is known of also where nobody could be told. All three are one file, the
	// mark, which says by its name how far the datum is: see [Advance].
	OutcomeFile = "outcome.json"
)

// Path is where requests go, with the work's name behind it.
const Path = "/shift/"

// DatumsPath is, behind that, where the files of a datum are got (GET) and brought
// (PUT), with the datum's ID behind it and the worker's name as the parameter
// [WorkerParameter].
const DatumsPath = "/datums/"

// WorkerParameter names who gets or brings files.
const WorkerParameter = "worker"

// SharedPath is, behind the work's name, where members of a job that computes a datum
// together get its files (GET), and PartPath where each brings what it wrote (PUT). Where
// one of them leads, members ask there when to (GET): for the leader that is once all
// others have brought theirs, for these once the leader asks. The answer is
// StatusNoContent, or [StatusNotYet] after a while.
const (
	SharedPath = "/shared"
	PartPath   = "/part"
)

// Headers by which the door tells a foreman what it knows of the pod that asks: the
// member of a job that it is, as role/index, its UID, the second in which it was made,
// which job it is of ([JobAttribute]), and which attempt of that. What is said there by whoever asks the door is
// taken out.
const (
	MemberHeader = "X-Muster-Member"
	PodHeader    = "X-Muster-Pod"
	BornHeader   = "X-Muster-Born"
	JobHeader    = "X-Muster-Job"
	// AttemptHeader is the attempt of the job that the pod is of.
	AttemptHeader = "X-Muster-Attempt"
)

// JobAttribute is the attribute, of the volume by which a pod reaches its foreman, that
// tells the jobs of one stage apart: another one may have the name of one that was
// deleted.
const JobAttribute = "job"

// Exit codes, in the outcome of a member of a job, of what another try would not change.
const (
	// Unfit says that what it wrote cannot be kept.
	Unfit = -1
	// Unable says that its pod lacks what it needs to run.
	Unable = -2
)

// Mark is a header of every answer of a foreman: what lacks it is somebody's on the
// way, and worth trying again.
const Mark = "X-Muster-Shift"

// SizeHeader says how many bytes of a disk what is brought may need: there is room for
// all of it before any of it is laid out. It may be missing.
const SizeHeader = "X-Muster-Size"

// Statuses of answers about files. Others, but those that say that the token is
// wrong, are worth trying again.
const (
	// StatusGone says that the datum is not this worker's any more, or that a member
	// of a job has a follower, or its job is over.
	StatusGone = http.StatusGone
	// StatusRefused says in words what is wrong with what was brought.
	StatusRefused = http.StatusUnprocessableEntity
	// StatusNotYet says that it is to be asked for again.
	StatusNotYet = http.StatusAccepted
)

// Lease is how long a datum stays with a worker that says nothing.
const Lease = 20 * time.Second

// Program is what the workers of a stage run.
type Program struct {
	// Command and Args are the words; $(NAME) stands for a variable. Where there
	// is a Script instead, it is run by Python.
	Command []string `json:"command,omitempty"`
	Script  string   `json:"script,omitempty"`
	Args    []string `json:"args,omitempty"`
	// Python is the interpreter of a script.
	Python string `json:"python,omitempty"`
	// Stdin are lines that the program is given.
	Stdin []string `json:"stdin,omitempty"`
	// Inputs are the names of the inputs.
	Inputs []string `json:"inputs,omitempty"`
	// Mount is a folder of the worker's own in which the datum that it has appears:
	// each input by its name, the output as "out". Empty: nowhere.
	Mount string `json:"mount,omitempty"`
	// Timeout is how long one try may take; 0: for ever.
	Timeout time.Duration `json:"timeout,omitempty"`
	// Batch starts the program once, and has it ask for datums.
	Batch bool `json:"batch,omitempty"`
	// Carried says that workers do not share the foreman's folder.
	Carried bool `json:"carried,omitempty"`
	// Run is the identity of the run.
	Run string `json:"run,omitempty"`
	// Pachyderm adds the variables by which Pachyderm's workers tell a program about its
	// datum.
	Pachyderm bool `json:"pachyderm,omitempty"`
}

// Datum is something to compute.
type Datum struct {
	// ID names it within the work, and Folder is its folder; that of a datum whose
	// files are carried is the worker's affair.
	ID     string `json:"id"`
	Folder string `json:"folder,omitempty"`
	// Name is what people know it by.
	Name string `json:"name"`
	// Facts are the facts about it for its program.
	Facts Facts `json:"facts,omitzero"`
}

// Facts are the facts about a datum that its program gets in variables.
type Facts struct {
	// ID names the contents of the datum: the same contents have the same ID, in any run.
	ID string `json:"id,omitempty"`
	// Inputs are those that the datum has a part in.
	Inputs []InputFacts `json:"inputs,omitempty"`
}

// InputFacts are the facts about a datum's part in one input. Paths and values of paths need not be
// UTF-8: they are bytes.
type InputFacts struct {
	Input string `json:"input"`
	// Commit is the commit that is read.
	Commit string `json:"commit,omitempty"`
	// Path is the file or folder, from the folder of the input; empty: all of it. Where
	// there are several it is the last one.
	Path []byte `json:"path,omitempty"`
	// JoinOn and GroupBy are the values that it shares with the others of a join or a group.
	JoinOn  []byte `json:"joinOn,omitempty"`
	GroupBy []byte `json:"groupBy,omitempty"`
}

// Outcome is what became of a try.
type Outcome struct {
	ID string `json:"id"`
	// Exit is the program's exit code, 128 and more where a signal ended it.
	Exit int `json:"exit"`
	// Error says in words why it failed; empty: it did not.
	Error string `json:"error,omitempty"`
	// Final reports that another try would fail, too.
	Final bool `json:"final,omitempty"`
	// Started is when, and Took how long.
	Started time.Time     `json:"started"`
	Took    time.Duration `json:"took"`
	// Worker is who computed it.
	Worker string `json:"worker,omitempty"`
	// Alone says that of what the program started nothing is left: its folders and its
	// log, emptied, may be another datum's.
	Alone bool `json:"alone,omitempty"`
	// Left says, of a member that follows, that it went before its leader was done, in
	// order: nothing that it has not brought is relied on.
	Left bool `json:"left,omitempty"`
}

// Request is what a worker says.
type Request struct {
	// Worker names the process: another one for each start.
	Worker string `json:"worker"`
	// Member is whose place it has in the job: who starts again there has what
	// the one before had no longer.
	Member string `json:"member,omitempty"`
	// GPUs is how many it holds.
	GPUs float64 `json:"gpus,omitempty"`
	// Done are datums that it has computed, or tried to.
	Done []Outcome `json:"done,omitempty"`
	// Has are the datums that it has, begun or not: a foreman that was started anew
	// leaves them to it.
	Has []string `json:"has,omitempty"`
	// Begun are datums that it begins with, whose files are carried: a worker that
	// dies with one has tried it.
	Begun []string `json:"begun,omitempty"`
	// Back are datums that it gives back, because it has to stop.
	Back []string `json:"back,omitempty"`
	// Want is how many more it would take.
	Want int `json:"want,omitempty"`
	// Leaving says that it ends.
	Leaving bool `json:"leaving,omitempty"`
}

// Answer is what it is told.
type Answer struct {
	Datums []Datum `json:"datums,omitempty"`
	// End says that there will be no more.
	End bool `json:"end,omitempty"`
	// Program is what to run.
	Program *Program `json:"program,omitempty"`
}
