package snapshot

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/scheduling"
	"github.com/muster-dev/muster/internal/snapshot/conversion"
	"github.com/muster-dev/muster/internal/snapshot/dryrun"
)

// benchLoop is a loop that was shown 5,000 nodes of 8 GPUs, of which 5,000
// gangs of 4 members of 2 GPUs hold all but one node, and 2,000 gangs that
// wait. It returns its objects too.
func benchLoop(b *testing.B) (*Loop, *objectsOf) {
	b.Helper()
	api := testAPI(&testing.T{}, interceptor.Funcs{})
	loop, err := NewLoop(Options{Cache: &testCache{}, Client: api, Live: api, Location: time.UTC})
	if err != nil {
		b.Fatal(err)
	}
	loop.epoch.Store(1)
	loop.settled.Store(1)
	loop.learn = func(_ context.Context, g *v1alpha1.Gang, _ time.Time) (dryrun.Answer, bool) {
		return dryrun.AsWritten(nil, g), true
	}
	o := &objectsOf{}
	began := metav1.NewTime(time.Unix(1_700_000_000, 0))
	for i := range 5000 {
		n := testNode(8)
		n.Name = fmt.Sprintf("node-%05d", i)
		n.Annotations[v1alpha1.AnnotationInventory] = inventoryOf(n.Name, 8)
		o.nodes = append(o.nodes, n)
		loop.shown(nil, n)
	}
	for i := range 7000 {
		g := testGang(fmt.Sprintf("g%05d", i), 4, "2")
		g.CreationTimestamp = began
		g.Spec.Queue, g.Spec.Roles[0].Template.Spec.Containers[0].Resources.Requests = "", corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m")}
		if i < 4999 {
			g.Status.Phase, g.Status.Attempt = v1alpha1.GangRunning, 1
			o.hold(g, fmt.Sprintf("node-%05d", i))
		} else if i%3 == 0 {
			g.Spec.Roles[0].Replicas = int32(5 + i%60)
		}
		o.gangs = append(o.gangs, g)
		loop.shown(nil, g)
	}
	for _, p := range o.placements {
		loop.shown(nil, p)
	}
	for _, p := range o.pods {
		loop.shown(nil, p)
	}
	g, p := o.holdLarge()
	loop.shown(nil, g)
	loop.shown(nil, p)
	for _, pod := range o.large {
		loop.shown(nil, pod)
	}
	return loop, o
}

// objectsOf are the objects of a benchmark.
type objectsOf struct {
	nodes      []*corev1.Node
	gangs      []*v1alpha1.Gang
	placements []*v1alpha1.Placement
	pods       []*corev1.Pod
	// large are the pods of a gang of 1,000 members.
	large []*corev1.Pod
}

// holdLarge places a gang of 1,000 members without GPUs on all nodes.
func (o *objectsOf) holdLarge() (*v1alpha1.Gang, *v1alpha1.Placement) {
	g := testGang("large", 1000, "0")
	g.Spec.Queue, g.Status.Phase, g.Status.Attempt = "", v1alpha1.GangRunning, 1
	p := &v1alpha1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: g.Namespace, Name: "large-1", UID: "large-1"}}
	p.Spec = v1alpha1.PlacementSpec{Gang: g.Name, GangUID: g.UID, Attempt: 1, Epoch: 1}
	for k := range int32(1000) {
		p.Spec.Nodes = append(p.Spec.Nodes, o.nodes[k].Name)
		p.Spec.Add(v1alpha1.PlacedMember{Role: "worker", Index: k, Node: k})
		pod := memberPod(g.UID)
		pod.Namespace, pod.Name, pod.UID = g.Namespace, fmt.Sprintf("large-worker-%d", k), types.UID(fmt.Sprintf("large-%d", k))
		pod.Labels[v1alpha1.LabelIndex] = fmt.Sprint(k)
		pod.Generation, pod.Spec.NodeName, pod.Status.Phase = 1, o.nodes[k].Name, corev1.PodRunning
		pod.Spec.Containers = g.Spec.Roles[0].Template.Spec.Containers
		o.large = append(o.large, pod)
	}
	return g, p
}

func inventoryOf(node string, gpus int) string {
	text := `{"gpus":[`
	for i := range gpus {
		if i > 0 {
			text += ","
		}
		text += fmt.Sprintf(`{"index":%d,"uuid":"%s-%d","model":"A100"}`, i, node, i)
	}
	return text + "]}"
}

