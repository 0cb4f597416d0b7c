package snapshot

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/scheduling"
	"github.com/muster-dev/muster/internal/snapshot/conversion"
)

// anchors say where the volumes of claims can be used: by the node affinity of
// the volume that a claim is bound to. A claim that is not bound yet, and a
// volume that every node can use, tie nobody.
type anchors struct {
	claims  map[types.NamespacedName]*corev1.PersistentVolumeClaim
	volumes map[string]*corev1.PersistentVolume
	// bound are the claims that name a volume as theirs.
	bound map[string]map[types.NamespacedName]bool
	// users are the units that name a claim, and named the claims that a unit
	// names.
	users map[types.NamespacedName]map[types.UID]bool
	named map[types.UID][]types.NamespacedName
}

func newAnchors() *anchors {
	return &anchors{
		claims: map[types.NamespacedName]*corev1.PersistentVolumeClaim{}, volumes: map[string]*corev1.PersistentVolume{},
		bound: map[string]map[types.NamespacedName]bool{},
		users: map[types.NamespacedName]map[types.UID]bool{}, named: map[types.UID][]types.NamespacedName{},
	}
}

// claimsOf are the claims that pods of these specs use, sorted, each once.
func claimsOf(namespace string, specs ...*corev1.PodSpec) []types.NamespacedName {
	var out []types.NamespacedName
	for _, spec := range specs {
		for i := range spec.Volumes {
			if source := spec.Volumes[i].PersistentVolumeClaim; source != nil {
				out = append(out, types.NamespacedName{Namespace: namespace, Name: source.ClaimName})
			}
		}
	}
	slices.SortFunc(out, byName)
	return slices.Compact(out)
}

// templates are the pods of a gang's roles.
func templates(g *v1alpha1.Gang) []*corev1.PodSpec {
	var out []*corev1.PodSpec
	for i := range g.Spec.Roles {
		out = append(out, &g.Spec.Roles[i].Template.Spec)
	}
	return out
}

// names notes which claims a unit names; none for one that is gone.
func (a *anchors) names(unit types.UID, claims []types.NamespacedName) {
	if slices.Equal(a.named[unit], claims) {
		return
	}
	for _, claim := range a.named[unit] {
		outOf(a.users, claim, unit)
	}
	delete(a.named, unit)
	for _, claim := range claims {
		into(a.users, claim, unit, true)
	}
	if len(claims) > 0 {
		a.named[unit] = claims
	}
}

// claim takes over a claim, nil where it is gone. It returns the units for which
// that may change where they can be.
func (a *anchors) claim(key types.NamespacedName, c *corev1.PersistentVolumeClaim) map[types.UID]bool {
	before := a.terms(key)
	if old := a.claims[key]; old != nil {
		outOf(a.bound, old.Spec.VolumeName, key)
	}
	if c == nil {
		delete(a.claims, key)
	} else {
		a.claims[key] = c
		into(a.bound, c.Spec.VolumeName, key, true)
	}
	if equality.Semantic.DeepEqual(before, a.terms(key)) {
		return nil
	}
	return a.users[key]
}

// volume takes over a volume, nil where it is gone, as claim does.
func (a *anchors) volume(name string, v *corev1.PersistentVolume) map[types.UID]bool {
	old := a.volumes[name]
	if v == nil {
		delete(a.volumes, name)
	} else {
		a.volumes[name] = v
	}
	if equality.Semantic.DeepEqual(affinityOf(old), affinityOf(v)) {
		return nil
	}
	out := map[types.UID]bool{}
	for claim := range a.bound[name] {
		maps.Copy(out, a.users[claim])
	}
	return out
}

// part is what is known of the claims that units name, to be read without a lock.
func (a *anchors) part(units map[types.UID]bool) *anchors {
	var out *anchors
	for unit := range units {
		for _, claim := range a.named[unit] {
			if len(a.terms(claim)) == 0 {
				continue
			}
			if out == nil {
				out = newAnchors()
			}
			c := a.claims[claim]
			out.claims[claim], out.volumes[c.Spec.VolumeName] = c, a.volumes[c.Spec.VolumeName]
		}
	}
	return out
}

// ofStorage reports whether an object is a claim or a volume.
func ofStorage(object client.Object) bool {
	switch object.(type) {
	case *corev1.PersistentVolumeClaim, *corev1.PersistentVolume:
		return true
	}
	return false
}

// terms are alternatives of nodes that can use the volume of a claim; nil: any.
func (a *anchors) terms(claim types.NamespacedName) []corev1.NodeSelectorTerm {
	c := a.claims[claim]
	if c == nil || c.Spec.VolumeName == "" {
		return nil
	}
	return affinityOf(a.volumes[c.Spec.VolumeName])
}

func affinityOf(v *corev1.PersistentVolume) []corev1.NodeSelectorTerm {
	if v == nil || v.Spec.NodeAffinity == nil || v.Spec.NodeAffinity.Required == nil {
		return nil
	}
	return v.Spec.NodeAffinity.Required.NodeSelectorTerms
}

// of are the volumes that tie pods of a spec to nodes.
func (a *anchors) of(namespace string, spec *corev1.PodSpec) []scheduling.Volume {
	if a == nil {
		return nil
	}
	var out []scheduling.Volume
	for _, claim := range claimsOf(namespace, spec) {
		terms := a.terms(claim)
		if len(terms) == 0 {
			continue
		}
		v := scheduling.Volume{Claim: claim.Name}
		for _, term := range terms {
			v.Terms = append(v.Terms, append(conversion.Expressions(term.MatchExpressions, false), conversion.Expressions(term.MatchFields, true)...))
		}
		out = append(out, v)
	}
	return out
}
