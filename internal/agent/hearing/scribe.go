package hearing

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/node/progress/bulletin"
)

// ByNode is the index, of pods that may report, by which a scribe finds those of
// a node.
const ByNode = "hearing/spec.nodeName"

// IndexByNode is that index.
func IndexByNode(o client.Object) []string {
	if p, is := o.(*corev1.Pod); is && p.Spec.NodeName != "" && mayReport(p) {
		return []string{p.Spec.NodeName}
	}
	return nil
}

// mayReport is true for a member with a folder to report in.
func mayReport(p *corev1.Pod) bool {
	return p.Labels[v1alpha1.LabelGang] != "" && slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool {
		return v.Name == v1alpha1.ProgressVolume && v.EmptyDir != nil
	})
}

// longestProblem is how many bytes of what is wrong with a report are kept.
const longestProblem = 1000

// Scribe writes onto pods what agents say of them.
type Scribe struct {
	// Pods shows pods, by [ByNode].
	Pods client.Reader
	// API is written to.
	API client.Client
	// Now is the clock. Default: time.Now.
	Now func() time.Time
}

// Take writes what the agent of a node says of its pods. Of pods that are not
// there, or may not report, nothing is written.
func (s *Scribe) Take(ctx context.Context, node string, said map[types.UID]v1alpha1.PodProgress) error {
	var pods corev1.PodList
	if err := s.Pods.List(ctx, &pods, client.MatchingFields{ByNode: node}); err != nil {
		return fmt.Errorf("listing the pods that report: %w", err)
	}
	now := time.Now
	if s.Now != nil {
		now = s.Now
	}
	var failed []error
	for i := range pods.Items {
		pod := &pods.Items[i]
		if p, is := said[pod.UID]; is {
			failed = append(failed, s.write(ctx, pod, sound(p), now()))
		}
	}
	return errors.Join(failed...)
}

// sound is what may be said.
func sound(p v1alpha1.PodProgress) v1alpha1.PodProgress {
	if len(p.Problem) > longestProblem {
		p.Problem = strings.ToValidUTF8(p.Problem[:longestProblem], "") + "..."
	}
	if d := p.DoneMillionths; d != nil && (*d < 0 || *d > v1alpha1.Whole || p.ReportTime == nil) {
		p.DoneMillionths, p.ReportTime = nil, nil
	}
	return p
}

// write writes it, unless it is there or the pod is another by now.
func (s *Scribe) write(ctx context.Context, pod *corev1.Pod, p v1alpha1.PodProgress, now time.Time) error {
	condition, changes := bulletin.Change(pod, p, now)
	if !changes {
		return nil
	}
	return s.condition(ctx, pod, condition)
}
