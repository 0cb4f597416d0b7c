package gang

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/memberstatus"
)

// indexGang is the cache's index of pods and placements by the name of their gang.
const indexGang = "gang"

// indexByGang is the function of that index.
func indexByGang(o client.Object) []string {
	if gang := gangOf(o); gang != "" {
		return []string{gang}
	}
	return nil
}

// gangOf is the name of the gang that an object belongs to; empty if it belongs to none.
// A pod's controller and a placement's spec name the gang: a user may change a label.
func gangOf(o client.Object) string {
	switch o := o.(type) {
	case *v1alpha1.Placement:
		return o.Spec.Gang
	case *corev1.Pod:
		if owner := metav1.GetControllerOfNoCopy(o); owner != nil && owner.Kind == "Gang" && owner.APIVersion == v1alpha1.GroupVersion.String() {
			return owner.Name
		}
	}
	return ""
}

// cached selects what belongs to a gang from the cache, without copies: what
// is read this way must not be changed.
func cached(gang string) []client.ListOption {
	return []client.ListOption{client.MatchingFields{indexGang: gang}, client.UnsafeDisableDeepCopy}
}

// live selects the same from the API server.
func live(gang string) []client.ListOption {
	return []client.ListOption{client.MatchingLabels{v1alpha1.LabelGang: gang}}
}

// podsOf lists the pods that a gang controls.
func podsOf(ctx context.Context, r client.Reader, which []client.ListOption, namespace, gang string, uid types.UID) ([]*corev1.Pod, error) {
	list := &corev1.PodList{}
	if err := r.List(ctx, list, append(which, client.InNamespace(namespace))...); err != nil {
		return nil, fmt.Errorf("listing the pods of gang %s/%s: %w", namespace, gang, err)
	}
	var out []*corev1.Pod
	for i := range list.Items {
		if owner := metav1.GetControllerOfNoCopy(&list.Items[i]); owner != nil && owner.UID == uid {
			out = append(out, &list.Items[i])
		}
	}
	return out, nil
}

// placementsOf lists the placements under a gang's name.
func placementsOf(ctx context.Context, r client.Reader, which []client.ListOption, namespace, gang string) ([]v1alpha1.Placement, error) {
	list := &v1alpha1.PlacementList{}
	if err := r.List(ctx, list, append(which, client.InNamespace(namespace))...); err != nil {
		return nil, fmt.Errorf("listing the placements of gang %s/%s: %w", namespace, gang, err)
	}
	return list.Items, nil
}

// newest is the last placement of an attempt of one gang's life, nil if there is
// none.
func newest(placements []v1alpha1.Placement, uid types.UID) *v1alpha1.Placement {
	var out *v1alpha1.Placement
	for i := range placements {
		p := &placements[i]
		if p.Spec.GangUID == uid && p.Spec.Extends == "" && (out == nil || out.Spec.Attempt < p.Spec.Attempt) {
			out = p
		}
	}
	return out
}

// extending are the placements of further replicas of one gang's life.
func extending(placements []v1alpha1.Placement, uid types.UID) []*v1alpha1.Placement {
	var out []*v1alpha1.Placement
	for i := range placements {
		if p := &placements[i]; p.Spec.GangUID == uid && p.Spec.Extends != "" {
			out = append(out, p)
		}
	}
	return out
}

// strayed reports whether a pod names a placement that is not known.
func (o observed) strayed() bool {
	for _, pod := range o.pods {
		name := pod.Annotations[v1alpha1.AnnotationExtension]
		if name != "" && !memberstatus.Ended(pod) && !slices.ContainsFunc(o.extensions, func(p *v1alpha1.Placement) bool { return p.Name == name }) {
			return true
		}
	}
	return false
}

// holds reports whether the gang's status says that it has a placement.
func holds(g *v1alpha1.Gang) bool {
	switch g.Status.Phase {
	case v1alpha1.GangPlanned, v1alpha1.GangStarting, v1alpha1.GangRunning:
		return true
	}
	return false
}
