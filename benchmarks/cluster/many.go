package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// manyGangs measures 4,000 gangs of one GPU on 500 nodes of 8, beside the same
// writes without a scheduler.
func (b *bench) manyGangs(ctx context.Context) error {
	n, nodes := 4000/b.scale, 500/b.scale
	var bare, muster []spent
	var writes writes
	err := b.with(ctx, planeOptions{}, func(p *plane) error {
		if err := p.fleet(ctx, nodes, 8); err != nil {
			return err
		}
		took, err := p.gangCeiling(ctx, n, nodes)
		if err != nil {
			return err
		}
		if err := p.clearGangs(ctx); err != nil {
			return err
		}
		bare = append(bare, took)
		b.say("the bare writes %s", seconds(took.wall))
		s, err := b.serve(ctx, p)
		if err != nil {
			return err
		}
		before, err := p.writes(ctx)
		if err != nil {
			return err
		}
		took, err = p.timed(ctx, n, created, func() error {
			return each(n, func(i int) error { return p.gangs.Create(ctx, gang(fmt.Sprintf("one-%d", i), 1, 1)) })
		})
		if err != nil {
			return errors.Join(fmt.Errorf("muster: %w", err), s.kill(), errors.New(tail(s.log)))
		}
		muster = append(muster, took)
		b.say("Muster %s", seconds(took.wall))
		after, err := p.writes(ctx)
		if err != nil {
			return err
		}
		writes = after.since(before)
		return s.stop(ctx)
	})
	if err != nil {
		return err
	}
	share := ratio(middle(bare).wall, middle(muster).wall)
	b.table.add(fmt.Sprintf("the writes of %d gangs of one GPU without a scheduler: gang, placement, pod, status", n), seconds(middle(bare).wall), spread(bare))
	b.table.check(fmt.Sprintf("%d gangs of one GPU on %d nodes x 8: submit to every pod on its node", n, nodes), seconds(middle(muster).wall), ">= 0.8 of the ceiling, <= 20 s",
		share >= 0.8 && middle(muster).wall <= 20*time.Second, fmt.Sprintf("%.2f of the ceiling; by CPU time %.2f; %s; a gang: %s", share, ratio(leastCPU(bare), leastCPU(muster)), spread(muster), writes.each(n)))
	return nil
}

// gangCeiling writes what n gangs of one member need, as fast as it goes: the
// gang, its placement, its pod and one status.
func (p *plane) gangCeiling(ctx context.Context, n, nodes int) (spent, error) {
	used, err := p.cpu()
	if err != nil {
		return spent{}, err
	}
	began := time.Now()
	err = each(n, func(i int) error {
		g := gang(fmt.Sprintf("bare-%d", i), 1, 1)
		g.Finalizers = nil
		if err := p.gangs.Create(ctx, g); err != nil {
			return err
		}
		at := nodeName(i % nodes)
		placement := &v1alpha1.Placement{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: g.Name + "-1", Labels: map[string]string{v1alpha1.LabelGang: g.Name}},
			Spec: v1alpha1.PlacementSpec{
				Gang: g.Name, GangUID: g.UID, Attempt: 1, Epoch: 1, Nodes: []string{at},
				Members: []v1alpha1.PlacedMember{{Role: "worker", GPUs: []string{"counted-0"}, Port: v1alpha1.DefaultPort}},
			},
		}
		if err := p.gangs.Create(ctx, placement); err != nil {
			return err
		}
		pod := member(g.Name+"-worker-0", 1)
		pod.Spec.NodeName = at
		if _, err := p.core.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			return err
		}
		before := g.DeepCopy()
		g.Status.Phase, g.Status.Attempt = v1alpha1.GangStarting, 1
		return p.gangs.Status().Patch(ctx, g, client.MergeFrom(before))
	})
	took := time.Since(began)
	if err != nil {
		return spent{}, fmt.Errorf("writing what gangs need: %w", err)
	}
	by, err := p.cpu()
	return spent{took, by - used}, err
}

// clearGangs removes what was written.
func (p *plane) clearGangs(ctx context.Context) error {
	for _, kind := range []client.Object{&v1alpha1.Placement{}, &v1alpha1.Gang{}, &corev1.Pod{}} {
		if err := p.gangs.DeleteAllOf(ctx, kind, client.InNamespace(namespace), client.GracePeriodSeconds(0)); err != nil {
			return fmt.Errorf("removing what was written: %w", err)
		}
	}
	return nil
}
