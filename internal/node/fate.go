package node

import (
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// fate is what becomes of a pod's processes that an earlier muster left.
type fate int

const (
	// fateAdopt: the pod is there; its worker takes them over.
	fateAdopt fate = iota
	// fateRemove: the pod was deleted meanwhile; they are stopped.
	fateRemove
	// fateQuarantine: nobody can tell; they are left running.
	fateQuarantine
)

// classify decides the fate of a pod folder. Listed says whether a list of the
// API's pods at the revision, of the cluster, has a pod of this UID. The
// record is nil where none could be read.
func classify(r *record, cluster types.UID, revision string, listed bool) fate {
	if listed {
		return fateAdopt
	}
	if r == nil || cluster == "" || r.Cluster != cluster {
		return fateQuarantine
	}
	order, err := resourceversion.CompareResourceVersion(revision, r.ResourceVersion)
	if err != nil || order < 0 {
		// The database went back in time: it was restored from a copy.
		return fateQuarantine
	}
	return fateRemove
}
