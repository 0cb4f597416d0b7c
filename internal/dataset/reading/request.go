package reading

import (
	"cmp"
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/data"
)

// want is one thing that a job reads.
type want struct {
	mount, dataset, version, path string
	lazy                          when
}

// when is when something is read that a job wants.
type when byte

const (
	// beforehand, or as it is asked for where it can never fit.
	beforehandIfItFits when = iota
	beforehand
	whenAsked
)

// timing reads what a job says of it.
func timing(lazy *bool) when {
	switch {
	case lazy == nil:
		return beforehandIfItFits
	case *lazy:
		return whenAsked
	}
	return beforehand
}

// request is what one job reads, and how far that is.
type request struct {
	job   types.NamespacedName
	uid   types.UID
	wants []want
	// found is what they are, by the same indices; those without a commit are not
	// resolved yet. It belongs to who works on the request.
	found []v1alpha1.JobDataStatus

	// What is below is behind the reader's lock.

	state   State
	asked   time.Time
	told    time.Time
	working bool
	cancel  context.CancelFunc
	lease   *data.Lease
	holds   []func()
}

// wanted is what a job reads.
func wanted(job *v1alpha1.TrainingJob) []want {
	var all []want
	for i := range job.Spec.Data {
		d := &job.Spec.Data[i]
		all = append(all, want{
			mount: d.Mount, dataset: d.Dataset, path: d.Path, lazy: timing(d.Lazy),
			version: cmp.Or(d.Version, string(d.Branch), v1alpha1.DefaultBranch),
		})
	}
	return all
}

// newRequest is a request that begins with what the job's status says already.
func newRequest(job *v1alpha1.TrainingJob, wants []want, now time.Time) *request {
	q := &request{
		job: types.NamespacedName{Namespace: job.Namespace, Name: job.Name}, uid: job.UID,
		wants: wants, found: make([]v1alpha1.JobDataStatus, len(wants)),
		state: State{Phase: Fetching, Message: "waiting to be fetched"}, asked: now, cancel: func() {},
	}
	for i, w := range wants {
		q.found[i] = v1alpha1.JobDataStatus{Mount: w.mount, Dataset: w.dataset, Version: w.version, Path: w.path}
		for _, known := range job.Status.Data {
			if known.Mount == w.mount && known.Dataset == w.dataset && known.Version == w.version && known.Path == w.path {
				q.found[i] = known
			}
		}
	}
	return q
}

// resolved is what is known of what a request wants.
func (q *request) resolved() []v1alpha1.JobDataStatus {
	var out []v1alpha1.JobDataStatus
	for i := range q.found {
		if q.found[i].Commit != "" {
			out = append(out, q.found[i])
		}
	}
	return out
}

// drop takes from a request what it holds; the answer gives that back. The reader's
// lock is held here, and must not be there.
func (q *request) drop() func(context.Context) {
	holds, lease := q.holds, q.lease
	q.holds, q.lease = nil, nil
	return func(ctx context.Context) {
		for _, release := range holds {
			release()
		}
		if lease != nil {
			_ = lease.Release(ctx) // one that stays behind ends by itself
		}
	}
}
