package rendezvous

import (
	"fmt"
	"net"
	"sort"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// The roles that frameworks give a meaning to.
const (
	RoleChief     = "chief"
	RoleMaster    = "master"
	RoleWorker    = "worker"
	RolePS        = "ps"
	RoleEvaluator = "evaluator"
)

// Member is one row of the gang's table.
type Member struct {
	// Role is the member's role.
	Role string
	// Index is its index in the role, from 0.
	Index int32
	// Host is the name or address at which its peers reach it.
	Host string
	// Port is the TCP port it listens on for its peers.
	Port int32
	// GPUs is how many GPUs it has; torchrun starts one process for each.
	GPUs int
}

// address is the member's host:port.
func (m Member) address() string {
	return net.JoinHostPort(m.Host, strconv.Itoa(int(m.Port)))
}

// Gang is the table that all members share.
type Gang struct {
	// Name identifies the gang; torchrun takes it as the run's id.
	Name string
	// Framework decides which variables there are.
	Framework v1alpha1.Framework
	// Members lists every member, in any order.
	Members []Member
	// Sparse makes TF_CONFIG of a worker name the parameter servers and itself
	// alone, and that of a parameter server itself alone.
	Sparse bool
}

// Port is the port of the member (role, index); false if there is none.
func (g Gang) Port(role string, index int32) (int32, bool) {
	for _, m := range g.Members {
		if m.Role == role && m.Index == index {
			return m.Port, true
		}
	}
	return 0, false
}

// Render returns the variables of the member (role, index), in an order that
// depends on nothing but the table. It fails for a framework it does not know
// and for a member that is not in the table.
func (g Gang) Render(role string, index int32) ([]corev1.EnvVar, error) {
	table := newTable(g.Members)
	me, ok := table.find(role, index)
	if !ok {
		return nil, fmt.Errorf("rendering variables of gang %s: it has no member %s-%d", g.Name, role, index)
	}
	vars := general(table, me)
	switch g.Framework {
	case v1alpha1.FrameworkTensorFlow:
		render := tensorFlow
		if g.Sparse {
			render = sparse
		}
		more, err := render(table, me)
		if err != nil {
			return nil, fmt.Errorf("rendering variables of gang %s: %w", g.Name, err)
		}
		vars = append(vars, more...)
	case v1alpha1.FrameworkPyTorch:
		vars = append(vars, pyTorch(g.Name, table, me)...)
	case v1alpha1.FrameworkNone, "":
	default:
		return nil, fmt.Errorf("rendering variables of gang %s: framework %q is none of %s, %s and %s",
			g.Name, g.Framework, v1alpha1.FrameworkTensorFlow, v1alpha1.FrameworkPyTorch, v1alpha1.FrameworkNone)
	}
	return vars, nil
}

// table is the members by role, each role in the order of its indices.
type table struct {
	roles  []string
	byRole map[string][]Member
}

func newTable(members []Member) table {
	t := table{byRole: map[string][]Member{}}
	for _, m := range members {
		if _, seen := t.byRole[m.Role]; !seen {
			t.roles = append(t.roles, m.Role)
		}
		t.byRole[m.Role] = append(t.byRole[m.Role], m)
	}
	sort.Strings(t.roles)
	for _, list := range t.byRole {
		sort.Slice(list, func(i, j int) bool { return list[i].Index < list[j].Index })
	}
	return t
}

func (t table) find(role string, index int32) (Member, bool) {
	for _, m := range t.byRole[role] {
		if m.Index == index {
			return m, true
		}
	}
	return Member{}, false
}

// hosts returns the host:port list of a role.
func (t table) hosts(role string) []string {
	out := make([]string, 0, len(t.byRole[role]))
	for _, m := range t.byRole[role] {
		out = append(out, m.address())
	}
	return out
}

// general are the variables of every framework: who the member is, and the
// addresses of each role. PS_HOSTS and WORKER_HOSTS are always there, empty
// where there is no such role, so that $(PS_HOSTS) never stays as it is.
func general(t table, me Member) []corev1.EnvVar {
	vars := []corev1.EnvVar{
		{Name: "ROLE", Value: me.Role},
		{Name: "INDEX", Value: strconv.Itoa(int(me.Index))},
	}
	roles := append([]string{}, t.roles...)
	for _, always := range []string{RolePS, RoleWorker} {
		if len(t.byRole[always]) == 0 {
			roles = append(roles, always)
		}
	}
	sort.Strings(roles)
	for _, role := range roles {
		name := strings.ToUpper(strings.ReplaceAll(role, "-", "_")) + "_HOSTS"
		vars = append(vars, corev1.EnvVar{Name: name, Value: strings.Join(t.hosts(role), ",")})
	}
	return vars
}
