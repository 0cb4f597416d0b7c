package memberpod

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// Name is the name of a member's pod.
func Name(gang, role string, index int32) string {
	return fmt.Sprintf("%s-%s-%d", gang, role, index)
}

// Hostname is the host name of a pod: its name, shortened where a host name
// may not be as long.
func Hostname(pod string) string {
	const longest = 63
	if len(pod) <= longest {
		return pod
	}
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(pod))
	return fmt.Sprintf("%s-%08x", strings.TrimRight(pod[:longest-9], "-"), sum.Sum32())
}

// Role is the role of a gang with a name; nil if it has none.
func Role(g *v1alpha1.Gang, name string) *v1alpha1.GangRole {
	i := slices.IndexFunc(g.Spec.Roles, func(r v1alpha1.GangRole) bool { return r.Name == name })
	if i < 0 {
		return nil
	}
	return &g.Spec.Roles[i]
}
