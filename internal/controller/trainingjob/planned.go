package trainingjob

import "github.com/muster-dev/muster/api/v1alpha1"

// Planned is the gang that a job would become, as if its code and environment
// were ready, for whoever wants to know where it would run. The problem is what
// would keep the job from ever becoming one; empty if nothing would.
func Planned(job *v1alpha1.TrainingJob) (gang *v1alpha1.Gang, problem string) {
	if problem := check(job); problem != "" {
		return nil, problem
	}
	return gangFor(job, preparation{}), ""
}
