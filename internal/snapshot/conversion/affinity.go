package conversion

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/scheduling"
)

// preferences returns a pod's preferred node affinity.
func preferences(spec *corev1.PodSpec) []scheduling.Preference {
	if spec.Affinity == nil || spec.Affinity.NodeAffinity == nil {
		return nil
	}
	var out []scheduling.Preference
	for _, p := range spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
		term := append(Expressions(p.Preference.MatchExpressions, false), Expressions(p.Preference.MatchFields, true)...)
		out = append(out, scheduling.Preference{Weight: p.Weight, Term: term})
	}
	return out
}

// levelOf maps the topology keys that rules about other pods may use to levels.
var levelOf = map[string]scheduling.Level{
	corev1.LabelHostname:       scheduling.LevelNode,
	corev1.LabelTopologyZone:   scheduling.LevelZone,
	v1alpha1.LabelRack:         scheduling.LevelRack,
	v1alpha1.LabelNVLinkDomain: scheduling.LevelNVLink,
	"nvidia.com/gpu.clique":    scheduling.LevelNVLink,
}

// Tied reports whether a pod has rules about the places of other pods.
func Tied(spec *corev1.PodSpec) bool {
	a := spec.Affinity
	return len(spec.TopologySpreadConstraints) > 0 || a != nil && (a.PodAffinity != nil || a.PodAntiAffinity != nil)
}

// TiedGang reports whether a pod of a gang is tied.
func TiedGang(g *v1alpha1.Gang) bool {
	return slices.ContainsFunc(g.Spec.Roles, func(r v1alpha1.GangRole) bool { return Tied(&r.Template.Spec) })
}

