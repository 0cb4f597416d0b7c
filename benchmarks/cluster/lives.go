package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// job is a TrainingJob of one pod with one GPU.
func job(name string) *v1alpha1.TrainingJob {
	one := int32(1)
	return &v1alpha1.TrainingJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: v1alpha1.TrainingJobSpec{
			Roles: []v1alpha1.Role{{
				Name: "worker", Replicas: &one, GPUs: resource.NewQuantity(1, resource.DecimalSI), Command: []string{"/pause"},
			}},
			Environment: &v1alpha1.Environment{Image: "pause"},
			Checkpoints: &v1alpha1.Checkpoints{None: true},
		},
	}
}

// lived is how jobs fared.
type lived struct {
	// took is until the last had succeeded, and cpu what that took of processors.
	took, cpu time.Duration
	writes    writes
}

// lives measures 10,000 TrainingJobs of one pod from the first submission until
// the last has succeeded.
func (b *bench) lives(ctx context.Context) error {
	n, nodes := 10000/b.scale, 500/b.scale
	var l lived
	err := b.with(ctx, planeOptions{}, func(p *plane) error {
		if err := p.fleet(ctx, nodes, 8); err != nil {
			return err
		}
		s, err := b.serve(ctx, p)
		if err != nil {
			return err
		}
		if l, err = b.live(ctx, p, n); err != nil {
			return errors.Join(err, s.kill(), errors.New(tail(s.log)))
		}
		return s.stop(ctx)
	})
	if err != nil {
		return err
	}
	rate := float64(n) / l.took.Seconds()
	b.table.check(fmt.Sprintf("%d TrainingJobs of one pod, whole life, pods pretended", n), fmt.Sprintf("%.0f/s", rate), ">= 100/s", rate >= 100,
		fmt.Sprintf("%s, %s of CPU time: at most %.0f/s on two cores; a job: %s", seconds(l.took), seconds(l.cpu), 2*float64(n)/l.cpu.Seconds(), l.writes.each(n)))
	return nil
}

// live has n jobs live on a fleet whose pods are pretended.
func (b *bench) live(ctx context.Context, p *plane, n int) (lived, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Minute)
	defer cancel()
	kubelets, err := p.pretend(ctx, true)
	if err != nil {
		return lived{}, err
	}
	before, err := p.writes(ctx)
	if err != nil {
		return lived{}, err
	}
	jobs, err := p.following(ctx, &v1alpha1.TrainingJobList{})
	if err != nil {
		return lived{}, err
	}
	used, err := p.cpu()
	if err != nil {
		return lived{}, err
	}
	var l lived
	began := time.Now()
	ended := make(chan error, 1)
	go func() { ended <- b.untilSucceeded(ctx, jobs, n) }()
	if err := each(n, func(i int) error { return p.gangs.Create(ctx, job(fmt.Sprintf("job-%d", i))) }); err != nil {
		return lived{}, fmt.Errorf("submitting: %w", err)
	}
	select {
	case err = <-ended:
	case err = <-kubelets.fail:
	}
	l.took = time.Since(began)
	if err != nil {
		return lived{}, err
	}
	if l.cpu, err = p.cpu(); err != nil {
		return lived{}, err
	}
	l.cpu -= used
	after, err := p.writes(ctx)
	if err != nil {
		return lived{}, err
	}
	l.writes = after.since(before)
	cancel()
	<-kubelets.done
	return l, nil
}

// untilSucceeded waits until n TrainingJobs have succeeded.
func (b *bench) untilSucceeded(ctx context.Context, jobs *follower, n int) error {
	var failed error
	done := make(map[string]bool, n)
	err := jobs.follow(ctx, func(e watch.Event) bool {
		j, isJob := e.Object.(*v1alpha1.TrainingJob)
		switch {
		case !isJob:
		case j.Status.Phase == v1alpha1.JobFailed:
			failed = fmt.Errorf("job %s failed: %s", j.Name, j.Status.Message)
		case j.Status.Phase == v1alpha1.JobSucceeded:
			if done[j.Name] = true; len(done)%max(1, n/10) == 0 {
				b.say("%d jobs have succeeded", len(done))
			}
		}
		return failed == nil && len(done) < n
	})
	if err != nil {
		return fmt.Errorf("waiting for %d jobs, of which %d have ended: %w", n, len(done), err)
	}
	return failed
}
