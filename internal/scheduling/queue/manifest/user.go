package manifest

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// User is whom a job, or its gang, is charged to: who submitted it, without the
// machine, because one person at two machines is one. Empty where that is not
// known.
func User(o metav1.Object) string {
	name, _, _ := strings.Cut(o.GetAnnotations()[v1alpha1.AnnotationSubmitter], "@")
	return name
}
