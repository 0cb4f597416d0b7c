package trainingjob

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"sort"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// AnnotationSpec is, on a gang, a fingerprint of each part of the job's spec
// that the gang was made from and cannot follow afterwards.
const AnnotationSpec = "muster.dev/job-spec"

// prints is a fingerprint by field.
type prints map[string]string

// fingerprints covers what cannot change once members may be running. Suspend,
// deadline, time to live, the back-off limit and what is said of the run time
// can; the queue can while nothing is placed.
func fingerprints(spec *v1alpha1.TrainingJobSpec) prints {
	fields := map[string]any{
		"framework": spec.Framework, "roles": spec.Roles, "code": spec.Code, "environment": spec.Environment,
		"volumes": spec.Volumes, "data": spec.Data, "checkpoints": spec.Checkpoints, "env": spec.Env,
		"priorityClassName": spec.PriorityClassName, "topology": spec.Topology,
		"doneWhen": spec.DoneWhen, "cleanUp": spec.CleanUp, "sparseCluster": spec.SparseCluster, "restart": spec.Restart,
	}
	out := prints{}
	for name, value := range fields {
		data, err := json.Marshal(value)
		if err != nil {
			continue // API types can always be encoded
		}
		sum := sha256.Sum256(data)
		out[name] = hex.EncodeToString(sum[:6])
	}
	return out
}

func (p prints) encode() string {
	data, err := json.Marshal(p)
	if err != nil {
		return "" // a map of strings can always be encoded
	}
	return string(data)
}

// drifted names the fields in which the job is no longer what its gang was
// made from.
func drifted(job *v1alpha1.TrainingJob, gang *v1alpha1.Gang) []string {
	if job.Unreadable != "" {
		return []string{"spec (it cannot be read: " + job.Unreadable + ")"}
	}
	var made prints
	if json.Unmarshal([]byte(gang.Annotations[AnnotationSpec]), &made) != nil {
		return nil
	}
	var out []string
	for name, now := range fingerprints(&job.Spec) {
		// A gang that an earlier version made has no fingerprint of newer fields.
		if was, known := made[name]; known && was != now {
			out = append(out, name)
		}
	}
	if queueOf(gang) != queue(job) && !placeless(gang) {
		out = append(out, "queue")
	}
	sort.Strings(out)
	return out
}

// queueOf is the queue that a gang is charged to.
func queueOf(gang *v1alpha1.Gang) string { return cmp.Or(gang.Spec.Queue, v1alpha1.DefaultQueue) }

// placeless reports that a gang holds nothing and so may still change its
// queue.
func placeless(gang *v1alpha1.Gang) bool {
	switch gang.Status.Phase {
	case "", v1alpha1.GangPending, v1alpha1.GangSuspended:
		return true
	}
	return false
}
