package podrecord

import (
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// Fate is the decision about the processes of a pod that an earlier Muster process
// started.
type Fate int

// The fates.
const (
	// Adopt: the pod exists, and its worker takes the processes over.
	Adopt Fate = iota
	// Remove: the pod was deleted meanwhile, and the node stops the processes.
	Remove
	// Quarantine: the node cannot tell whether the pod was deleted, and lets the
	// processes run.
	Quarantine
)

// Classify decides the fate of a pod folder. Listed reports whether the cluster's list of
// pods at the revision has a pod with this UID. The record is nil if the node cannot read
// it.
func Classify(r *Record, cluster types.UID, revision string, listed bool) Fate {
	if listed {
		return Adopt
	}
	if r == nil || cluster == "" || r.Cluster != cluster {
		return Quarantine
	}
	order, err := resourceversion.CompareResourceVersion(revision, r.ResourceVersion)
	if err != nil || order < 0 {
		// The database went back in time: it was restored from a copy.
		return Quarantine
	}
	return Remove
}
