package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// trial is what one gang of members took.
type trial struct{ bare, muster, stock []spent }

// trials is how often each figure is measured; the median is reported.
const trials = 3

// unlimited takes the limit of requests off kube-scheduler, which is 50 a
// second by default.
var unlimited = map[string][]string{"kube-scheduler": {"--kube-api-qps=100000", "--kube-api-burst=100000"}}

// oneGang measures a gang of 1,000 x 4 GPUs on 1,000 nodes of 4 and on 5,000
// of 8, beside bare creation and kube-scheduler, with and without its own gangs.
func (b *bench) oneGang(ctx context.Context) error {
	n := 1000 / b.scale
	first, err := b.oneGangOn(ctx, n, 4, n)
	if err != nil {
		return err
	}
	bare, muster, stock := middle(first.bare).wall, middle(first.muster).wall, middle(first.stock).wall
	what := fmt.Sprintf("%d nodes x 4, one gang of %d x 4 GPUs: submit to every pod on its node", n, n)
	b.table.add("bare creation of the same pods", seconds(bare), spread(first.bare))
	b.table.check(what, seconds(muster), "<= 1.25 x bare", muster <= bare*5/4, fmt.Sprintf("%.2f x bare, by CPU time %.2f x; %s", ratio(muster, bare), ratio(leastCPU(first.muster), leastCPU(first.bare)), spread(first.muster)))
	b.table.check("kube-scheduler, no gang guarantee, the same pods", seconds(stock), ">= 3 x Muster", stock >= 3*muster, fmt.Sprintf("%.2f x Muster; unlimited QPS; %s", ratio(stock, muster), spread(first.stock)))
	if err := b.nativeGang(ctx, n, muster); err != nil {
		return err
	}
	second, err := b.oneGangOn(ctx, 5*n, 8, n)
	if err != nil {
		return err
	}
	bare, large, stock := middle(second.bare).wall, middle(second.muster).wall, middle(second.stock).wall
	b.table.check(fmt.Sprintf("the same on %d nodes x 8", 5*n), seconds(large), "<= 1.2 x on the fewer nodes", large <= muster*6/5,
		fmt.Sprintf("%.2f x; %s; bare %s, %.2f x bare; kube-scheduler %s", ratio(large, muster), spread(second.muster), seconds(bare), ratio(large, bare), seconds(stock)))
	return nil
}

func (b *bench) oneGangOn(ctx context.Context, nodes, gpus, members int) (trial, error) {
	var t trial
	err := b.with(ctx, planeOptions{scheduler: true, args: unlimited}, func(p *plane) error {
		if err := p.fleet(ctx, nodes, gpus); err != nil {
			return err
		}
		for range trials {
			took, err := p.ceiling(ctx, members, 4, nodes)
			if err != nil {
				return err
			}
			t.bare = append(t.bare, took)
			b.say("%d nodes: bare creation %s", nodes, seconds(took.wall))
			if took, err = p.stock(ctx, members, 4); err != nil {
				return err
			}
			t.stock = append(t.stock, took)
			b.say("%d nodes: kube-scheduler %s", nodes, seconds(took.wall))
		}
		s, err := b.serve(ctx, p)
		if err != nil {
			return err
		}
		for i := range trials {
			name := fmt.Sprintf("gang-%d", i)
			took, err := p.timed(ctx, members, created, func() error { return p.gangs.Create(ctx, gang(name, int32(members), 4)) })
			if err != nil {
				return errors.Join(fmt.Errorf("muster: %w", err), s.kill(), errors.New(tail(s.log)))
			}
			t.muster = append(t.muster, took)
			b.say("%d nodes: Muster %s", nodes, seconds(took.wall))
			if err := p.removeGangs(ctx, name); err != nil {
				return errors.Join(err, s.kill())
			}
		}
		return s.stop(ctx)
	})
	return t, err
}

// nativeGang measures kube-scheduler's own gang scheduling, which is switched
// off by default, on the fewer nodes.
func (b *bench) nativeGang(ctx context.Context, n int, muster time.Duration) error {
	var bare, native []spent
	o := planeOptions{
		scheduler: true, gates: map[string]bool{"GenericWorkload": true},
		args: map[string][]string{"kube-scheduler": unlimited["kube-scheduler"], apiServer: {"--runtime-config=scheduling.k8s.io/v1beta1=true"}},
	}
	err := b.with(ctx, o, func(p *plane) error {
		if err := p.fleet(ctx, n, 4); err != nil {
			return err
		}
		for i := range trials {
			took, err := p.ceiling(ctx, n, 4, n)
			if err != nil {
				return err
			}
			bare = append(bare, took)
			if took, err = p.native(ctx, fmt.Sprintf("native-%d", i), n, 4); err != nil {
				return err
			}
			native = append(native, took)
			b.say("%d nodes: kube-scheduler's own gang %s", n, seconds(took.wall))
		}
		return nil
	})
	if err != nil {
		return err
	}
	took := middle(native).wall
	b.table.check("kube-scheduler's own gang scheduling (GenericWorkload), the same pods", seconds(took), ">= 2 x Muster", took >= 2*muster,
		fmt.Sprintf("%.2f x Muster; bare there %s; unlimited QPS; %s", ratio(took, muster), seconds(middle(bare).wall), spread(native)))
	return nil
}
