package kubeflow

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// check finds what cannot be honoured, and what has no effect.
func (j *job) check() {
	if len(j.replicas) == 0 && len(j.problems) == 0 {
		j.problem("spec.%s has no replicas: give at least one replica type with replicas above 0", j.door.specs)
	}
	for _, r := range j.replicas {
		j.checkReplica(r)
	}
	chief, twoLeaders := j.leader()
	if twoLeaders && chief.count != 1 {
		j.problem("%s.replicas is %d: there can be one", chief.at, chief.count)
	}
	if master, ok := j.replica("Master"); ok && chief.kind != master.kind {
		j.problem("%s and %s are two names for the one replica whose end is the job's: leave one of them", chief.at, master.at)
	}
	if _, ok := j.replica("Worker"); j.elastic != nil && !ok {
		j.problem("spec.elasticPolicy is for workers, and there are none: add %s.Worker", "spec."+j.door.specs)
	}
	if e := j.elastic; e != nil && e.MinReplicas != nil && e.MaxReplicas != nil && *e.MinReplicas > *e.MaxReplicas {
		j.problem("spec.elasticPolicy.minReplicas is %d and maxReplicas is %d: give a minimum that is not above the maximum", *e.MinReplicas, *e.MaxReplicas)
	}
	j.checkPolicy()
}

// checkReplica checks one replica type.
func (j *job) checkReplica(r replica) {
	spec := &r.spec.Template.Spec
	at := slices.IndexFunc(spec.Containers, func(c corev1.Container) bool { return c.Name == j.door.container })
	if at < 0 {
		j.problem("%s.template.spec.containers: none is called %s, which is the one that trains; name it so", r.at, j.door.container)
	}
	for _, c := range spec.Containers {
		if c.Image == "" {
			j.problem("%s.template.spec.containers: %s has no image; name one", r.at, c.Name)
		}
	}
	if spec.NodeName != "" {
		j.problem("%s.template.spec.nodeName: Muster chooses the nodes; use nodeSelector with kubernetes.io/hostname: %s", r.at, spec.NodeName)
	}
	if s := spec.SchedulerName; s != "" && s != corev1.DefaultSchedulerName {
		j.note("%s.template.spec.schedulerName", r.at)
	}
	for _, own := range []struct{ name, value string }{{"hostname", spec.Hostname}, {"subdomain", spec.Subdomain}} {
		if own.value != "" {
			j.note("%s.template.spec.%s (Muster names the replicas)", r.at, own.name)
		}
	}
}

// checkPolicy notes what has no effect.
func (j *job) checkPolicy() {
	if p := j.policy.SchedulingPolicy; p != nil {
		if p.MinAvailable != nil && *p.MinAvailable < j.members() {
			j.note("spec.runPolicy.schedulingPolicy.minAvailable (all replicas start together)")
		}
		if p.ScheduleTimeoutSeconds != nil {
			j.note("spec.runPolicy.schedulingPolicy.scheduleTimeoutSeconds (it waits for as long as it takes)")
		}
	}
	if j.elastic != nil && len(j.elastic.Metrics) > 0 {
		j.note("spec.elasticPolicy.metrics (the number of replicas stays as it is)")
	}
}
