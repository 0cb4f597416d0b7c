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

// restarted is how long it took each time until the first gang had its node, and
// how long it took to be told why one gets none.
type restarted struct {
	// handOver and takeOver are with a replica that stands by, as the chart has it,
	// after an orderly end and after a crash; clean and crash without.
	handOver, takeOver, clean, crash, reason time.Duration
	why                                      string
}

// restart measures, on 5,000 nodes with 20,000 pods, an orderly hand-over and a
// crash, each to the first start of a gang that was submitted meanwhile, and
// how long it takes to be told why a gang cannot start.
func (b *bench) restart(ctx context.Context) error {
	nodes, gangs := 5000/b.scale, 100/b.scale
	members := int32(nodes * 4 / gangs)
	var r restarted
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
		kubelets, err := b.busy(ctx, p, gangs, members)
		if err != nil {
			return errors.Join(err, s.kill(), errors.New(tail(s.log)))
		}
		if s, err = b.replaced(ctx, p, s, &r); err != nil {
			return err
		}
		if s, err = b.restarts(ctx, p, s, &r); err != nil {
			return err
		}
		// The spare node's four GPUs are with the gangs that were submitted at each
		// end: the cluster is full.
		if r.reason, r.why, err = p.reason(ctx, int32(nodes)); err != nil {
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
	lease := fmt.Sprintf("lease %s", seconds(leaseFor))
	b.table.check(size+": orderly hand-over to the first start", seconds(r.handOver), "<= 5 s", r.handOver <= 5*time.Second, "two replicas, as in the chart: one is told to end, the other goes on")
	b.table.check("the same after kill -9", seconds(r.takeOver), "<= lease + 5 s", r.takeOver <= leaseFor+5*time.Second, lease)
	b.table.add("one replica: orderly restart to the first start", seconds(r.clean), "the process stopped, then the next started: the time of both")
	b.table.add("the same after kill -9", seconds(r.crash), lease)
	b.table.check(fmt.Sprintf("a gang of %d x 4 GPUs that does not fit: submitted to told why", min(nodes, 1000)), seconds(r.reason), "<= 1 s", r.reason <= time.Second, fmt.Sprintf("on the full cluster, told %q", r.why))
	return nil
}

// busy has all GPUs but those of one node be held by pods that run.
func (b *bench) busy(ctx context.Context, p *plane, gangs int, members int32) (*pretender, error) {
	kubelets, err := p.pretend(ctx, false)
	if err != nil {
		return nil, err
	}
	if err := p.fill(ctx, gangs, members); err != nil {
		return nil, err
	}
	b.say("%d gangs of %d pods are placed", gangs, members)
	if err := kubelets.caughtUp(ctx, gangs*int(members)); err != nil {
		return nil, err
	}
	b.say("their pods run")
	return kubelets, nil
}

// replaced ends the leading replica in order and then the next by a crash, each
// while another stands by. It returns the one that leads in the end.
func (b *bench) replaced(ctx context.Context, p *plane, leads *serving, r *restarted) (*serving, error) {
	for _, end := range []struct {
		name string
		do   func(*serving) error
		took *time.Duration
	}{
		{"in-order", func(s *serving) error { return s.stop(ctx) }, &r.handOver},
		{"by-a-crash", (*serving).kill, &r.takeOver},
	} {
		next, err := b.standBy(ctx, p)
		if err != nil {
			return nil, errors.Join(err, leads.kill())
		}
		began := time.Now()
		if err := end.do(leads); err != nil {
			return nil, errors.Join(err, next.kill())
		}
		if *end.took, err = p.firstStart(ctx, "replaced-"+end.name, began); err != nil {
			return nil, errors.Join(err, next.kill(), errors.New(tail(next.log)))
		}
		b.say("a replica that stood by went on %s after the other had ended %s", seconds(*end.took), end.name)
		leads = next
	}
	return leads, nil
}

// restarts ends Muster in order and then by a crash, and starts it after each. It
// returns the last one.
func (b *bench) restarts(ctx context.Context, p *plane, s *serving, r *restarted) (*serving, error) {
	began := time.Now()
	err := s.stop(ctx)
	if err != nil {
		return nil, err
	}
	if s, r.clean, err = b.again(ctx, p, "after-a-hand-over", began); err != nil {
		return nil, err
	}
	b.say("started again %s after an orderly end", seconds(r.clean))
	began = time.Now()
	if err := s.kill(); err != nil {
		return nil, err
	}
	if s, r.crash, err = b.again(ctx, p, "after-a-crash", began); err != nil {
		return nil, err
	}
	b.say("started again %s after a crash", seconds(r.crash))
	return s, nil
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

// again starts Muster, submits a gang, and returns how long after began its pod
// had its node.
func (b *bench) again(ctx context.Context, p *plane, name string, began time.Time) (*serving, time.Duration, error) {
	s, err := b.start(ctx, p, noHealth)
	if err != nil {
		return nil, 0, err
	}
	took, err := p.firstStart(ctx, name, began)
	if err != nil {
		return nil, 0, errors.Join(err, s.kill(), errors.New(tail(s.log)))
	}
	return s, took, nil
}

// firstStart submits a gang and returns how long after began its pod had its node.
func (p *plane) firstStart(ctx context.Context, name string, began time.Time) (time.Duration, error) {
	c, err := p.count()
	if err != nil {
		return 0, err
	}
	if err := p.gangs.Create(ctx, gang(name, 1, 1)); err != nil {
		return 0, err
	}
	at, err := c.until(ctx, 1, of(name+"-", created))
	return at.Sub(began), err
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