// Peers returns a pod's rules about the places of other pods. The problem names the
// first unsupported field and the supported values; empty without one.
func Peers(namespace string, labels map[string]string, spec *corev1.PodSpec) (rules []scheduling.Peers, problem string) {
	b := &peersBuilder{namespace: namespace, labels: labels}
	if a := spec.Affinity; a != nil && a.PodAffinity != nil {
		b.terms("spec.affinity.podAffinity", scheduling.PeersNear,
			a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution, a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if a := spec.Affinity; a != nil && a.PodAntiAffinity != nil {
		b.terms("spec.affinity.podAntiAffinity", scheduling.PeersApart,
			a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution, a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	for i := range spec.TopologySpreadConstraints {
		b.even(fmt.Sprintf("spec.topologySpreadConstraints[%d]", i), &spec.TopologySpreadConstraints[i])
	}
	return b.rules, b.problem
}

// peersBuilder collects rules, and the first unsupported field.
type peersBuilder struct {
	namespace string
	labels    map[string]string
	rules     []scheduling.Peers
	problem   string
}

// refuse sets the problem if it is the first.
func (b *peersBuilder) refuse(format string, args ...any) {
	if b.problem == "" {
		b.problem = fmt.Sprintf(format, args...)
	}
}

// level returns the level of a topology key.
func (b *peersBuilder) level(field, key string) scheduling.Level {
	level, ok := levelOf[key]
	if !ok {
		b.refuse("%s.topologyKey is %q, which Muster does not know; use one of %s, %s, %s and %s", field, key,
			corev1.LabelHostname, corev1.LabelTopologyZone, v1alpha1.LabelRack, v1alpha1.LabelNVLinkDomain)
	}
	return level
}

// terms adds the terms of pod affinity or pod anti-affinity.
func (b *peersBuilder) terms(field string, rule scheduling.PeerRule, must []corev1.PodAffinityTerm, may []corev1.WeightedPodAffinityTerm) {
	for i := range must {
		b.term(fmt.Sprintf("%s.requiredDuringSchedulingIgnoredDuringExecution[%d]", field, i), rule, &must[i], true)
	}
	for i := range may {
		b.term(fmt.Sprintf("%s.preferredDuringSchedulingIgnoredDuringExecution[%d].podAffinityTerm", field, i), rule, &may[i].PodAffinityTerm, false)
	}
}

func (b *peersBuilder) term(field string, rule scheduling.PeerRule, t *corev1.PodAffinityTerm, required bool) {
	p := scheduling.Peers{Rule: rule, Level: b.level(field, t.TopologyKey), Required: required, Field: field}
	if t.LabelSelector == nil {
		if rule == scheduling.PeersNear && required {
			b.refuse("%s has no labelSelector, and so no pod is meant; add one", field)
		}
		return // selects no pods
	}
	p.Others.Terms = b.selector(t.LabelSelector, t.MatchLabelKeys, t.MismatchLabelKeys)
	switch {
	case t.NamespaceSelector != nil && len(t.NamespaceSelector.MatchLabels)+len(t.NamespaceSelector.MatchExpressions) > 0:
		b.refuse("%s.namespaceSelector selects namespaces by labels, which Muster does not support; list them in namespaces, or give {} for all", field)
	case t.NamespaceSelector != nil:
		p.Others.Everywhere = true
	case len(t.Namespaces) > 0:
		p.Others.Namespaces = t.Namespaces
	default:
		p.Others.Namespaces = []string{b.namespace}
	}
	b.rules = append(b.rules, p)
}

// even adds a constraint of a topology spread.
func (b *peersBuilder) even(field string, t *corev1.TopologySpreadConstraint) {
	p := scheduling.Peers{
		Rule: scheduling.PeersEven, Level: b.level(field, t.TopologyKey), Required: t.WhenUnsatisfiable == corev1.DoNotSchedule,
		Skew: t.MaxSkew, Field: field,
	}
	switch {
	case t.MinDomains != nil && *t.MinDomains > 1:
		b.refuse("%s.minDomains is %d, which Muster does not support; leave it out", field, *t.MinDomains)
	case t.NodeAffinityPolicy != nil && *t.NodeAffinityPolicy != corev1.NodeInclusionPolicyHonor:
		b.refuse("%s.nodeAffinityPolicy is %s, which Muster does not support; leave it out, which means Honor", field, *t.NodeAffinityPolicy)
	case t.NodeTaintsPolicy != nil && *t.NodeTaintsPolicy != corev1.NodeInclusionPolicyIgnore:
		b.refuse("%s.nodeTaintsPolicy is %s, which Muster does not support; leave it out, which means Ignore", field, *t.NodeTaintsPolicy)
	}
	if t.LabelSelector == nil {
		return // counts no pods
	}
	p.Others = scheduling.Selector{Namespaces: []string{b.namespace}, Terms: b.selector(t.LabelSelector, t.MatchLabelKeys, nil)}
	b.rules = append(b.rules, p)
}

// selector converts a label selector into conditions, in a fixed order.
func (b *peersBuilder) selector(s *metav1.LabelSelector, match, mismatch []string) []scheduling.Expression {
	var out []scheduling.Expression
	for _, key := range slices.Sorted(maps.Keys(s.MatchLabels)) {
		out = append(out, scheduling.Expression{Key: key, Operator: "In", Values: []string{s.MatchLabels[key]}})
	}
	for _, e := range s.MatchExpressions {
		out = append(out, scheduling.Expression{Key: e.Key, Operator: string(e.Operator), Values: e.Values})
	}
	for _, key := range match {
		if value, ok := b.labels[key]; ok {
			out = append(out, scheduling.Expression{Key: key, Operator: "In", Values: []string{value}})
		}
	}
	for _, key := range mismatch {
		if value, ok := b.labels[key]; ok {
			out = append(out, scheduling.Expression{Key: key, Operator: "NotIn", Values: []string{value}})
		}
	}
	return out
}

// memberLabels returns the labels that all members of a role share.
func memberLabels(g *v1alpha1.Gang, r *v1alpha1.GangRole) map[string]string {
	out := map[string]string{}
	maps.Copy(out, r.Template.Labels)
	out[v1alpha1.LabelGang], out[v1alpha1.LabelRole] = g.Name, r.Name
	if job := g.Labels[v1alpha1.LabelJob]; job != "" {
		out[v1alpha1.LabelJob] = job
	}
	return out
}

// TiedRole converts a role with its rules about the places of other pods. The problem
// names the first rule that Muster does not support in a gang; empty without one.
func (gr GPUResources) TiedRole(g *v1alpha1.Gang, r *v1alpha1.GangRole, spec *corev1.PodSpec) (out scheduling.Role, problem string) {
	out = gr.GangRole(r, spec)
	out.Labels = memberLabels(g, r)
	out.Peers, problem = Peers(g.Namespace, out.Labels, spec)
	for _, p := range out.Peers {
		switch {
		case problem != "":
		case p.Rule == scheduling.PeersNear && p.Required && p.Others.Matches(g.Namespace, out.Labels):
			problem = p.Field + " asks members to be near one another; say so by topology.within, for the whole gang"
		case r.Spread != nil:
			problem = "spread and " + p.Field + " both say how members are to be apart; give one"
		}
	}
	if problem != "" {
		problem = "role " + r.Name + ": template." + problem
	}
	return out, problem
}

// TiePod sets the labels and the rules of a pod on a node, for the rules of other pods.
// It ignores unsupported rules: the pod is on its node already.
func TiePod(out *scheduling.Pod, p *corev1.Pod) {
	out.Labels = p.Labels
	out.Peers, _ = Peers(p.Namespace, p.Labels, &p.Spec)
}

// TiePlacement sets the labels and the rules of a placement's members, for the rules of
// other pods.
func TiePlacement(out *scheduling.Placement, g *v1alpha1.Gang) {
	if g == nil {
		return
	}
	for i := range g.Spec.Roles {
		r := &g.Spec.Roles[i]
		labels := memberLabels(g, r)
		rules, _ := Peers(g.Namespace, labels, &r.Template.Spec)
		for k := range out.Members {
			if out.Members[k].Role == r.Name {
				out.Members[k].Labels, out.Members[k].Peers = labels, rules
			}
		}
	}
}
