//go:build embedded

package manager_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
)

const (
	// flood is how many jobs one user has at once: the quota of `muster user add`.
	flood = 2000
	// longestDuring and longestAfter bound the median time until a job of another user starts,
	// while these are submitted and while they wait. On 2 cores it is 0.05 s without a flood,
	// 0.9 s during one and 0.05 s after it.
	longestDuring = 5 * time.Second
	longestAfter  = 500 * time.Millisecond
)

// TestAFloodOfOneUser lets a user submit as many jobs as the quota allows. None finds room.
// Jobs of another user start meanwhile, and as soon as before once all are submitted.
func TestAFloodOfOneUser(t *testing.T) {
	s := newStage(t)
	s.node("a", 4, true)
	s.run("one")
	for _, name := range []string{"eve", "ada"} {
		if err := s.api.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			t.Fatal(err)
		}
	}
	before := s.starts(t.Context(), "before")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	group, submitting := errgroup.WithContext(ctx)
	for k := range 8 {
		group.Go(func() error {
			for i := range flood / 8 {
				if err := s.api.Create(submitting, small("eve", fmt.Sprintf("job-%d-%d", k, i), "99")); err != nil {
					return fmt.Errorf("submitting: %w", err)
				}
			}
			return nil
		})
	}
	during := s.starts(t.Context(), "during")
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	after := s.starts(t.Context(), "after")
	t.Logf("until a job of another user starts: %s before %d jobs, %s while they are submitted, %s while they wait", before, flood, during, after)
	if during > longestDuring || after > longestAfter {
		t.Errorf("a job of another user starts %s after it is submitted during the flood, and %s after the flood; at most %s and %s are allowed", during, after, longestDuring, longestAfter)
	}
}

// small is a job of one member with so many GPUs.
func small(namespace, name, gpus string) *v1alpha1.TrainingJob {
	q := resource.MustParse(gpus)
	return &v1alpha1.TrainingJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: v1alpha1.TrainingJobSpec{
			Environment: &v1alpha1.Environment{Image: "python:3.13"}, Checkpoints: &v1alpha1.Checkpoints{None: true},
			Roles: []v1alpha1.Role{{Name: "worker", Command: []string{"true"}, GPUs: &q}},
		},
	}
}

// starts is the median time from the submission of a job to its pod.
func (s *stage) starts(ctx context.Context, name string) time.Duration {
	s.t.Helper()
	var took []time.Duration
	for i := range 9 {
		job := small("ada", fmt.Sprintf("%s-%d", name, i), "0")
		began := time.Now()
		if err := s.api.Create(ctx, job); err != nil {
			s.t.Fatal(err)
		}
		await(s, &corev1.PodList{}, "the pod of "+job.Name, func(p *corev1.Pod) bool { return p.Namespace == "ada" && p.Labels[v1alpha1.LabelJob] == job.Name })
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	return took[len(took)/2]
}
