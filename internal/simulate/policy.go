package simulate

// Micros is a time or a duration, in microseconds.
type Micros int64

// Job is one job of a trace.
type Job struct {
	// ID is its position among the jobs of the run, from 0.
	ID int
	// Submit is when it arrives.
	Submit Micros
	// Run is how long it runs if it is never interrupted.
	Run Micros
	// GPUs is how many it needs at once.
	GPUs int
	// Queue is the group that it is charged to: a virtual cluster.
	Queue string
	// User and Name are whose it is and what it is called; empty where the
	// trace does not say.
	User, Name string
	// Limit is the run time that its owner declared; 0 if none. It may be
	// wrong.
	Limit Micros
	// Row is its row in the file that it was read from; 0 where there is none.
	Row int
}

// Share is a number of GPUs on one node.
type Share struct {
	Node, GPUs int
}

// Start is a job that is started, and where.
type Start struct {
	Job   *Job
	Nodes []Share
}

// Decision is what a policy wants done now.
type Decision struct {
	// Preempt are running jobs to stop before anything is started. Each comes
	// back as an arrival, at once, with the restart cost added to what is left
	// of its run.
	Preempt []*Job
	// Start are waiting jobs to start.
	Start []Start
	// Wake is when the policy wants to be asked again even if nothing
	// happens; 0: not.
	Wake Micros
}

// Policy decides what runs. The loop tells it of every event, in order, and
// then asks once per instant. A policy never sees a job's Run.
type Policy interface {
	// Arrive tells of a job that waits: new, or preempted after having run
	// for so long in all.
	Arrive(now Micros, job *Job, ran Micros)
	// Finish tells of a running job that ended, and how long it ran in all.
	Finish(now Micros, job *Job, ran Micros)
	// Decide says what to do now.
	Decide(now Micros) Decision
}
