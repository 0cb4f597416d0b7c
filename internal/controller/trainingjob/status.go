package trainingjob

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// Conditions that this controller sets beside those of the API package.
const (
	// ConditionSuspended is true while spec.suspend holds the job, and false
	// from its resumption on; it is absent from a job that never was.
	ConditionSuspended = "Suspended"
	// ConditionCurrent is false where the spec was changed after the gang was
	// made, in fields that a running gang cannot follow; its message names
	// them. It is absent from a job whose spec was never changed so.
	ConditionCurrent = "Current"
)

const (
	// reasonStalled is the reason of the Stalled kind: somebody has to do
	// something.
	reasonStalled = "Stalled"
	// reasonDeadline is the reason of the end of a job that its time limit
	// stopped.
	reasonDeadline = "DeadlineExceeded"
)

// statusFor is the job's status, from what was observed alone. blocked says
// what is in the way, if anything is.
func statusFor(o observed, blocked string) v1alpha1.TrainingJobStatus {
	s := o.job.Status.DeepCopy()
	s.ObservedGeneration = o.job.Generation
	if o.job.Unreadable == "" {
		s.GPUs, s.Roles = wanted(o.job, s.Roles)
	}
	gang := o.ours()
	if !finished(o.job) {
		s.Reason = ""
	}
	switch {
	case finished(o.job):
		mirror(s, gang)
	case gang != nil:
		mirror(s, gang)
		followGang(s, o, gang)
	case o.job.Spec.Suspend:
		s.Phase, s.Reason, s.Message = v1alpha1.JobSuspended, v1alpha1.ReasonSuspended, "suspended before it was started; set suspend to false to start it"
	case blocked != "":
		s.Phase, s.Reason, s.Message = v1alpha1.JobWaiting, reasonStalled, blocked
	case o.prepared.failure != "":
		s.CodeSnapshot, s.EnvironmentKey, s.Data = o.prepared.code, o.prepared.environment, o.prepared.data
		finish(s, o, v1alpha1.JobFailed, o.prepared.failure)
	case !o.prepared.ready():
		s.CodeSnapshot, s.EnvironmentKey, s.Data = o.prepared.code, o.prepared.environment, o.prepared.data
		s.Phase, s.Message = v1alpha1.JobPreparing, o.prepared.message
	default:
		s.CodeSnapshot, s.EnvironmentKey, s.Data = o.prepared.code, o.prepared.environment, o.prepared.data
		s.Phase, s.Message = v1alpha1.JobWaiting, "waiting to be scheduled"
	}
	s.Ready = ready(s.Roles)
	setConditions(s, o, gang, blocked)
	return *s
}

// mirror copies what the gang counts.
func mirror(s *v1alpha1.TrainingJobStatus, gang *v1alpha1.Gang) {
	if gang == nil {
		return
	}
	g := &gang.Status
	byName := map[string]v1alpha1.RoleStatus{}
	for _, r := range g.Roles {
		byName[r.Name] = r
	}
	for i := range s.Roles {
		if r, ok := byName[s.Roles[i].Name]; ok {
			s.Roles[i] = r
		}
	}
	if g.StartTime != nil && s.StartTime == nil {
		s.StartTime = g.StartTime.DeepCopy()
	}
	s.LastWorkerTime, s.DrainedTime = g.LastWorkerTime.DeepCopy(), g.DrainedTime.DeepCopy()
	s.Restarts = g.Restarts
	s.Evictions, s.EvictedFor = g.Evictions, g.EvictedFor
	s.SavedTime, s.Progress = g.SavedTime.DeepCopy(), g.Progress.DeepCopy()
	if g.Outcome == v1alpha1.GangSucceeded && s.Progress != nil {
		// Whatever it said last: it may not have come to say that it was done.
		s.Progress.Percent, s.Progress.DoneMillionths = "100%", v1alpha1.Whole
	}
	s.Shrunk, s.GivenBack = g.Shrunk, slices.Clone(g.GivenBack)
	s.DataSeconds, s.DataGPUSeconds = known(g.DataSeconds), known(g.DataGPUSeconds)
	s.GPUStartSeconds, s.GPUStartedSeconds, s.GPUEndSeconds = known(g.GPUStartSeconds), known(g.GPUStartedSeconds), known(g.GPUEndSeconds)
	s.GPUSeconds, s.CPUSeconds = g.GPUSeconds.DeepCopy(), g.CPUSeconds.DeepCopy()
}

// known is a copy of a quantity, where there is one.
func known(q *resource.Quantity) *resource.Quantity {
	if q == nil {
		return nil
	}
	return new(q.DeepCopy())
}

