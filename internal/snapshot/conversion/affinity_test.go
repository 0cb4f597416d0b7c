package conversion

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/scheduling"
)

// Where a node is, by its labels: Muster's own before those of others.
func TestDomains(t *testing.T) {
	for _, tt := range []struct {
		name   string
		labels map[string]string
		want   scheduling.Domains
	}{
		{"none", nil, scheduling.Domains{}},
		{"the usual", map[string]string{corev1.LabelTopologyZone: "z", "muster.dev/rack": "r", "nvidia.com/gpu.clique": "c.1"}, scheduling.Domains{Zone: "z", Rack: "r", NVLink: "c.1"}},
		{"Topograph", map[string]string{"network.topology.nvidia.com/leaf": "s1", "network.topology.nvidia.com/accelerator": "n"}, scheduling.Domains{Rack: "s1", NVLink: "n"}},
		{"AWS", map[string]string{"topology.k8s.aws/network-node-layer-3": "nn-1"}, scheduling.Domains{Rack: "nn-1"}},
		{"one's own word first", map[string]string{"fabric.topograph.run/tier-0": "s1", "muster.dev/rack": "r"}, scheduling.Domains{Rack: "r"}},
		{"an empty value says nothing", map[string]string{"muster.dev/rack": "", "fabric.topograph.run/tier-0": "s1"}, scheduling.Domains{Rack: "s1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := domains(tt.labels); got != tt.want {
				t.Errorf("%+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestPeersOf(t *testing.T) {
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}}
	own := scheduling.Selector{Namespaces: []string{"vision"}, Terms: []scheduling.Expression{{Key: "app", Operator: "In", Values: []string{"a"}}}}
	anti := func(edit func(*corev1.PodAffinityTerm)) corev1.PodSpec {
		term := corev1.PodAffinityTerm{TopologyKey: corev1.LabelHostname, LabelSelector: selector}
		edit(&term)
		return corev1.PodSpec{Affinity: &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term},
		}}}
	}
	even := func(edit func(*corev1.TopologySpreadConstraint)) corev1.PodSpec {
		c := corev1.TopologySpreadConstraint{TopologyKey: corev1.LabelTopologyZone, MaxSkew: 2, LabelSelector: selector, WhenUnsatisfiable: corev1.DoNotSchedule}
		edit(&c)
		return corev1.PodSpec{TopologySpreadConstraints: []corev1.TopologySpreadConstraint{c}}
	}
	pointer := func(n int32) *int32 { return &n }
	ignore, honor := corev1.NodeInclusionPolicyIgnore, corev1.NodeInclusionPolicyHonor
	const field = "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]"
	tests := []struct {
		name    string
		spec    corev1.PodSpec
		want    []scheduling.Peers
		problem string
	}{
		{"nothing", corev1.PodSpec{}, nil, ""},
		{"anti-affinity", anti(func(*corev1.PodAffinityTerm) {}),
			[]scheduling.Peers{{Rule: scheduling.PeersApart, Level: scheduling.LevelNode, Required: true, Others: own, Field: field}}, ""},
		{"other namespaces", anti(func(t *corev1.PodAffinityTerm) { t.Namespaces = []string{"nlp"} }),
			[]scheduling.Peers{{Rule: scheduling.PeersApart, Level: scheduling.LevelNode, Required: true, Field: field,
				Others: scheduling.Selector{Namespaces: []string{"nlp"}, Terms: own.Terms}}}, ""},
		{"all namespaces", anti(func(t *corev1.PodAffinityTerm) { t.NamespaceSelector = &metav1.LabelSelector{} }),
			[]scheduling.Peers{{Rule: scheduling.PeersApart, Level: scheduling.LevelNode, Required: true, Field: field,
				Others: scheduling.Selector{Everywhere: true, Terms: own.Terms}}}, ""},
		{"a label of its own", anti(func(t *corev1.PodAffinityTerm) { t.MatchLabelKeys = []string{"version"} }),
			[]scheduling.Peers{{Rule: scheduling.PeersApart, Level: scheduling.LevelNode, Required: true, Field: field,
				Others: scheduling.Selector{Namespaces: []string{"vision"}, Terms: append(own.Terms[:1:1], scheduling.Expression{Key: "version", Operator: "In", Values: []string{"7"}})}}}, ""},
		{"nobody is meant", anti(func(t *corev1.PodAffinityTerm) { t.LabelSelector = nil }), nil, ""},
		{"a wish to be near", corev1.PodSpec{Affinity: &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{Weight: 1, PodAffinityTerm: corev1.PodAffinityTerm{TopologyKey: "muster.dev/rack", LabelSelector: selector}}},
		}}}, []scheduling.Peers{{Rule: scheduling.PeersNear, Level: scheduling.LevelRack, Others: own,
			Field: "spec.affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm"}}, ""},
		{"even", even(func(*corev1.TopologySpreadConstraint) {}),
			[]scheduling.Peers{{Rule: scheduling.PeersEven, Level: scheduling.LevelZone, Required: true, Skew: 2, Others: own, Field: "spec.topologySpreadConstraints[0]"}}, ""},
		{"an unknown key", anti(func(t *corev1.PodAffinityTerm) { t.TopologyKey = "example.com/row" }), nil, field + `.topologyKey is "example.com/row", which Muster does not know; use one of kubernetes.io/hostname`},
		{"namespaces by labels", anti(func(t *corev1.PodAffinityTerm) { t.NamespaceSelector = selector }), nil, field + ".namespaceSelector selects namespaces by labels"},
		{"so many domains", even(func(c *corev1.TopologySpreadConstraint) { c.MinDomains = pointer(3) }), nil, "spec.topologySpreadConstraints[0].minDomains is 3"},
		{"whatever the affinity", even(func(c *corev1.TopologySpreadConstraint) { c.NodeAffinityPolicy = &ignore }), nil, "nodeAffinityPolicy is Ignore"},
		{"with the taints", even(func(c *corev1.TopologySpreadConstraint) { c.NodeTaintsPolicy = &honor }), nil, "nodeTaintsPolicy is Honor"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, problem := Peers("vision", map[string]string{"app": "a", "version": "7"}, &tt.spec)
			if tt.problem != "" {
				if !strings.Contains(problem, tt.problem) {
					t.Errorf("the problem is %q, want %q", problem, tt.problem)
				}
				return
			}
			if problem != "" {
				t.Error(problem)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// In a gang, being near one another is said for the whole gang, and being apart
// in one way.
func TestTiedRole(t *testing.T) {
	g := &v1alpha1.Gang{
		ObjectMeta: metav1.ObjectMeta{Namespace: "vision", Name: "g"},
		Spec: v1alpha1.GangSpec{Roles: []v1alpha1.GangRole{{
			Name: "worker", Replicas: 2, GPUs: ptr.To(resource.MustParse("1")),
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main"}}}},
		}}},
	}
	r := &g.Spec.Roles[0]
	r.Template.Labels = map[string]string{"app": "a"}
	term := corev1.PodAffinityTerm{TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}}}
	r.Template.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term}}}
	if _, problem := GPUResources(nil).TiedRole(g, r, &r.Template.Spec); !strings.Contains(problem, "say so by topology.within") {
		t.Errorf("near: %q", problem)
	}
	r.Template.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term}}}
	role, problem := GPUResources(nil).TiedRole(g, r, &r.Template.Spec)
	if problem != "" || len(role.Peers) != 1 || role.Labels[v1alpha1.LabelGang] != g.Name || role.Labels["app"] != "a" {
		t.Errorf("apart: %q, %+v", problem, role)
	}
	r.Spread = &v1alpha1.Spread{Over: v1alpha1.LevelRack}
	if _, problem := GPUResources(nil).TiedRole(g, r, &r.Template.Spec); !strings.Contains(problem, "both say how members are to be apart") {
		t.Errorf("twice: %q", problem)
	}
}
