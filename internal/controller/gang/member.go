package gang

import (
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// memberName is role-index, as in status.done.
func memberName(role string, index int32) string {
	return role + "-" + strconv.Itoa(int(index))
}

// nameOf is the member that a pod is of.
func nameOf(p *corev1.Pod) string {
	return p.Labels[v1alpha1.LabelRole] + "-" + p.Labels[v1alpha1.LabelIndex]
}

// awaited reports whether the gang's success waits for the member that a pod is
// of.
func awaited(g *v1alpha1.Gang, p *corev1.Pod) bool {
	role := p.Labels[v1alpha1.LabelRole]
	return slices.Contains(g.Spec.DoneWhen, role) || slices.Contains(g.Spec.DoneWhen, role+"/"+p.Labels[v1alpha1.LabelIndex])
}

// alone reports whether a gang has a single member.
func alone(g *v1alpha1.Gang) bool {
	return len(g.Spec.Roles) == 1 && g.Spec.Roles[0].Replicas == 1
}

// called is what messages call a member. Who runs one script never heard of
// members: it is the job itself.
func called(g *v1alpha1.Gang, name string) string {
	if alone(g) {
		return "it"
	}
	return name
}

// attemptOf is the attempt that a pod is of, 0 if it does not say.
func attemptOf(p *corev1.Pod) int32 {
	n, err := strconv.ParseInt(p.Labels[v1alpha1.LabelAttempt], 10, 32)
	if err != nil {
		return 0
	}
	return int32(n)
}

func addSeconds(q *resource.Quantity, seconds float64) {
	q.Add(*resource.NewMilliQuantity(int64(seconds*1000), resource.DecimalSI))
}

// backoff is base, doubled for each one after the first, at most a minute.
func backoff(base time.Duration, nth int32) time.Duration {
	d := base
	for ; nth > 1 && d < time.Minute; nth-- {
		d *= 2
	}
	return min(d, time.Minute)
}

// inAWhile is a time in the future, in the whole seconds that the API keeps.
func inAWhile(now time.Time, d time.Duration) *metav1.Time {
	t := metav1.NewTime(now.Add(d).Round(time.Second))
	return &t
}
