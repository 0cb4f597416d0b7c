package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
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
	var clean, crash, reason time.Duration
	err := b.with(ctx, planeOptions{}, func(p *plane) error {
		if err := p.fleet(ctx, nodes, 4); err != nil {
			return err
		}
		s, err := b.serve(ctx, p)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
		defer cancel()
		// 1. A busy cluster: 4/5 of all GPUs are held by pods that run.
		kubelets, err := p.pretend(ctx, false)
		if err != nil {
			return errors.Join(err, s.kill())
		}
		if err := p.fill(ctx, gangs, int32(nodes*4/gangs)*4/5); err != nil {
			return errors.Join(err, s.kill(), errors.New(tail(s.log)))
		}
		// 2. Orderly.
		began := time.Now()
		if err := s.stop(ctx); err != nil {
			return err
		}
		if s, clean, err = b.again(ctx, p, "after-a-hand-over", began); err != nil {
			return err
		}
		// 3. A crash.
		began = time.Now()
		if err := s.kill(); err != nil {
			return err
		}
		if s, crash, err = b.again(ctx, p, "after-a-crash", began); err != nil {
			return err
		}
		// 4. What cannot start.
		if reason, err = p.reason(ctx, int32(nodes)); err != nil {
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
	size := fmt.Sprintf("%d nodes, %d pods", nodes, nodes*4*4/5)
	b.table.check(size+": orderly restart to the first start", seconds(clean), "<= 5 s", clean <= 5*time.Second, "one process stopped, then the next started: the time of both")
	b.table.check("the same after kill -9", seconds(crash), "<= lease + 5 s", crash <= leaseFor+5*time.Second, fmt.Sprintf("lease %s", seconds(leaseFor)))
	b.table.check("a gang that does not fit: submitted to told why", seconds(reason), "<= 1 s", reason <= time.Second, "")
	return nil
}

// fill submits gangs of so many members of one GPU and waits until all have
// their nodes.
func (p *plane) fill(ctx context.Context, gangs int, members int32) error {
	_, err := p.timed(ctx, gangs*int(members), func() error {
		return each(gangs, func(i int) error { return p.gangs.Create(ctx, gang(fmt.Sprintf("busy-%d", i), members, 1)) })
	})
	if err != nil {
		return fmt.Errorf("filling the fleet: %w", err)
	}
	return nil
}

// again starts Muster, submits a gang, and returns how long after began its pod
// had its node.
func (b *bench) again(ctx context.Context, p *plane, name string, began time.Time) (*serving, time.Duration, error) {
	c, err := p.count(ctx)
	if err != nil {
		return nil, 0, err
	}
	defer c.stop()
	if err := p.gangs.Create(ctx, gang(name, 1, 1)); err != nil {
		return nil, 0, err
	}
	s, err := b.start(ctx, p)
	if err != nil {
		return nil, 0, err
	}
	of := func(t watch.EventType, pod *corev1.Pod) bool {
		return onNode(t, pod) && pod.Labels[v1alpha1.LabelGang] == name
	}
	at, err := c.until(ctx, 1, of)
	if err != nil {
		return nil, 0, errors.Join(err, s.kill(), errors.New(tail(s.log)))
	}
	return s, at.Sub(began), nil
}

// reason submits a gang for which there is no room and returns how long it took
// until its status said so.
func (p *plane) reason(ctx context.Context, members int32) (time.Duration, error) {
	w, err := p.watch(ctx, &v1alpha1.GangList{})
	if err != nil {
		return 0, fmt.Errorf("watching gangs: %w", err)
	}
	defer w.Stop()
	began := time.Now()
	if err := p.gangs.Create(ctx, gang("too-large", min(members, 1000), 4)); err != nil {
		return 0, err
	}
	for {
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("waiting for a reason: %w", ctx.Err())
		case e, ok := <-w.ResultChan():
			if !ok {
				return 0, errors.New("the watch of gangs ended before a reason came")
			}
			g, isGang := e.Object.(*v1alpha1.Gang)
			if isGang && g.Name == "too-large" && strings.Contains(g.Status.Message, "GPU") {
				return time.Since(began), nil
			}
		}
	}
}
