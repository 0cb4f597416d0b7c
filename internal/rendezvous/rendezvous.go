package rendezvous

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net"
	"slices"
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

// Gang is what all members share.
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

// Table is a gang's members by role, each role in the order of its indices, and
// what is the same for all of them.
type Table struct {
	gang   Gang
	roles  []string
	byRole map[string][]Member
	// lists are the host:port lists of the roles, and cluster is TensorFlow's, as
	// JSON: they grow with the gang.
	lists   []corev1.EnvVar
	cluster string
	// shared is the ConfigMap in which members find both; without one each has
	// its own copy.
	shared string
}

// NewTable prepares what members are told. It fails for a framework that it
// does not know.
func NewTable(g Gang) (*Table, error) {
	t := &Table{gang: g, byRole: map[string][]Member{}}
	for _, m := range g.Members {
		if _, seen := t.byRole[m.Role]; !seen {
			t.roles = append(t.roles, m.Role)
		}
		t.byRole[m.Role] = append(t.byRole[m.Role], m)
	}
	slices.Sort(t.roles)
	for _, list := range t.byRole {
		slices.SortFunc(list, func(a, b Member) int { return cmp.Compare(a.Index, b.Index) })
	}
	t.lists = t.listed()
	switch g.Framework {
	case v1alpha1.FrameworkTensorFlow:
		cluster, err := json.Marshal(t.tensorFlowCluster())
		if err != nil {
			return nil, fmt.Errorf("encoding the cluster of gang %s: %w", g.Name, err)
		}
		t.cluster = string(cluster)
	case v1alpha1.FrameworkPyTorch, v1alpha1.FrameworkNone, "":
	default:
		return nil, fmt.Errorf("rendering variables of gang %s: framework %q is none of %s, %s and %s",
			g.Name, g.Framework, v1alpha1.FrameworkTensorFlow, v1alpha1.FrameworkPyTorch, v1alpha1.FrameworkNone)
	}
	return t, nil
}

// Common returns what is the same for all members, by variable: the host:port
// lists of the roles, and TensorFlow's cluster. It grows with the gang, and a
// copy for each member with the gang's square.
func (t *Table) Common() map[string]string {
	out := make(map[string]string, len(t.lists)+1)
	for _, v := range t.lists {
		out[v.Name] = v.Value
	}
	if t.cluster != "" {
		out[clusterVar] = t.cluster
	}
	return out
}

// Refer has members find what is common to them in a ConfigMap that holds what
// Common returns.
func (t *Table) Refer(configMap string) { t.shared = configMap }

// tell returns a variable that is the same for all members.
func (t *Table) tell(v corev1.EnvVar) corev1.EnvVar {
	if t.shared == "" {
		return v
	}
	key := &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: t.shared}, Key: v.Name}
	return corev1.EnvVar{Name: v.Name, ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: key}}
}

// Render returns the variables of the member (role, index), in an order that
// depends on nothing but the table. It fails for a member that is not in the
// table.
func (t *Table) Render(role string, index int32) ([]corev1.EnvVar, error) {
	me, ok := t.find(role, index)
	if !ok {
		return nil, fmt.Errorf("rendering variables of gang %s: it has no member %s-%d", t.gang.Name, role, index)
	}
	vars := []corev1.EnvVar{
		{Name: "ROLE", Value: me.Role},
		{Name: "INDEX", Value: strconv.Itoa(int(me.Index))},
	}
	for _, v := range t.lists {
		vars = append(vars, t.tell(v))
	}
	switch t.gang.Framework {
	case v1alpha1.FrameworkTensorFlow:
		more, err := t.tensorFlow(me)
		if err != nil {
			return nil, fmt.Errorf("rendering variables of gang %s: %w", t.gang.Name, err)
		}
		vars = append(vars, more...)
	case v1alpha1.FrameworkPyTorch:
		vars = append(vars, t.pyTorch(me)...)
	}
	return vars, nil
}

// Port is the port of the member (role, index); false if there is none.
func (t *Table) Port(role string, index int32) (int32, bool) {
	m, ok := t.find(role, index)
	return m.Port, ok
}

func (t *Table) find(role string, index int32) (Member, bool) {
	list := t.byRole[role]
	i, found := slices.BinarySearchFunc(list, index, func(m Member, index int32) int { return cmp.Compare(m.Index, index) })
	if !found {
		return Member{}, false
	}
	return list[i], true
}

// hosts returns the host:port list of a role.
func (t *Table) hosts(role string) []string {
	out := make([]string, 0, len(t.byRole[role]))
	for _, m := range t.byRole[role] {
		out = append(out, m.address())
	}
	return out
}

// listed are the addresses of each role. PS_HOSTS and WORKER_HOSTS are always
// there, empty where there is no such role, so that $(PS_HOSTS) never stays as
// it is.
func (t *Table) listed() []corev1.EnvVar {
	roles := slices.Clone(t.roles)
	for _, always := range []string{RolePS, RoleWorker} {
		if len(t.byRole[always]) == 0 {
			roles = append(roles, always)
		}
	}
	slices.Sort(roles)
	vars := make([]corev1.EnvVar, 0, len(roles))
	for _, role := range roles {
		name := strings.ToUpper(strings.ReplaceAll(role, "-", "_")) + "_HOSTS"
		vars = append(vars, corev1.EnvVar{Name: name, Value: strings.Join(t.hosts(role), ",")})
	}
	return vars
}
