package snapshot

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/allocation"
	"github.com/muster-dev/muster/internal/scheduling"
	"github.com/muster-dev/muster/internal/snapshot/conversion"
)

// keepBook begins the book of claims; defaultToo is true if Muster schedules pods of
// default-scheduler.
func (m *mirror) keepBook(defaultToo bool) {
	m.book = allocation.NewBook(func(uid types.UID) *corev1.Pod { return m.pods[uid] }, func(p *corev1.Pod) bool { return schedules(p, defaultToo) })
}

// schedules reports whether a pod is Muster's to schedule.
func schedules(p *corev1.Pod, defaultToo bool) bool {
	name := p.Spec.SchedulerName
	return name == v1alpha1.SchedulerName || defaultToo && name == corev1.DefaultSchedulerName
}

// stock tells the book of claims the GPUs of a node that Muster gives out.
func (m *mirror) stock(node string) {
	var parts []*resourcev1.ResourceSlice
	if m.owned[node] = conversion.Owned(m.nodes[node]); m.owned[node] {
		parts = m.whole[node]
	} else {
		delete(m.owned, node)
	}
	gave := m.book.Gives()
	m.book.Node(node, parts)
	if m.book.Gives() != gave { // quotas count claims from now on, or no more
		for key := range m.quotas {
			m.dirty.spaces[key.Namespace] = true
		}
	}
}

// bookOf is a book of claims from lists.
func bookOf(nodes []corev1.Node, pods []corev1.Pod, parts map[string][]*resourcev1.ResourceSlice, claims []resourcev1.ResourceClaim) *allocation.Book {
	byUID := make(map[types.UID]*corev1.Pod, len(pods))
	for i := range pods {
		byUID[pods[i].UID] = &pods[i]
	}
	book := allocation.NewBook(func(uid types.UID) *corev1.Pod { return byUID[uid] }, func(p *corev1.Pod) bool { return schedules(p, false) })
	for i := range nodes {
		if conversion.Owned(&nodes[i]) {
			book.Node(nodes[i].Name, parts[nodes[i].Name])
		}
	}
	for i := range claims {
		book.Shown(&claims[i])
	}
	return book
}

// HeldByOthers lists the GPUs of Muster's nodes that are allocated to claims that Muster did not
// make, for commands that show nodes. It returns none to users without the right to list claims.
func HeldByOthers(ctx context.Context, r client.Reader, nodes []corev1.Node, pods []corev1.Pod) ([]allocation.Holding, error) {
	parts, claims := &resourcev1.ResourceSliceList{}, &resourcev1.ResourceClaimList{}
	for _, list := range []client.ObjectList{parts, claims} {
		err := r.List(ctx, list)
		if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("listing %T: %w", list, err)
		}
	}
	_, held := bookOf(nodes, pods, byNode(parts.Items), claims.Items).Take(true)
	return held, nil
}

// heldBy are holdings of claims of others as pods: they hold GPUs and nothing else. A claim
// that has a part of a GPU holds all of it: Muster shares GPUs among its own work alone.
func heldBy(holdings []allocation.Holding) []scheduling.Pod {
	out := make([]scheduling.Pod, len(holdings))
	for i := range holdings {
		h := &holdings[i]
		out[i] = scheduling.Pod{
			Key: scheduling.Key{Namespace: h.Claim.Namespace, Name: h.Claim.Name}, UID: h.ID, Claim: true,
			Node: h.Node, Since: conversion.Instant(h.Since), GPUs: []string{h.GPU},
		}
	}
	return out
}

// nodeOf is the node that a slice is of; empty for one of several nodes.
func nodeOf(s *resourcev1.ResourceSlice) string {
	if s.Spec.NodeName == nil {
		return ""
	}
	return *s.Spec.NodeName
}

// byNode are slices by their node.
func byNode(all []resourcev1.ResourceSlice) map[string][]*resourcev1.ResourceSlice {
	out := map[string][]*resourcev1.ResourceSlice{}
	for i := range all {
		out[nodeOf(&all[i])] = append(out[nodeOf(&all[i])], &all[i])
	}
	return out
}
