package kubeflow

import (
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	kubeflowv1 "github.com/muster-dev/muster/api/kubeflow/v1"
)

// variables are what a PyTorchJob tells torchrun beyond what every PyTorch
// training job does. Those of the rendezvous, which these may refer to, come
// before them.
func (j *job) variables() []corev1.EnvVar {
	if j.door.kind != kubeflowv1.KindPyTorchJob {
		return nil
	}
	var out []corev1.EnvVar
	add := func(name, value string) { out = append(out, corev1.EnvVar{Name: name, Value: value}) }
	if n := j.processesPerNode(); n != "" {
		add("PET_NPROC_PER_NODE", n)
		if count, err := strconv.Atoi(n); err == nil {
			add("WORLD_SIZE", strconv.Itoa(count*int(j.members())))
		}
	}
	e := j.elastic
	if e == nil {
		return out
	}
	backend := "c10d"
	if e.RDZVBackend != nil {
		backend = *e.RDZVBackend
	}
	add("PET_RDZV_BACKEND", backend)
	if e.MinReplicas != nil || e.MaxReplicas != nil {
		add("PET_NNODES", j.nodes(e))
	}
	if e.RDZVHost != nil || e.RDZVPort != nil {
		host, port := "$(MASTER_ADDR)", "$(MASTER_PORT)"
		if e.RDZVHost != nil {
			host = *e.RDZVHost
		}
		if e.RDZVPort != nil {
			port = strconv.Itoa(int(*e.RDZVPort))
		}
		add("PET_RDZV_ENDPOINT", host+":"+port)
	}
	if e.RDZVID != nil {
		add("PET_RDZV_ID", *e.RDZVID)
	}
	if len(e.RDZVConf) > 0 {
		var pairs []string
		for _, c := range e.RDZVConf {
			pairs = append(pairs, c.Key+"="+c.Value)
		}
		add("PET_RDZV_CONF", strings.Join(pairs, ","))
	}
	if e.Standalone != nil && *e.Standalone {
		add("PET_STANDALONE", "")
	}
	if e.MaxRestarts != nil {
		add("PET_MAX_RESTARTS", strconv.Itoa(int(*e.MaxRestarts)))
	}
	return out
}

// processesPerNode is what torchrun is told; empty: one for each GPU.
func (j *job) processesPerNode() string {
	switch {
	case j.processes != nil:
		return *j.processes
	case j.elastic != nil && j.elastic.NProcPerNode != nil:
		return strconv.Itoa(int(*j.elastic.NProcPerNode))
	}
	return ""
}

// nodes is how many nodes torchrun is told that there may be. Where a bound is
// missing it is the number that there are.
func (j *job) nodes(e *kubeflowv1.ElasticPolicy) string {
	least, most := j.members(), j.members()
	if e.MinReplicas != nil {
		least = *e.MinReplicas
	}
	if e.MaxReplicas != nil {
		most = *e.MaxReplicas
	}
	return fmt.Sprintf("%d:%d", least, max(least, most))
}