// followGang puts the gang's phase into the job's terms.
func followGang(s *v1alpha1.TrainingJobStatus, o observed, gang *v1alpha1.Gang) {
	message := gang.Status.Message
	say := func(phase v1alpha1.JobPhase, otherwise string) {
		s.Phase, s.Reason, s.Message = phase, gang.Status.Reason, message
		if message == "" {
			s.Reason, s.Message = "", otherwise
		}
	}
	outcome := gang.Status.Outcome
	if outcome == "" {
		outcome = gang.Status.Phase
	}
	switch outcome {
	case v1alpha1.GangSucceeded:
		say(v1alpha1.JobSucceeded, success(gang))
		finish(s, o, s.Phase, s.Message)
		return
	case v1alpha1.GangFailed:
		say(v1alpha1.JobFailed, "it failed")
		finish(s, o, s.Phase, s.Message)
		if stopped(gang) {
			setCondition(s, o, v1alpha1.ConditionFinished, true, reasonDeadline, s.Message)
		}
		return
	}
	its := "its members are"
	if alone(o.job) {
		its = "it is"
	}
	switch phase := gang.Status.Phase; {
	case !gang.DeletionTimestamp.IsZero():
		s.Phase, s.Message = v1alpha1.JobWaiting, "what runs it was deleted from outside; it is started anew once that is gone"
	case phase == v1alpha1.GangSuspended:
		say(v1alpha1.JobSuspended, "suspended; set suspend to false to go on")
	case phase == v1alpha1.GangDraining && o.job.Spec.Suspend:
		say(v1alpha1.JobRunning, "suspending: "+its+" being stopped")
	case phase == v1alpha1.GangDraining:
		say(v1alpha1.JobWaiting, its+" being stopped, to be started anew")
	case phase == v1alpha1.GangPlanned, phase == v1alpha1.GangStarting:
		say(v1alpha1.JobStarting, its+" being started")
	case phase == v1alpha1.GangRunning:
		say(v1alpha1.JobRunning, "")
	default:
		say(v1alpha1.JobWaiting, "waiting to be scheduled")
	}
}

// success says in words what the success policy found.
func success(gang *v1alpha1.Gang) string {
	if len(gang.Spec.Roles) == 1 && gang.Spec.Roles[0].Replicas == 1 {
		return "it ended with exit code 0"
	}
	var who []string
	for _, name := range gang.Spec.DoneWhen {
		if role, index, single := strings.Cut(name, "/"); single {
			who = append(who, role+"-"+index)
			continue
		}
		one := slices.ContainsFunc(gang.Spec.Roles, func(r v1alpha1.GangRole) bool { return r.Name == name && r.Replicas == 1 })
		if one {
			who = append(who, "the "+name)
		} else {
			who = append(who, "every "+name)
		}
	}
	return strings.Join(who, " and ") + " succeeded"
}

// alone reports whether the job has a single member. Who runs one script never
// heard of members: messages speak of the job itself.
func alone(job *v1alpha1.TrainingJob) bool {
	return len(job.Spec.Roles) == 1 && replicas(&job.Spec.Roles[0]) == 1
}

// stopped reports whether the gang failed because it was told to stop, and not
// by itself before that.
func stopped(gang *v1alpha1.Gang) bool {
	return gang.Spec.Stop != "" && gang.Status.Message == gang.Spec.Stop
}

// finish writes down the job's end, once and for all.
func finish(s *v1alpha1.TrainingJobStatus, o observed, phase v1alpha1.JobPhase, message string) {
	s.Phase, s.Message = phase, message
	if s.FinishTime == nil {
		at := metav1.NewTime(o.now)
		if gang := o.ours(); gang != nil && gang.Status.FinishTime != nil {
			at = *gang.Status.FinishTime
		}
		s.FinishTime = &at
	}
	if o.ours() == nil && s.DrainedTime == nil {
		s.DrainedTime = &metav1.MicroTime{Time: o.now} // there is nothing to drain
	}
	setCondition(s, o, v1alpha1.ConditionFinished, true, string(phase), message)
}

