package installation

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// manager is who manages what `muster install` applied.
const manager = "muster"

// The labels by which objects say whose they are.
const (
	labelPartOf    = "app.kubernetes.io/part-of"
	labelManagedBy = "app.kubernetes.io/managed-by"
	labelVersion   = "app.kubernetes.io/version"
	// annotationEmbedded is on what `muster up` made.
	annotationEmbedded = "muster.dev/manifest"
)

// Owner is whose an object on the cluster is.
type Owner string

// The owners.
const (
	Nobody   Owner = ""         // it is not there
	Ours     Owner = "muster"   // `muster install` made it
	Helm     Owner = "Helm"     // Helm made it, from the same chart
	Embedded Owner = "embedded" // `muster up` made it
	Foreign  Owner = "foreign"  // it has the name of one of ours by chance
)

// ownerOf says whose an object is; nil is one that is not there.
func ownerOf(there *unstructured.Unstructured) Owner {
	if there == nil {
		return Nobody
	}
	if _, up := there.GetAnnotations()[annotationEmbedded]; up {
		return Embedded
	}
	labels := there.GetLabels()
	switch {
	case labels[labelPartOf] != "muster":
		return Foreign
	case labels[labelManagedBy] == "Helm":
		return Helm
	}
	return Ours
}
