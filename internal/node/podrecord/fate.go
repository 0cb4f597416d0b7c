package podrecord

import (
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// Fate is what becomes of a pod's processes that an earlier muster left.
type Fate int

// The fates.
const (
	// Adopt: the pod is there; its worker takes them over.
	Adopt Fate = iota
	// Remove: the pod was deleted meanwhile; they are stopped.
	Remove
	// Quarantine: nobody can tell; they are left running.
	Quarantine
)

// Classify decides the fate of a pod folder. Listed says whether a list of the
// API's pods at the revision, of the cluster, has a pod of this UID. The
// record is nil where none could be read.
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