// setConditions is where conditions are set, save for that of the end.
func setConditions(s *v1alpha1.TrainingJobStatus, o observed, gang *v1alpha1.Gang, blocked string) {
	over := s.Phase == v1alpha1.JobSucceeded || s.Phase == v1alpha1.JobFailed
	// Prepared.
	switch {
	case gang != nil || o.needsPreparation() && o.prepared.ready():
		setCondition(s, o, v1alpha1.ConditionPrepared, true, "Ready", preparedWords(o.job))
	case o.needsPreparation() && o.prepared.failure != "":
		setCondition(s, o, v1alpha1.ConditionPrepared, false, "Failed", o.prepared.failure)
	case o.needsPreparation():
		setCondition(s, o, v1alpha1.ConditionPrepared, false, "Preparing", o.prepared.message)
	}
	// Scheduled.
	switch {
	case gang != nil && holding(gang):
		setCondition(s, o, v1alpha1.ConditionScheduled, true, "Placed", "its GPUs, CPUs and memory are held for it")
	case over:
		setCondition(s, o, v1alpha1.ConditionScheduled, false, "Ended", "it holds nothing any more")
	case blocked != "" && !strings.HasPrefix(blocked, "waiting"):
		setCondition(s, o, v1alpha1.ConditionScheduled, false, reasonStalled, blocked)
	case s.Phase == v1alpha1.JobSuspended:
		setCondition(s, o, v1alpha1.ConditionScheduled, false, "Suspended", s.Message)
	default:
		setCondition(s, o, v1alpha1.ConditionScheduled, false, string(s.Phase), s.Message)
	}
	// Evicted.
	switch away := gang != nil && gang.Status.EvictedTime != nil && !over; {
	case away && gang.Status.EvictedFrom != "":
		setCondition(s, o, v1alpha1.ConditionEvicted, true, reasonNodeLeaves, gang.Status.EvictedFrom+"; it is started again when there is room elsewhere")
	case away:
		setCondition(s, o, v1alpha1.ConditionEvicted, true, "MakesRoom", "stopped to make room for "+s.EvictedFor+"; it is started again when there is room")
	case meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionEvicted) != nil:
		setCondition(s, o, v1alpha1.ConditionEvicted, false, "NotEvicted", "it is not kept from running")
	}
	// Suspended.
	if o.job.Spec.Suspend && !over {
		setCondition(s, o, ConditionSuspended, true, "Suspended", "suspended by spec.suspend")
	} else if meta.FindStatusCondition(s.Conditions, ConditionSuspended) != nil {
		setCondition(s, o, ConditionSuspended, false, "Resumed", "not suspended")
	}
	// Current.
	if gang == nil || over {
		return
	}
	if fields := drifted(o.job, gang); len(fields) > 0 {
		setCondition(s, o, ConditionCurrent, false, "SpecChanged", driftWords(fields, gang))
	} else if meta.FindStatusCondition(s.Conditions, ConditionCurrent) != nil {
		setCondition(s, o, ConditionCurrent, true, "AsStarted", "the job runs as its spec says")
	}
}

// preparedWords say what is ready.
func preparedWords(job *v1alpha1.TrainingJob) string {
	if len(job.Spec.Data) > 0 {
		return "code, environment and data are ready"
	}
	return "code and environment are ready"
}

// driftWords say what the job does not follow, and what to do.
func driftWords(fields []string, gang *v1alpha1.Gang) string {
	if len(fields) == 1 && fields[0] == "queue" {
		return fmt.Sprintf("a job moves to another queue only while it holds nothing: it stays in queue %s until it waits again; muster suspend and muster resume make it", queueOf(gang))
	}
	return strings.Join(fields, ", ") + " changed after the job was started, and the job runs as it was; delete it and create it anew to run it as it is now"
}

// maxConditionMessage is the API's bound on a condition's message.
const maxConditionMessage = 32768

func setCondition(s *v1alpha1.TrainingJobStatus, o observed, kind string, holds bool, reason, message string) {
	status := metav1.ConditionFalse
	if holds {
		status = metav1.ConditionTrue
	}
	if len(message) > maxConditionMessage {
		message = strings.ToValidUTF8(message[:maxConditionMessage], "")
	}
	// A condition that stays as it is keeps its time: SetStatusCondition
	// takes the time given only where the status changes.
	meta.SetStatusCondition(&s.Conditions, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: message,
		ObservedGeneration: o.job.Generation, LastTransitionTime: metav1.NewTime(o.now),
	})
}

// holding reports whether a placement holds something for the gang.
func holding(gang *v1alpha1.Gang) bool {
	switch gang.Status.Phase {
	case v1alpha1.GangPlanned, v1alpha1.GangStarting, v1alpha1.GangRunning, v1alpha1.GangDraining:
		return true
	}
	return false
}

// wanted is what the spec asks for: the number of GPUs and, for each role, of
// members, keeping the counts that are known.
func wanted(job *v1alpha1.TrainingJob, known []v1alpha1.RoleStatus) (int64, []v1alpha1.RoleStatus) {
	var milli int64
	roles := make([]v1alpha1.RoleStatus, 0, len(job.Spec.Roles))
	for i := range job.Spec.Roles {
		role := &job.Spec.Roles[i]
		switch q, problem := gpus(role); {
		case problem != "":
		case q != nil && !q.IsZero():
			milli += q.MilliValue() * int64(replicas(role))
		case role.GPUMemory != nil:
			// How much of a GPU that is, its memory decides: at least something.
			milli += int64(replicas(role))
		}
		status := v1alpha1.RoleStatus{Name: role.Name, Pending: replicas(role)}
		for _, k := range known {
			if k.Name == role.Name {
				status = k
			}
		}
		status.Wanted, status.Min = replicas(role), 0
		if least := role.MinReplicas; least != nil && *least < status.Wanted {
			status.Min = *least
		}
		roles = append(roles, status)
	}
	return (milli + 999) / 1000, roles
}