// hold places a gang on a node, with its pods.
func (o *objectsOf) hold(g *v1alpha1.Gang, node string) {
	p := &v1alpha1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: g.Namespace, Name: g.Name + "-1", CreationTimestamp: g.CreationTimestamp}}
	p.Spec = v1alpha1.PlacementSpec{Gang: g.Name, GangUID: g.UID, Attempt: 1, Epoch: 1, Nodes: []string{node}}
	for k := range int32(4) {
		gpus := []string{fmt.Sprintf("%s-%d", node, 2*k), fmt.Sprintf("%s-%d", node, 2*k+1)}
		p.Spec.Members = append(p.Spec.Members, v1alpha1.PlacedMember{Role: "worker", Index: k, GPUs: gpus})
		pod := memberPod(g.UID)
		pod.Namespace, pod.Name = g.Namespace, fmt.Sprintf("%s-worker-%d", g.Name, k)
		pod.UID = types.UID(fmt.Sprintf("%s-%d", g.UID, k))
		pod.Labels[v1alpha1.LabelIndex] = fmt.Sprint(k)
		pod.Generation, pod.Spec.NodeName, pod.Status.Phase = 1, node, corev1.PodRunning
		pod.Spec.Containers = []corev1.Container{{Name: "main", Resources: g.Spec.Roles[0].Template.Spec.Containers[0].Resources}}
		o.pods = append(o.pods, pod)
	}
	o.placements = append(o.placements, p)
}

// One event to a decision, on a cluster of 5,000 nodes, 20,000 pods and 2,000
// gangs that wait: told alone, and by listing everything.
func BenchmarkEventToDecision(b *testing.B) {
	loop, o := benchLoop(b)
	now := time.Unix(1_700_000_100, 0)
	decide := func() {
		now = now.Add(time.Second)
		loop.tell(b.Context(), now)
		loop.core.Decide(conversion.Instant(now))
	}
	began := time.Now()
	decide()
	b.Logf("start: %v", time.Since(began))
	version := 0
	events := []struct {
		name string
		show func()
	}{
		{"node reports", func() {
			n := o.nodes[7].DeepCopy()
			n.ResourceVersion = fmt.Sprint(version)
			n.Spec.Unschedulable = version%2 == 0
			loop.shown(o.nodes[7], n)
		}},
		{"member changes", func() {
			p := o.pods[9].DeepCopy()
			p.ResourceVersion = fmt.Sprint(version)
			loop.shown(o.pods[9], p)
		}},
		{"member ends", func() {
			p := o.pods[9].DeepCopy()
			p.ResourceVersion = fmt.Sprint(version)
			if version%2 == 0 {
				p.Status.Phase = corev1.PodSucceeded
			}
			loop.shown(o.pods[9], p)
		}},
		{"one of 1,000 members reports", func() {
			p := o.large[version%1000].DeepCopy()
			p.ResourceVersion = fmt.Sprint(version)
			p.Status.Message = fmt.Sprint(version)
			loop.shown(o.large[version%1000], p)
		}},
		{"one of 1,000 members comes or goes", func() {
			if p := o.large[version/2%1000]; version%2 == 0 {
				loop.gone(p)
			} else {
				loop.shown(nil, p)
			}
		}},
		{"one of 1,000 members ends", func() {
			// Each in turn; then all are back at once.
			if version%1000 == 0 {
				for _, p := range o.large {
					loop.mirror.shown(p)
				}
				loop.tell(b.Context(), now)
			}
			p := o.large[version%1000].DeepCopy()
			p.ResourceVersion, p.Status.Phase = fmt.Sprint(version), corev1.PodSucceeded
			loop.shown(o.large[version%1000], p)
		}},
		{"gang arrives or goes", func() {
			g := testGang("new", 2, "1")
			g.ResourceVersion = fmt.Sprint(version)
			if version%2 == 0 {
				loop.gone(g)
			} else {
				loop.shown(nil, g)
			}
		}},
	}
	for _, event := range events {
		for _, part := range []string{"told", "decided"} {
			b.Run(event.name+"/"+part, func(b *testing.B) {
				for b.Loop() {
					version++
					event.show()
					if part == "told" {
						loop.tell(b.Context(), now)
					} else {
						decide()
					}
				}
			})
		}
	}
	b.Run("by lists", func(b *testing.B) {
		core := scheduling.NewCore(scheduling.Options{})
		for b.Loop() {
			now = now.Add(time.Second)
			all := loop.take(b.Context(), now, true)
			core.Pass(all.update(now).Part)
		}
	})
	b.Run("reasons", func(b *testing.B) {
		for b.Loop() {
			loop.core.Reasons(conversion.Instant(now), "")
		}
	})
}
