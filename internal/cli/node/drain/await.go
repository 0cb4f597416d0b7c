package drain

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// await waits until nothing of Muster's runs on a node, and says whenever others
// are left than before. It returns who was left when it gave up.
func (o *options) await(ctx context.Context, server client.WithWatch, name string) (left []string, err error) {
	said := ""
	for {
		changes, err := server.Watch(ctx, &corev1.PodList{}, client.MatchingFields{"spec.nodeName": name})
		if err != nil {
			return left, fmt.Errorf("watching the pods of node %s: %w", name, err)
		}
		for {
			pods := &corev1.PodList{}
			if err := server.List(ctx, pods, client.MatchingFields{"spec.nodeName": name}); err != nil {
				changes.Stop()
				return left, fmt.Errorf("listing the pods of node %s: %w", name, err)
			}
			if left = leftOf(pods.Items); len(left) == 0 {
				changes.Stop()
				return nil, nil
			}
			if text := strings.Join(left, ", "); text != said {
				_, _ = fmt.Fprintf(o.streams.Err, "node %s: left are %s\n", name, text)
				said = text
			}
			blocked, err := evict(ctx, server, pods.Items)
			if err != nil {
				changes.Stop()
				return left, err
			}
			var again <-chan time.Time
			if blocked {
				again = time.After(askAgain)
			}
			more := true
			select {
			case _, more = <-changes.ResultChan():
			case <-again:
			}
			if !more {
				break // it is watched anew
			}
		}
		if err := ctx.Err(); err != nil {
			return left, err
		}
	}
}

// isMember reports whether a pod is a gang's, and isBound whether Muster bound it
// for somebody else.
func isMember(p *corev1.Pod) bool { return p.Labels[v1alpha1.LabelGang] != "" }
func isBound(p *corev1.Pod) bool {
	return !isMember(p) && p.Spec.SchedulerName == v1alpha1.SchedulerName
}

func ended(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// leftOf names whose pods run on a node still, of those that Muster placed:
// "vision/resnet (worker-0, worker-1: stopping)".
func leftOf(pods []corev1.Pod) []string {
	members := map[string][]string{}
	stopping := map[string]int{}
	for i := range pods {
		p := &pods[i]
		if ended(p) || !isMember(p) && !isBound(p) {
			continue
		}
		who, what := p.Namespace+"/"+p.Name, "pod"
		if isMember(p) {
			who, what = p.Namespace+"/"+p.Labels[v1alpha1.LabelGang], p.Labels[v1alpha1.LabelRole]+"-"+p.Labels[v1alpha1.LabelIndex]
		}
		members[who] = append(members[who], what)
		if p.DeletionTimestamp != nil {
			stopping[who]++
		}
	}
	var out []string
	for _, who := range slices.Sorted(maps.Keys(members)) {
		names := members[who]
		slices.Sort(names)
		text := strings.Join(names, ", ")
		if len(names) > mostNames {
			text = fmt.Sprintf("%s and %d more", strings.Join(names[:mostNames], ", "), len(names)-mostNames)
		}
		if stopping[who] == len(names) {
			text += ": stopping"
		}
		out = append(out, who+" ("+text+")")
	}
	return out
}

// mostNames is how many members of a job are named.
const mostNames = 4

// askAgain is the pause before a pod is evicted that its budget kept.
const askAgain = 5 * time.Second

// evict asks pods that Muster bound for others to go, as kubectl drain does; it
// is blocked where a budget of theirs keeps one for a while. Members are stopped
// by Muster.
func evict(ctx context.Context, server client.Client, pods []corev1.Pod) (blocked bool, err error) {
	for i := range pods {
		p := &pods[i]
		if ended(p) || !isBound(p) || p.DeletionTimestamp != nil {
			continue
		}
		eviction := &policyv1.Eviction{DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &p.UID}}}
		err := server.SubResource("eviction").Create(ctx, p, eviction)
		switch {
		case err == nil, apierrors.IsNotFound(err), apierrors.IsConflict(err):
		case apierrors.IsTooManyRequests(err):
			blocked = true
		default:
			return blocked, fmt.Errorf("evicting pod %s/%s: %w", p.Namespace, p.Name, err)
		}
	}
	return blocked, nil
}
