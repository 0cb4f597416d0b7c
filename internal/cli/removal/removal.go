// Package removal owns deleting a job and waiting until nothing of it is left:
// no pod, so no process and no GPU.
//
// It must not know any command, nor how a node stops processes.
package removal

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubeflowv1 "github.com/muster-dev/muster/api/kubeflow/v1"
	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/device"
	"github.com/muster-dev/muster/internal/cli/member"
)

// pollEvery is how often the server is asked what is left.
const pollEvery = 100 * time.Millisecond

// Left is what of a job is still there.
type Left struct {
	// Object is true while the job itself exists.
	Object bool
	// Members are those whose pods exist, in order.
	Members []string
	// Running is how many of them have not ended.
	Running int
	// GPUs is how many GPUs those that have not ended hold.
	GPUs int
}

// None reports whether nothing is left.
func (l Left) None() bool { return !l.Object && len(l.Members) == 0 }

// Delete asks for the job's end. A job that is not there is the error of the
// server, not found. One that was made of a TFJob or PyTorchJob ends with that,
// which would make it anew.
func Delete(ctx context.Context, c client.Client, job *v1alpha1.TrainingJob) error {
	if by := metav1.GetControllerOf(job); by != nil && strings.HasPrefix(by.APIVersion, kubeflowv1.GroupVersion.Group+"/") {
		owner := &unstructured.Unstructured{}
		owner.SetAPIVersion(by.APIVersion)
		owner.SetKind(by.Kind)
		owner.SetNamespace(job.Namespace)
		owner.SetName(by.Name)
		err := c.Delete(ctx, owner, client.PropagationPolicy(metav1.DeletePropagationBackground), client.Preconditions{UID: &by.UID})
		if err == nil || !apierrors.IsNotFound(err) {
			return wrap(job, err)
		}
	}
	options := []client.DeleteOption{client.PropagationPolicy(metav1.DeletePropagationBackground)}
	if job.UID != "" {
		options = append(options, client.Preconditions{UID: &job.UID})
	}
	return wrap(job, c.Delete(ctx, job, options...))
}

func wrap(job *v1alpha1.TrainingJob, err error) error {
	if err != nil {
		return fmt.Errorf("deleting %s: %w", job.Name, err)
	}
	return nil
}

// Wait returns once nothing of the job is left, telling seen what is, again
// and again.
func Wait(ctx context.Context, c client.Client, job *v1alpha1.TrainingJob, seen func(Left)) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		left, err := Look(ctx, c, job)
		if err != nil {
			return err
		}
		seen(left)
		if left.None() {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// WaitAll returns once nothing of any of several jobs of a namespace is left, telling seen
// again and again how many are gone, and of the first that is not what of it is left. A
// look at more than a few costs two requests, however many they are.
func WaitAll(ctx context.Context, c client.Client, jobs []*v1alpha1.TrainingJob, seen func(gone int, first string, left Left)) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	remaining := slices.Clone(jobs)
	for {
		left, err := lookAll(ctx, c, remaining)
		if err != nil {
			return err
		}
		remaining = slices.DeleteFunc(remaining, func(job *v1alpha1.TrainingJob) bool { return left[job.Name].None() })
		if len(remaining) == 0 {
			seen(len(jobs), "", Left{})
			return nil
		}
		seen(len(jobs)-len(remaining), remaining[0].Name, left[remaining[0].Name])
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// few jobs are looked at one by one: the namespace may have thousands.
const few = 4

// lookAll is what is left of each of several jobs of a namespace now, by their names.
func lookAll(ctx context.Context, c client.Client, jobs []*v1alpha1.TrainingJob) (map[string]Left, error) {
	left := make(map[string]Left, len(jobs))
	if len(jobs) <= few {
		for _, job := range jobs {
			l, err := Look(ctx, c, job)
			if err != nil {
				return nil, err
			}
			left[job.Name] = l
		}
		return left, nil
	}
	var now v1alpha1.TrainingJobList
	if err := c.List(ctx, &now, client.InNamespace(jobs[0].Namespace)); err != nil {
		return nil, fmt.Errorf("looking for the jobs: %w", err)
	}
	// After the jobs: a pod that is made meanwhile is one of a job that was there.
	var pods corev1.PodList
	if err := c.List(ctx, &pods, client.InNamespace(jobs[0].Namespace), client.HasLabels{v1alpha1.LabelJob}); err != nil {
		return nil, fmt.Errorf("listing the members of jobs: %w", err)
	}
	there := make(map[string]*v1alpha1.TrainingJob, len(now.Items))
	for i := range now.Items {
		there[now.Items[i].Name] = &now.Items[i]
	}
	members := map[string][]corev1.Pod{}
	for i := range pods.Items {
		if _, ok := member.OfPod(&pods.Items[i]); ok {
			name := pods.Items[i].Labels[v1alpha1.LabelJob]
			members[name] = append(members[name], pods.Items[i])
		}
	}
	for _, job := range jobs {
		left[job.Name] = of(job, there[job.Name], members[job.Name])
	}
	return left, nil
}

// Look returns what is left of the job now.
func Look(ctx context.Context, c client.Client, job *v1alpha1.TrainingJob) (Left, error) {
	now := &v1alpha1.TrainingJob{}
	err := c.Get(ctx, client.ObjectKeyFromObject(job), now)
	if apierrors.IsNotFound(err) {
		now, err = nil, nil
	}
	if err != nil {
		return Left{}, fmt.Errorf("looking for %s: %w", job.Name, err)
	}
	pods, err := member.Pods(ctx, c, job.Namespace, job.Name)
	if err != nil {
		return Left{}, err
	}
	return of(job, now, pods), nil
}

// of is what is left of a job where there is now one of its name, or none, and these are
// the pods of that name's members.
func of(job, now *v1alpha1.TrainingJob, pods []corev1.Pod) (left Left) {
	left.Object = now != nil && (job.UID == "" || now.UID == job.UID)
	if now != nil && !left.Object {
		// Another job bears the name by now: its pods are not ours to wait for.
		return left
	}
	for i := range pods {
		m, _ := member.OfPod(&pods[i])
		left.Members = append(left.Members, m.String())
		if phase := pods[i].Status.Phase; phase != corev1.PodSucceeded && phase != corev1.PodFailed {
			left.Running++
			left.GPUs += len(device.Of(&pods[i]))
		}
	}
	slices.Sort(left.Members)
	return left
}

// String says what is left in words.
func (l Left) String() string {
	switch {
	case len(l.Members) == 0:
		return "tidying up"
	case len(l.Members) > 4:
		return fmt.Sprintf("%d members are ending", len(l.Members))
	}
	return strings.Join(l.Members, ", ") + " ending"
}
