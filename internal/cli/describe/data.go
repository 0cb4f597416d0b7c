package describe

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/terminal"
)

// reads is what a job reads, each as "digits@main:/train, commit 3f9ac01d2b4e, 2 files
// of 6 B, at /data"; as far as it is known.
func reads(job *v1alpha1.TrainingJob) []string {
	var out []string
	for i := range job.Spec.Data {
		d := &job.Spec.Data[i]
		text := d.Dataset + "@" + cmp.Or(d.Version, string(d.Branch), v1alpha1.DefaultBranch)
		if path := strings.Trim(d.Path, "/"); path != "" {
			text += ":/" + path
		}
		for _, is := range job.Status.Data {
			if is.Mount != d.Mount || is.Dataset != d.Dataset {
				continue
			}
			text += ", commit " + short(string(is.Commit))
			if is.Key != "" || is.Lazy {
				text += fmt.Sprintf(", %s of %s", terminal.Count(is.Files, "file"), terminal.Size64(is.Bytes))
			}
			if is.Lazy {
				text += " read as they are asked for"
			}
		}
		out = append(out, text+", at "+d.Mount)
	}
	return out
}
