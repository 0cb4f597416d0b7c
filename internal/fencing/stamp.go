package fencing

import (
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// Of is the epoch that a Placement carries: the one that it was planned in, or
// that of the scheduler that adopted it last.
func Of(p *v1alpha1.Placement) int64 { return max(p.Spec.Epoch, Stamp(p)) }

// Stamp is the epoch in an object's annotation; 0 where there is none that can
// be read.
func Stamp(o client.Object) int64 {
	epoch, err := strconv.ParseInt(o.GetAnnotations()[v1alpha1.AnnotationEpoch], 10, 64)
	if err != nil || epoch < 0 {
		return 0
	}
	return epoch
}

// Text is an epoch as an annotation holds it.
func Text(epoch int64) string { return strconv.FormatInt(epoch, 10) }

// Origin is how a member names the Placement that it was made from, in
// [v1alpha1.AnnotationPlacement].
func Origin(p *v1alpha1.Placement) string { return p.Name + " " + string(p.UID) }

// ParseOrigin returns the name and the UID of the Placement that a member was
// made from; false where it names none.
func ParseOrigin(text string) (name string, uid types.UID, ok bool) {
	words := strings.Fields(text)
	if len(words) != 2 {
		return "", "", false
	}
	return words[0], types.UID(words[1]), true
}
