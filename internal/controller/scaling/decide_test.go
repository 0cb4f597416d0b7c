package scaling

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-dev/muster/api/v1alpha1"
)

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

func testGang(name string, workers int32) *v1alpha1.Gang {
	one := resource.MustParse("1")
	g := &v1alpha1.Gang{ObjectMeta: metav1.ObjectMeta{Namespace: "vision", Name: name, UID: types.UID(name)}}
	g.Spec.Roles = []v1alpha1.GangRole{{Name: "worker", Replicas: workers, GPUs: &one, Template: corev1.PodTemplateSpec{
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "python:3.13", Command: []string{"train"}}}},
	}}}
	return g
}

// placeholders are so many of a gang's.
func placeholders(gang string, n int) []corev1.Pod {
	var out []corev1.Pod
	for i := range n {
		out = append(out, corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("for-%s-%d", gang, i), Labels: map[string]string{v1alpha1.LabelPlaceholder: gang}}})
	}
	return out
}

func TestDecide(t *testing.T) {
	a, b := testGang("a", 2), testGang("b", 3)
	ago := func(d time.Duration) time.Time { return noon.Add(-d) }
	type times = map[types.UID]time.Time
	for name, c := range map[string]struct {
		waiting, wanting []*v1alpha1.Gang
		there            []corev1.Pod
		since, idle      times
		most             int
		create           []string
		remove           int
		next             time.Time
	}{
		"nobody waits":          {},
		"it has just begun":     {waiting: []*v1alpha1.Gang{a}, wanting: []*v1alpha1.Gang{a}, next: noon.Add(30 * time.Second)},
		"it has waited":         {waiting: []*v1alpha1.Gang{a}, wanting: []*v1alpha1.Gang{a}, since: times{"a": ago(31 * time.Second)}, create: []string{"a"}},
		"it has what it needs":  {waiting: []*v1alpha1.Gang{a}, wanting: []*v1alpha1.Gang{a}, since: times{"a": ago(time.Hour)}, there: placeholders("a", 2)},
		"one is missing":        {waiting: []*v1alpha1.Gang{a}, wanting: []*v1alpha1.Gang{a}, there: placeholders("a", 1), create: []string{"a"}},
		"it waits for others":   {waiting: []*v1alpha1.Gang{a}},
		"it is placed":          {there: placeholders("a", 2), remove: 2},
		"another's are removed": {waiting: []*v1alpha1.Gang{b}, there: slices.Concat(placeholders("a", 2), placeholders("b", 3)), wanting: []*v1alpha1.Gang{b}, remove: 2},
		"room is made for it":   {waiting: []*v1alpha1.Gang{a}, there: placeholders("a", 2), next: noon.Add(30 * time.Second)},
		"for a while":           {waiting: []*v1alpha1.Gang{a}, there: placeholders("a", 2), idle: times{"a": ago(20 * time.Second)}, next: noon.Add(10 * time.Second)},
		"and no longer":         {waiting: []*v1alpha1.Gang{a}, there: placeholders("a", 2), idle: times{"a": ago(31 * time.Second)}, remove: 2},
		"no more than allowed": {
			waiting: []*v1alpha1.Gang{a, b}, wanting: []*v1alpha1.Gang{a, b}, since: times{"a": ago(time.Hour), "b": ago(time.Hour)}, most: 4, create: []string{"a"},
		},
		"never a part of them": {waiting: []*v1alpha1.Gang{b}, wanting: []*v1alpha1.Gang{b}, since: times{"b": ago(time.Hour)}, most: 2},
	} {
		t.Run(name, func(t *testing.T) {
			o := observed{waiting: c.waiting, wanting: c.wanting, there: c.there, since: c.since, idle: c.idle, now: noon}
			if o.since == nil {
				o.since = times{}
			}
			if o.idle == nil {
				o.idle = times{}
			}
			most := c.most
			if most == 0 {
				most = 100
			}
			d := decide(o, rules{after: 30 * time.Second, most: most})
			var created []string
			for _, g := range d.create {
				created = append(created, g.Name)
			}
			if diff := cmp.Diff(c.create, created); diff != "" || len(d.remove) != c.remove || !d.next.Equal(c.next) {
				t.Errorf("created %v, want %v; removed %d, want %d; next %s, want %s", created, c.create, len(d.remove), c.remove, d.next, c.next)
			}
		})
	}
}

func TestMembersThatNeedNodes(t *testing.T) {
	two, half := int32(2), resource.MustParse("500m")
	for name, c := range map[string]struct {
		edit func(*v1alpha1.Gang)
		want []int32
	}{
		"all":             {func(*v1alpha1.Gang) {}, []int32{0, 1, 2, 3}},
		"those not done":  {func(g *v1alpha1.Gang) { g.Status.Done = []string{"worker-1"} }, []int32{0, 2, 3}},
		"the least of it": {func(g *v1alpha1.Gang) { g.Spec.Roles[0].MinReplicas = &two; g.Status.Done = []string{"worker-0"} }, []int32{1, 2}},
		"parts of GPUs":   {func(g *v1alpha1.Gang) { g.Spec.Roles[0].GPUs = &half }, nil},
	} {
		g := testGang("a", 4)
		c.edit(g)
		var got []int32
		for _, m := range members(g) {
			got = append(got, m.index)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestPlaceholder(t *testing.T) {
	g := testGang("a", 2)
	spec := &g.Spec.Roles[0].Template.Spec
	spec.NodeSelector = map[string]string{"pool": "spot"}
	spec.Tolerations = []corev1.Toleration{{Key: "spot", Operator: corev1.TolerationOpExists}}
	spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
	spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}
	spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{"a"}}}}},
	}}}
	g.Spec.Roles[0].GPUModels = []string{"A100"}
	before := g.DeepCopy()
	p := placeholder(g, members(g)[1], "muster-system", "low", way{resource: v1alpha1.ResourceGPU})
	if diff := cmp.Diff(before, g); diff != "" {
		t.Fatalf("the gang was changed: %s", diff)
	}
	if p.Name != "for-a-worker-1" || p.Spec.SchedulerName != v1alpha1.SchedulerName || p.Spec.NodeName != "" || p.Labels[v1alpha1.LabelGang] != "" || p.Spec.PriorityClassName != "low" {
		t.Errorf("%s: %+v", p.Name, p.Spec)
	}
	if len(p.Spec.Volumes) != 0 || p.Spec.Containers[0].Image != image || p.Spec.Containers[0].Command != nil {
		t.Errorf("it would run something: %+v", p.Spec)
	}
	if diff := cmp.Diff(spec.NodeSelector, p.Spec.NodeSelector); diff != "" {
		t.Error(diff)
	}
	if r := p.Spec.Containers[0].Resources; r.Limits.Name(v1alpha1.ResourceGPU, resource.DecimalSI).Value() != 1 || r.Requests.Cpu().Value() != 4 {
		t.Errorf("it asks for %v", r)
	}
	if n := len(p.Spec.Tolerations); n != 2 || p.Spec.Tolerations[1].Key != v1alpha1.TaintOwned {
		t.Errorf("it tolerates %v", p.Spec.Tolerations)
	}
	var keys [][]string
	for _, term := range p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		var one []string
		for _, e := range term.MatchExpressions {
			one = append(one, e.Key)
		}
		keys = append(keys, one)
	}
	if diff := cmp.Diff([][]string{{"zone", v1alpha1.LabelModel}, {"zone", v1alpha1.LabelGPUModel}}, keys); diff != "" {
		t.Error(diff)
	}
	if !unmarked(p) {
		t.Error("it says already that it finds no node")
	}
}
