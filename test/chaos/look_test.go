//go:build chaos

package chaos

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/muster-dev/muster/test/e2e/harness"
)

// members are the processes of any gang of this run, by the name of their pod:
// each inherits the token, and its pod's name as the host name.
func members(token string) map[string][]harness.Started {
	out := map[string][]harness.Started{}
	for _, p := range harness.AllStarted(func(p harness.Started) bool { return slices.Contains(p.Environment, token) }) {
		out[p.Variable("HOSTNAME")] = append(out[p.Variable("HOSTNAME")], p)
	}
	return out
}

// granted returns the devices that processes were told to use, each with one of
// their pods, and tells of those that were told to processes of two pods.
func granted(members map[string][]harness.Started) (user map[string]string, twice []string) {
	user = map[string]string{}
	for pod, all := range members {
		for _, p := range all {
			for device := range strings.SplitSeq(p.Variable("NVIDIA_VISIBLE_DEVICES"), ",") {
				if device == "" || device == "void" { // none
					continue
				}
				if other := user[device]; other != "" && other != pod {
					twice = append(twice, fmt.Sprintf("%s is used by %s and by %s", device, other, pod))
				}
				user[device] = pod
			}
		}
	}
	return user, twice
}

// managers are the processes of Muster's managers.
func managers() []harness.Started {
	return harness.AllStarted(func(p harness.Started) bool {
		return len(p.Command) > 1 && filepath.Base(p.Command[0]) == "muster" && p.Command[1] == "serve" &&
			p.Variable("KUBERNETES_SERVICE_HOST") != ""
	})
}