// ready is "running/wanted"; where a role may have more than it starts with,
// "running of min..wanted".
func ready(roles []v1alpha1.RoleStatus) string {
	var running, least, wanted int32
	for i := range roles {
		running += roles[i].Running
		wanted += roles[i].Wanted
		if roles[i].Min > 0 {
			least += roles[i].Min
		} else {
			least += roles[i].Wanted
		}
	}
	if least < wanted {
		return fmt.Sprintf("%d of %d..%d", running, least, wanted)
	}
	return fmt.Sprintf("%d/%d", running, wanted)
}

// tale is an event to be told.
type tale struct{ kind, reason, action, note string }

// reasonNodeLeaves is the reason of a job that was evicted for the sake of a node.
const reasonNodeLeaves = "NodeLeaves"

// left reports whether a job does not run because a node of its left.
func left(s *v1alpha1.TrainingJobStatus) bool {
	c := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionEvicted)
	return c != nil && c.Status == metav1.ConditionTrue && c.Reason == reasonNodeLeaves
}

// restarted is the number of failures after which members were started again, in words.
func restarted(failures int32) string {
	if failures == 1 {
		return "one failure so far; members were started again"
	}
	return fmt.Sprintf("%d failures so far; members were started again after each", failures)
}

// happened compares a job with its new status: the few things that are worth
// an event.
func happened(job *v1alpha1.TrainingJob, after *v1alpha1.TrainingJobStatus) []tale {
	before := &job.Status
	var out []tale
	if before.StartTime == nil && after.StartTime != nil && after.FinishTime == nil {
		note := fmt.Sprintf("its first member started; %s members run", after.Ready)
		if alone(job) {
			note = "it started"
		}
		out = append(out, tale{corev1.EventTypeNormal, "Started", "Start", note})
	}
	if after.Restarts > before.Restarts {
		out = append(out, tale{corev1.EventTypeWarning, "Restarted", "Restart", restarted(after.Restarts)})
	}
	if after.Evictions > before.Evictions {
		out = append(out, tale{corev1.EventTypeNormal, "Evicted", "Evict", short("it is stopped to make room for " + after.EvictedFor + ", and started again when there is room")})
	}
	if left(after) && !left(before) {
		out = append(out, tale{corev1.EventTypeNormal, "Evicted", "Evict", short(meta.FindStatusCondition(after.Conditions, v1alpha1.ConditionEvicted).Message)})
	}
	for i := max(0, len(after.GivenBack)-int(after.Shrunk-before.Shrunk)); after.Shrunk > before.Shrunk && i < len(after.GivenBack); i++ {
		out = append(out, tale{corev1.EventTypeNormal, "Shrunk", "GiveBack", short(givenBack(after.GivenBack[i]))})
	}
	if meta.IsStatusConditionFalse(after.Conditions, ConditionCurrent) && !meta.IsStatusConditionFalse(before.Conditions, ConditionCurrent) {
		out = append(out, tale{corev1.EventTypeWarning, "SpecChanged", "Follow", meta.FindStatusCondition(after.Conditions, ConditionCurrent).Message})
	}
	if before.Reason != after.Reason && after.FinishTime == nil {
		switch after.Reason {
		case v1alpha1.ReasonMissing, v1alpha1.ReasonAPIRefused, v1alpha1.ReasonNotAllowed, v1alpha1.ReasonCannotStart, v1alpha1.ReasonStartTimeout,
			v1alpha1.ReasonNodeUnreachable:
			out = append(out, tale{corev1.EventTypeWarning, after.Reason, "Start", short(after.Message)})
		}
	}
	if before.Phase != after.Phase {
		switch after.Phase {
		case v1alpha1.JobSucceeded:
			out = append(out, tale{corev1.EventTypeNormal, "Succeeded", "Finish", short(after.Message)})
		case v1alpha1.JobFailed:
			out = append(out, tale{corev1.EventTypeWarning, "Failed", "Finish", short(after.Message)})
		}
	}
	return out
}

// givenBack says in words what "worker-3 for nlp/bert" means.
func givenBack(entry string) string {
	who, whom, _ := strings.Cut(entry, " for ")
	return who + " is stopped to make room for " + whom + ", and runs again when there is room"
}

// short fits a message into an event.
func short(message string) string {
	const most = 1000
	if len(message) <= most {
		return message
	}
	return strings.ToValidUTF8(message[:most], "") + "..."
}
