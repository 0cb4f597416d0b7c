package rendezvous

import (
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// sparseConfig is the value of TF_CONFIG of a member that knows no more than it
// has to. TensorFlow 2 reads it like any other: a role is a list, or a map by index.
type sparseConfig struct {
	Cluster     sparseCluster `json:"cluster"`
	Task        tfTask        `json:"task"`
	Environment string        `json:"environment"`
}

// sparseCluster has the workers by index, because not all are there.
type sparseCluster struct {
	Worker map[int32]string `json:"worker"`
	// PS is a list of all parameter servers, or the one that it is for by index.
	PS any `json:"ps"`
}

// tfTask is the member's place in the cluster.
type tfTask struct {
	Type  string `json:"type"`
	Index int32  `json:"index"`
}

// tfClusterRoles are the task types that a cluster may have: those that
// tf.distribute accepts, and master, as scripts for TensorFlow 1 call the chief.
var tfClusterRoles = []string{RoleChief, RoleMaster, RoleWorker, RolePS}

// clusterVar is where members find the cluster that their TF_CONFIG refers to,
// if they have no copy of it. What they run need not know it.
const clusterVar = "MUSTER_TF_CLUSTER"

// tensorFlowCluster is what every TF_CONFIG says of the others.
func (t *Table) tensorFlowCluster() map[string][]string {
	cluster := map[string][]string{}
	for _, role := range tfClusterRoles {
		if hosts := t.hosts(role); len(hosts) > 0 {
			cluster[role] = hosts
		}
	}
	return cluster
}

// tensorFlow returns TF_CONFIG, for members that TensorFlow has a task type
// for; the others get nothing beyond the host lists.
func (t *Table) tensorFlow(me Member) ([]corev1.EnvVar, error) {
	if t.gang.Sparse && (me.Role == RoleWorker || me.Role == RolePS) {
		return t.sparse(me)
	}
	if me.Role != RoleEvaluator && !slices.Contains(tfClusterRoles, me.Role) {
		return nil, nil
	}
	task, err := json.Marshal(tfTask{Type: me.Role, Index: me.Index})
	if err != nil {
		return nil, fmt.Errorf("encoding TF_CONFIG: %w", err)
	}
	var vars []corev1.EnvVar
	cluster := t.cluster
	if t.shared != "" {
		vars, cluster = append(vars, t.tell(corev1.EnvVar{Name: clusterVar})), "$("+clusterVar+")"
	}
	// The environment is "cloud": what reads it at all takes anything else for
	// training on one machine.
	value := fmt.Sprintf(`{"cluster":%s,"task":%s,"environment":"cloud"}`, cluster, task)
	return append(vars, corev1.EnvVar{Name: "TF_CONFIG", Value: value}), nil
}

// sparse returns the TF_CONFIG of a worker or parameter server that connects to
// nobody but the parameter servers.
func (t *Table) sparse(me Member) ([]corev1.EnvVar, error) {
	cluster := sparseCluster{Worker: map[int32]string{}}
	switch {
	case me.Role == RoleWorker:
		cluster.PS = t.hosts(RolePS)
		cluster.Worker[me.Index] = me.address()
	case me.Index == 0:
		cluster.PS = []string{me.address()}
	default: // in a list it would be number 0, and its server would find no address
		cluster.PS = map[int32]string{me.Index: me.address()}
	}
	value, err := json.Marshal(sparseConfig{Cluster: cluster, Task: tfTask{Type: me.Role, Index: me.Index}, Environment: "cloud"})
	if err != nil {
		return nil, fmt.Errorf("encoding TF_CONFIG: %w", err)
	}
	return []corev1.EnvVar{{Name: "TF_CONFIG", Value: string(value)}}, nil
}
