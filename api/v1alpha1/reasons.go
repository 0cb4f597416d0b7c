package v1alpha1

// These reasons in the status of a Gang and of its TrainingJob are not the scheduler's. They say
// why a gang does not start or go on although there is room. `muster why` prints them as its code.
const (
	// ReasonAPIRefused means that the API server would not accept the gang's pods.
	ReasonAPIRefused = "Refused"
	// ReasonNotAllowed means that the API server refused a pod of an attempt: a quota or
	// a policy.
	ReasonNotAllowed = "NotAllowed"
	// ReasonMissing means that the pods name an object that does not exist, or a claim without a
	// volume. No GPU is held meanwhile.
	ReasonMissing = "Missing"
	// ReasonCannotStart means that a node reports an error that keeps a member from
	// starting: an image, a volume, a Secret.
	ReasonCannotStart = "CannotStart"
	// ReasonStartTimeout means that a member did not start in time, and that its node
	// reported no error.
	ReasonStartTimeout = "StartTimeout"
	// ReasonNodeUnreachable means that a node with a member on it does not answer.
	ReasonNodeUnreachable = "NodeUnreachable"
	// ReasonNodeRefused means that a node did not take a member.
	ReasonNodeRefused = "NodeRefused"
	// ReasonNodeLeaves means that a node with a member on it is about to go, or is gone.
	ReasonNodeLeaves = "NodeLeaves"
	// ReasonMemberFailed means that a member failed, and that the gang starts again or has ended
	// because of it.
	ReasonMemberFailed = "MemberFailed"
	// ReasonMemberDeleted means that the pod of a member was deleted.
	ReasonMemberDeleted = "MemberDeleted"
	// ReasonPlacementDeleted means that the gang's Placement was deleted.
	ReasonPlacementDeleted = "PlacementDeleted"
	// ReasonNameTaken means that a pod of another owner has the name of a member.
	ReasonNameTaken = "NameTaken"
	// ReasonFetchingData means that data is on its way to the members.
	ReasonFetchingData = "FetchingData"
	// ReasonPreempted means that the gang makes room for another.
	ReasonPreempted = "Preempted"
	// ReasonReleased means that a person released the gang by force.
	ReasonReleased = "Released"
	// ReasonSuspended means that the gang is suspended.
	ReasonSuspended = "Suspended"
	// ReasonStopped means that the gang was told to end.
	ReasonStopped = "Stopped"
	// ReasonWaitsForRoom means that the members beyond the minimum wait for room.
	ReasonWaitsForRoom = "WaitsForRoom"
	// ReasonNotGrown means that a further member of an elastic gang could not be added.
	ReasonNotGrown = "NotGrown"
)

// EndsAttempt reports whether a reason is one for the end of an attempt. The status of a gang keeps
// it until the next attempt may be made.
func EndsAttempt(reason string) bool {
	switch reason {
	case ReasonNotAllowed, ReasonCannotStart, ReasonStartTimeout, ReasonNodeUnreachable, ReasonNodeRefused, ReasonNodeLeaves,
		ReasonMemberFailed, ReasonMemberDeleted, ReasonPlacementDeleted, ReasonPreempted, ReasonReleased:
		return true
	}
	return false
}
