package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// queue is one with a guarantee of so many GPUs, whose work may be stopped for
// others after a second.
func queue(name string, guaranteed int64) *v1alpha1.Queue {
	second := int64(1)
	return &v1alpha1.Queue{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.QueueSpec{
			Guaranteed: v1alpha1.ResourceAmounts{"gpu": *resource.NewQuantity(guaranteed, resource.DecimalSI)},
			Preemption: &v1alpha1.QueuePreemption{MinRunSeconds: &second},
		},
	}
}

// reclaim measures how long it takes until 250 pods of 8 GPUs, which borrow,
// were all told to go for a gang that is entitled to what they hold.
func (b *bench) reclaim(ctx context.Context) error {
	n := 250 / b.scale
	var took time.Duration
	err := b.with(ctx, planeOptions{}, func(p *plane) error {
		if err := p.fleet(ctx, n, 8); err != nil {
			return err
		}
		for _, q := range []*v1alpha1.Queue{queue("owner", int64(8*n)), queue("borrower", 0)} {
			if err := p.gangs.Create(ctx, q); err != nil {
				return fmt.Errorf("making queue %s: %w", q.Name, err)
			}
		}
		s, err := b.serve(ctx, p)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
		defer cancel()
		if took, err = p.reclaimed(ctx, n); err != nil {
			return errors.Join(err, s.kill(), errors.New(tail(s.log)))
		}
		return s.stop(ctx)
	})
	if err != nil {
		return err
	}
	b.table.check(fmt.Sprintf("reclaim of %d pods x 8 GPUs: all evictions sent", n), seconds(took), "<= 3 s", took <= 3*time.Second, "from the submission of who is entitled; the victims' queue lets them be stopped after a second")
	return nil
}

// reclaimed fills the fleet with borrowers, submits who is entitled, and
// returns how long it took until every borrower was told to go.
func (p *plane) reclaimed(ctx context.Context, n int) (time.Duration, error) {
	kubelets, err := p.pretend(ctx, false)
	if err != nil {
		return 0, err
	}
	_, err = p.timed(ctx, n, created, func() error {
		return each(n, func(i int) error {
			g := gang(fmt.Sprintf("borrower-%d", i), 1, 8)
			g.Spec.Queue = "borrower"
			return p.gangs.Create(ctx, g)
		})
	})
	if err != nil {
		return 0, fmt.Errorf("filling the fleet: %w", err)
	}
	c, err := p.count()
	if err != nil {
		return 0, err
	}
	wait := time.NewTimer(grace)
	defer wait.Stop()
	select {
	case <-ctx.Done():
		return 0, ctx.Err()
	case err := <-kubelets.fail:
		return 0, err
	case <-wait.C:
	}
	g := gang("owner", int32(n), 8)
	g.Spec.Queue = "owner"
	began := time.Now()
	if err := p.gangs.Create(ctx, g); err != nil {
		return 0, err
	}
	last, err := c.until(ctx, n, of("borrower-", deleted))
	return last.Sub(began), err
}

// grace is longer than what has just begun to run is kept from being stopped.
const grace = 5 * time.Second
