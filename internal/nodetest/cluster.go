package nodetest

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// Cluster makes and reads objects of one API server. Its methods fail the test on any error.
type Cluster struct {
	t   testing.TB
	api client.WithWatch
}

// New returns the cluster of an API server for one test.
func New(t testing.TB, api client.WithWatch) *Cluster { return &Cluster{t: t, api: api} }

// Node makes a node that counts its GPUs, and that Muster owns if owned is true.
func (c *Cluster) Node(name string, gpus int64, owned bool) {
	c.t.Helper()
	amounts := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("16"), corev1.ResourceMemory: resource.MustParse("64Gi"), corev1.ResourcePods: resource.MustParse("110"),
	}
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
	if gpus > 0 {
		amounts[v1alpha1.ResourceGPU] = *resource.NewQuantity(gpus, resource.DecimalSI)
		n.Labels[v1alpha1.LabelGPUModel], n.Labels[v1alpha1.LabelGPUMemory] = "NVIDIA-A100-SXM4-80GB", "81920"
	}
	if owned {
		n.Labels[v1alpha1.LabelOwned] = "true"
		n.Spec.Taints = []corev1.Taint{{Key: v1alpha1.TaintOwned, Effect: corev1.TaintEffectNoSchedule}}
	}
	c.Add(n, amounts)
}

// Add creates a node with these amounts, and makes it ready.
func (c *Cluster) Add(n *corev1.Node, amounts corev1.ResourceList) {
	c.t.Helper()
	if err := c.api.Create(c.t.Context(), n); err != nil {
		c.t.Fatal(err)
	}
	// A patch, because upstream's controllers write to a new node, too.
	before := n.DeepCopy()
	n.Status.Capacity, n.Status.Allocatable = amounts, amounts
	n.Status.Conditions = readiness(corev1.ConditionTrue)
	if err := c.api.Status().Patch(c.t.Context(), n, client.MergeFrom(before)); err != nil {
		c.t.Fatal(err)
	}
}

// SetReady sets the Ready condition of a node; ConditionUnknown is that of a silent kubelet.
func (c *Cluster) SetReady(node string, status corev1.ConditionStatus) {
	c.t.Helper()
	n := &corev1.Node{}
	if err := c.api.Get(c.t.Context(), client.ObjectKey{Name: node}, n); err != nil {
		c.t.Fatal(err)
	}
	before := n.DeepCopy()
	n.Status.Conditions = readiness(status)
	if err := c.api.Status().Patch(c.t.Context(), n, client.MergeFrom(before)); err != nil {
		c.t.Fatal(err)
	}
}

func readiness(status corev1.ConditionStatus) []corev1.NodeCondition {
	return []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status, LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now()}}
}

// Job makes a training job in namespace default, of members with a GPU each.
func (c *Cluster) Job(name string, members int32, edit ...func(*v1alpha1.TrainingJob)) {
	c.t.Helper()
	one := resource.MustParse("1")
	j := &v1alpha1.TrainingJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: v1alpha1.TrainingJobSpec{
			Checkpoints: &v1alpha1.Checkpoints{None: true},
			Environment: &v1alpha1.Environment{Image: "registry.example/train:1"},
			Roles:       []v1alpha1.Role{{Name: "w", Replicas: &members, GPUs: &one, Command: []string{"train"}}},
		},
	}
	for _, e := range edit {
		e(j)
	}
	if err := c.api.Create(c.t.Context(), j); err != nil {
		c.t.Fatal(err)
	}
}

// Gang makes a gang in namespace default, of members with these GPUs each.
func (c *Cluster) Gang(name string, members int32, gpus string, edit ...func(*v1alpha1.Gang)) *v1alpha1.Gang {
	c.t.Helper()
	q := resource.MustParse(gpus)
	g := &v1alpha1.Gang{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: v1alpha1.GangSpec{DoneWhen: []string{"worker"}, Roles: []v1alpha1.GangRole{{
			Name: "worker", Replicas: members, GPUs: &q,
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "python:3.13"}}}},
		}}},
	}
	for _, e := range edit {
		e(g)
	}
	if err := c.api.Create(c.t.Context(), g); err != nil {
		c.t.Fatal(err)
	}
	return g
}

// Pods returns the pods of a gang.
func (c *Cluster) Pods(gang string) []corev1.Pod {
	c.t.Helper()
	var list corev1.PodList
	if err := c.api.List(c.t.Context(), &list, client.MatchingLabels{v1alpha1.LabelGang: gang}); err != nil {
		c.t.Fatal(err)
	}
	return list.Items
}

// Eventually waits for a condition, for one minute at most.
func (c *Cluster) Eventually(what string, holds func() bool) {
	c.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(time.Minute); !holds(); {
		select {
		case <-tick.C:
		case <-deadline:
			c.t.Fatalf("not within a minute: %s", what)
		}
	}
}
