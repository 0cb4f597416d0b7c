package manifest

import (
	"strings"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// User is whom a job, or its gang, is charged to by its annotations: who
// submitted it, without the machine, because one person at two machines is one.
// Empty where that is not known.
func User(annotations map[string]string) string {
	name, _, _ := strings.Cut(annotations[v1alpha1.AnnotationSubmitter], "@")
	return name
}
