package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// leaseFor is for how long a manager that was killed is waited for.
const leaseFor = 15 * time.Second

// restart measures, on 5,000 nodes with 20,000 pods, an orderly hand-over and a
// crash, each to the first start of a gang that was submitted meanwhile, and
// how long it takes to be told why a gang cannot start.
func (b *bench) restart(ctx context.Context) error {
	nodes, gangs := 5000/b.scale, 100/b.scale
	members := int32(nodes * 4 / gangs)
	var clean, crash, reason time.Duration
	var why string
	err := b.with(ctx, planeOptions{}, func(p *plane) error {
		if err := p.fleet(ctx, nodes+1, 4); err != nil {
			return err
		}
		b.say("%d nodes stand", nodes+1)
		s, err := b.serve(ctx, p)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
		defer cancel()
		// 1. A busy cluster: all GPUs but those of one node are held by pods that
		// run.
		kubelets, err := p.pretend(ctx, false)
		if err != nil {
			return errors.Join(err, s.kill())
		}
		if err := p.fill(ctx, gangs, members); err != nil {
			return errors.Join(err, s.kill(), errors.New(tail(s.log)))
		}
		b.say("%d gangs of %d pods are placed", gangs, members)
		if err := kubelets.caughtUp(ctx, gangs*int(members)); err != nil {
			return errors.Join(err, s.kill())
		}
		b.say("their pods run")
		// 2. Orderly.
		began := time.Now()
		if err := s.stop(ctx); err != nil {
			return err
		}
		if s, clean, err = b.again(ctx, p, "after-a-hand-over", began); err != nil {
			return err
		}
		b.say("started again %s after an orderly end", seconds(clean))
		// 3. A crash.
		began = time.Now()
		if err := s.kill(); err != nil {
			return err
		}
		if s, crash, err = b.again(ctx, p, "after-a-crash", began); err != nil {
			return err
		}
		b.say("started again %s after a crash", seconds(crash))
		// 4. What cannot start, on a cluster that is wholly full.
		if err := p.fillUp(ctx); err != nil {
			return errors.Join(err, s.kill(), errors.New(tail(s.log)))
		}
		if reason, why, err = p.reason(ctx, int32(nodes)); err != nil {
			return errors.Join(err, s.kill(), errors.New(tail(s.log)))
		}
		select {
		case err := <-kubelets.fail:
			return errors.Join(err, s.kill())
		default:
		}
		return s.stop(ctx)
	})
	if err != nil {
		return err
	}
	size := fmt.Sprintf("%d nodes, %d pods", nodes+1, gangs*int(members))
	b.table.check(size+": orderly restart to the first start", seconds(clean), "<= 5 s", clean <= 5*time.Second, "one process stopped, then the next started: the time of both")
	b.table.check("the same after kill -9", seconds(crash), "<= lease + 5 s", crash <= leaseFor+5*time.Second, fmt.Sprintf("lease %s", seconds(leaseFor)))
	b.table.check(fmt.Sprintf("a gang of %d x 4 GPUs that does not fit: submitted to told why", min(nodes, 1000)), seconds(reason), "<= 1 s", reason <= time.Second, fmt.Sprintf("on the full cluster, told %q", why))
	return nil
}

// fill submits gangs of so many members of one GPU and waits until all have
// their nodes.
func (p *plane) fill(ctx context.Context, gangs int, members int32) error {
	_, err := p.timed(ctx, gangs*int(members), created, func() error {
		return each(gangs, func(i int) error { return p.gangs.Create(ctx, gang(fmt.Sprintf("busy-%d", i), members, 1)) })
	})
	if err != nil {
		return fmt.Errorf("filling the fleet: %w", err)
	}
	return nil
}

// fillUp takes the last two GPUs: two of the spare node's four went to the
// gangs that were submitted during the restarts.
func (p *plane) fillUp(ctx context.Context) error {
	_, err := p.timed(ctx, 2, created, func() error { return p.gangs.Create(ctx, gang("the-last", 2, 1)) })
	if err != nil {
		return fmt.Errorf("filling the fleet: %w", err)
	}
	return nil
}

// again starts Muster, submits a gang, and returns how long after began its pod
// had its node.
func (b *bench) again(ctx context.Context, p *plane, name string, began time.Time) (*serving, time.Duration, error) {
	c, err := p.count()
	if err != nil {
		return nil, 0, err
	}
	if err := p.gangs.Create(ctx, gang(name, 1, 1)); err != nil {
		return nil, 0, err
	}
	s, err := b.start(ctx, p)
	if err != nil {
		return nil, 0, err
	}
	at, err := c.until(ctx, 1, of(name+"-", created))
	if err != nil {
		return nil, 0, errors.Join(err, s.kill(), errors.New(tail(s.log)))
	}
	return s, at.Sub(began), nil
}

// reason submits a gang for which there is no room and returns how long it took
// until its status said so.
func (p *plane) reason(ctx context.Context, members int32) (took time.Duration, why string, err error) {
	f, err := p.following(ctx, &v1alpha1.GangList{})
	if err != nil {
		return 0, "", err
	}
	began := time.Now()
	if err := p.gangs.Create(ctx, gang("too-large", min(members, 1000), 4)); err != nil {
		return 0, "", err
	}
	err = f.follow(ctx, func(e watch.Event) bool {
		g, isGang := e.Object.(*v1alpha1.Gang)
		if !isGang || g.Name != "too-large" || !strings.Contains(g.Status.Message, "GPU") {
			return true
		}
		took, why = time.Since(began), g.Status.Message
		return false
	})
	if err != nil {
		return 0, "", fmt.Errorf("waiting for a reason: %w", err)
	}
	return took, why, nil
}
