package rendezvous

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// tfConfig is the value of TF_CONFIG.
type tfConfig struct {
	Cluster map[string][]string `json:"cluster"`
	Task    tfTask              `json:"task"`
	// Environment is "cloud": what reads it at all takes anything else for
	// training on one machine.
	Environment string `json:"environment"`
}

// sparseConfig is the value of TF_CONFIG of a member that knows no more than it
// has to.
type sparseConfig struct {
	Cluster sparseCluster `json:"sparseCluster"`
	Task    tfTask        `json:"task"`
}

// sparseCluster has the workers by index, because not all are there.
type sparseCluster struct {
	Worker map[int32]string `json:"worker"`
	PS     []string         `json:"ps"`
}

// tfTask is the member's place in the cluster.
type tfTask struct {
	Type  string `json:"type"`
	Index int32  `json:"index"`
}

// tfClusterRoles are the task types that a cluster may have: those that
// tf.distribute accepts, and master, as scripts for TensorFlow 1 call the chief.
var tfClusterRoles = []string{RoleChief, RoleMaster, RoleWorker, RolePS}

// tensorFlow returns TF_CONFIG, for members that TensorFlow has a task type
// for; the others get nothing beyond the host lists.
func tensorFlow(t table, me Member) ([]corev1.EnvVar, error) {
	cluster := map[string][]string{}
	known := me.Role == RoleEvaluator
	for _, role := range tfClusterRoles {
		if hosts := t.hosts(role); len(hosts) > 0 {
			cluster[role] = hosts
		}
		known = known || me.Role == role
	}
	if !known {
		return nil, nil
	}
	value, err := json.Marshal(tfConfig{Cluster: cluster, Task: tfTask{Type: me.Role, Index: me.Index}, Environment: "cloud"})
	if err != nil {
		return nil, fmt.Errorf("encoding TF_CONFIG: %w", err)
	}
	return []corev1.EnvVar{{Name: "TF_CONFIG", Value: string(value)}}, nil
}

// sparse returns the TF_CONFIG of a member that connects to nobody but the
// parameter servers.
func sparse(t table, me Member) ([]corev1.EnvVar, error) {
	cluster := sparseCluster{Worker: map[int32]string{}, PS: []string{}}
	switch me.Role {
	case RoleWorker:
		cluster.PS = t.hosts(RolePS)
		cluster.Worker[me.Index] = me.address()
	case RolePS:
		cluster.PS = []string{me.address()}
	default:
		return tensorFlow(t, me)
	}
	value, err := json.Marshal(sparseConfig{Cluster: cluster, Task: tfTask{Type: me.Role, Index: me.Index}})
	if err != nil {
		return nil, fmt.Errorf("encoding TF_CONFIG: %w", err)
	}
	return []corev1.EnvVar{{Name: "TF_CONFIG", Value: string(value)}}, nil
}
