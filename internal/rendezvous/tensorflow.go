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
}

// tfTask is the member's place in the cluster.
type tfTask struct {
	Type  string `json:"type"`
	Index int32  `json:"index"`
}

// tfClusterRoles are the task types that tf.distribute accepts in a cluster.
var tfClusterRoles = []string{RoleChief, RoleWorker, RolePS}

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
	value, err := json.Marshal(tfConfig{Cluster: cluster, Task: tfTask{Type: me.Role, Index: me.Index}})
	if err != nil {
		return nil, fmt.Errorf("encoding TF_CONFIG: %w", err)
	}
	return []corev1.EnvVar{{Name: "TF_CONFIG", Value: string(value)}}, nil
}
