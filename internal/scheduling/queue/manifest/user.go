package manifest

import (
	"strings"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// User is whom a job, or its gang, is charged to by its annotations: on a
// cluster the name that the API server authenticated, whole; else who submitted
// it without the machine, because one person at two machines is one. Empty
// where that is not known.
func User(annotations map[string]string) string {
	who := annotations[v1alpha1.AnnotationSubmitter]
	if annotations[v1alpha1.AnnotationAuthenticated] == "true" {
		return who
	}
	name, _, _ := strings.Cut(who, "@")
	return name
}
