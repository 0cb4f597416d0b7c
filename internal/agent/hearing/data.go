package hearing

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// DataByNode is the index, of pods that name data, by which those of a node are found.
const DataByNode = "hearing/data.nodeName"

// IndexDataByNode is that index.
func IndexDataByNode(o client.Object) []string {
	if p, is := o.(*corev1.Pod); is && p.Spec.NodeName != "" && parts(p) > 0 {
		return []string{p.Spec.NodeName}
	}
	return nil
}

// parts is how many volumes of data a pod has.
func parts(p *corev1.Pod) int32 {
	n := int32(0)
	for i := range p.Spec.Volumes {
		if csi := p.Spec.Volumes[i].CSI; csi != nil && csi.Driver == v1alpha1.DataDriver {
			n++
		}
	}
	return n
}

// TakeData writes what the agent of a node says of the data of its pods. Those that
// are not there, or not yet, or name no data, are returned: of them nothing is written.
func (s *Scribe) TakeData(ctx context.Context, node string, said map[types.UID]v1alpha1.PodData) (unknown []types.UID, err error) {
	var pods corev1.PodList
	if err := s.Pods.List(ctx, &pods, client.MatchingFields{DataByNode: node}); err != nil {
		return nil, fmt.Errorf("listing the pods that read data: %w", err)
	}
	now := time.Now
	if s.Now != nil {
		now = s.Now
	}
	var failed []error
	known := map[types.UID]bool{}
	for i := range pods.Items {
		pod := &pods.Items[i]
		d, is := said[pod.UID]
		if !is {
			continue
		}
		known[pod.UID] = true
		c := arrival(parts(pod), d, now())
		before := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == v1alpha1.ConditionPodData })
		if before >= 0 && same(&pod.Status.Conditions[before], &c) {
			continue
		}
		failed = append(failed, s.condition(ctx, pod, c))
	}
	for uid := range said {
		if !known[uid] {
			unknown = append(unknown, uid)
		}
	}
	return unknown, errors.Join(failed...)
}

// same reports that a condition says already what another would. Since when it is
// mounted does not change.
func same(a, b *corev1.PodCondition) bool {
	return a.Status == b.Status && a.Reason == b.Reason && a.Message == b.Message
}

// arrival is the condition of a pod with so many volumes of data.
func arrival(volumes int32, d v1alpha1.PodData, now time.Time) corev1.PodCondition {
	c := corev1.PodCondition{Type: v1alpha1.ConditionPodData, Status: corev1.ConditionFalse, Reason: string(v1alpha1.DataFetching), LastProbeTime: metav1.NewTime(now), LastTransitionTime: metav1.NewTime(now)}
	switch d.Reason {
	case v1alpha1.DataMounted:
		if d.Mounted >= volumes && d.MountedTime != nil {
			c.Status, c.Reason, c.Message = corev1.ConditionTrue, string(v1alpha1.DataMounted), "its data is mounted"
			if d.MountedTime.Time.Before(now) {
				c.LastTransitionTime = metav1.NewTime(d.MountedTime.Time)
			}
			return c
		}
	case v1alpha1.DataRetrying, v1alpha1.DataUnfit, v1alpha1.DataLost:
		c.Reason = string(d.Reason)
	}
	c.Message = cmp.Or(d.Message, fmt.Sprintf("%d of %d volumes of data are mounted", d.Mounted, volumes))
	if len(c.Message) > longestProblem {
		c.Message = strings.ToValidUTF8(c.Message[:longestProblem], "") + "..."
	}
	return c
}

// condition writes one, unless the pod is another by now.
func (s *Scribe) condition(ctx context.Context, pod *corev1.Pod, c corev1.PodCondition) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID},
		"status":   map[string]any{"conditions": []corev1.PodCondition{c}},
	})
	if err != nil {
		return fmt.Errorf("writing the condition of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	// The conditions of others are not touched: they are merged by their type.
	err = s.API.Status().Patch(ctx, pod, client.RawPatch(types.StrategicMergePatchType, patch))
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return fmt.Errorf("writing the condition of pod %s/%s: %w", pod.Namespace, pod.Name, err)
}
