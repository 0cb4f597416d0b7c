package run

import (
	"slices"
	"strings"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/exit"
)

// identities are the variables with a member's identity.
var identities = []string{"TF_CONFIG", "RANK", "NODE_RANK", "GROUP_RANK", "PET_NODE_RANK", "INDEX"}

// checkIdentity refuses a variable that would give all members of a job the same identity. A value
// with a reference, such as $(INDEX), is each member's own.
func checkIdentity(spec *v1alpha1.TrainingJobSpec) error {
	members := membersOf(spec)
	for _, variable := range spec.Env {
		own := strings.Contains(strings.ReplaceAll(variable.Value, "$$(", ""), "$(")
		if members < 2 || own || !slices.Contains(identities, variable.Name) {
			continue
		}
		const same = "--env %s: all %d members would get the same value, and so the same identity; "
		if spec.Framework == v1alpha1.FrameworkNone {
			return exit.Usage(same+"give --env '%s=$(INDEX)', or let the script read INDEX and WORKER_HOSTS", variable.Name, members, variable.Name)
		}
		return exit.Usage(same+"leave it out: Muster sets such variables for each member", variable.Name, members)
	}
	return nil
}
