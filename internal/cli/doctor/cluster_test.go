package doctor

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/installation"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// gpuNode is a ready node with so many GPUs and labels, as key=value.
func gpuNode(name string, gpus int64, labels ...string) corev1.Node {
	n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
	for _, l := range labels {
		key, value, _ := strings.Cut(l, "=")
		n.Labels[key] = value
	}
	if gpus > 0 {
		n.Status.Allocatable = corev1.ResourceList{v1alpha1.ResourceGPU: *resource.NewQuantity(gpus, resource.DecimalSI)}
	}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	return n
}

func gpuPod(name, node, scheduler string, change ...func(*corev1.Pod)) corev1.Pod {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name}, Spec: corev1.PodSpec{
		NodeName: node, SchedulerName: scheduler,
		Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{v1alpha1.ResourceGPU: resource.MustParse("1")}}}},
	}}
	for _, c := range change {
		c(&p)
	}
	return p
}

func agents(ready, wanted int32) appsv1.DaemonSet {
	return appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "muster-node"}, Status: appsv1.DaemonSetStatus{NumberReady: ready, DesiredNumberScheduled: wanted}}
}

func agentSlice(node string) resourcev1.ResourceSlice {
	return resourcev1.ResourceSlice{Spec: resourcev1.ResourceSliceSpec{Driver: "gpu.muster.dev", NodeName: &node}}
}

// claimed is a cluster with a pod on a node that has a GPU of the agent, and an agent on
// another node, or on none.
func claimed(node, agent string) scene {
	p := gpuPod("a", node, "muster", func(p *corev1.Pod) { p.UID = "1" })
	s := scene{pods: []corev1.Pod{p}, claims: []resourcev1.ResourceClaim{{Status: resourcev1.ResourceClaimStatus{
		Allocation:  &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{{Driver: "gpu.muster.dev"}}}},
		ReservedFor: []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: "a", UID: "1"}},
	}}}}
	if agent != "" {
		s.daemons = []appsv1.DaemonSet{agents(1, 1)}
		s.pods = append(s.pods, corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.SystemNamespace, Name: "muster-node-x", Labels: map[string]string{"app.kubernetes.io/component": "node"}}, Spec: corev1.PodSpec{NodeName: agent}})
	}
	return s
}

func beat(name string, at time.Time) coordinationv1.Lease {
	t := metav1.NewMicroTime(at)
	return coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: coordinationv1.LeaseSpec{RenewTime: &t}}
}

func TestClusterChecks(t *testing.T) {
	const known = "nvidia.com/gpu.product=A100"
	const memory = "nvidia.com/gpu.memory=81920"
	const owned = "muster.dev/owned=true"
	node := "one"
	agreed := clocks{here: noon, server: noon, within: 10 * time.Millisecond}
	class := func(name, isDefault string) storagev1.StorageClass {
		return storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": isDefault}}}
	}
	kind := func(owner installation.Owner, losses, lacks []string) scene {
		return scene{kinds: []installation.Kind{{Name: "gangs.muster.dev", Owner: owner, Version: "v1", Losses: losses, Lacks: lacks}}}
	}
	for name, c := range map[string]struct {
		judge   func(scene) []Finding
		scene   scene
		verdict Verdict
		says    string
		fix     string
	}{
		"GPUs owned":       {judgeGPUs, scene{nodes: []corev1.Node{gpuNode("one", 8, known, memory, owned)}}, Good, "Muster has one", ""},
		"GPUs of nobody":   {judgeGPUs, scene{nodes: []corev1.Node{gpuNode("one", 8, known, memory)}}, Limited, "none of which is Muster's", "muster node add"},
		"no GPU":           {judgeGPUs, scene{nodes: []corev1.Node{gpuNode("one", 0)}}, Limited, "no node has GPUs", "device plugin"},
		"no driver":        {judgeGPUs, scene{nodes: []corev1.Node{gpuNode("one", 0, "nvidia.com/gpu.present=true")}}, Limited, "GPUs that nobody counts: one", "device plugin"},
		"no model":         {judgeGPUs, scene{nodes: []corev1.Node{gpuNode("one", 8, owned)}}, Limited, "model or memory", "kubectl label node"},
		"a DRA driver":     {judgeGPUs, scene{nodes: []corev1.Node{gpuNode("one", 0, owned)}, slices: []resourcev1.ResourceSlice{{Spec: resourcev1.ResourceSliceSpec{Driver: "gpu.example.com", NodeName: &node}}}}, Good, "Muster has one", ""},
		"two owners":       {judgeGPUs, scene{nodes: []corev1.Node{gpuNode("one", 8, owned)}, slices: []resourcev1.ResourceSlice{{Spec: resourcev1.ResourceSliceSpec{Driver: "gpu.muster.dev", NodeName: &node}}}}, Limited, "given out twice", "keep one"},
		"agents ready":     {judgeAgent, scene{daemons: []appsv1.DaemonSet{agents(2, 2)}}, Good, "2 of 2 agents ready", ""},
		"an agent missing": {judgeAgent, scene{daemons: []appsv1.DaemonSet{agents(1, 2)}}, Limited, "1 of 2 agents ready", "describe pods"},
		"agents nowhere":   {judgeAgent, scene{daemons: []appsv1.DaemonSet{agents(0, 0)}}, Limited, "there are none", "muster node add --force"},
		"no agent, slices": {judgeAgent, scene{slices: []resourcev1.ResourceSlice{agentSlice("one"), agentSlice("two"), agentSlice("two")}}, Bad,
			"2 nodes have GPUs of the agent and no agent: one, two", "agent.create=true"},
		"no agent, a pod":    {judgeAgent, claimed("one", ""), Bad, "1 node has GPUs of the agent and no agent: one", "agent.create=true"},
		"an agent elsewhere": {judgeAgent, claimed("one", "two"), Bad, "1 node has GPUs of the agent and no agent: one", "agent.nodeSelector"},
		"an agent there":     {judgeAgent, claimed("one", "one"), Good, "1 of 1 agent ready", ""},
		"nobody else":        {judgeSchedulers, scene{nodes: []corev1.Node{gpuNode("one", 8, owned), gpuNode("two", 8)}, pods: []corev1.Pod{gpuPod("ours", "one", "muster"), gpuPod("a", "two", "default-scheduler")}}, Good, "nobody else", ""},
		"somebody else":      {judgeSchedulers, scene{nodes: []corev1.Node{gpuNode("one", 8, owned)}, pods: []corev1.Pod{gpuPod("a", "one", "volcano")}}, Limited, "team/a on one (by volcano)", "spec.schedulerName"},
		"somebody who ended": {judgeSchedulers, scene{nodes: []corev1.Node{gpuNode("one", 8, owned)}, pods: []corev1.Pod{gpuPod("a", "one", "volcano", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })}}, Good, "nobody else", ""},
		"a default class":    {judgeStorage, scene{classes: []storagev1.StorageClass{class("slow", "false"), class("nfs", "true")}}, Good, "nfs", ""},
		"no default class":   {judgeStorage, scene{classes: []storagev1.StorageClass{class("nfs", "false")}}, Limited, "no StorageClass is the default", "kubectl annotate storageclass nfs"},
		"no class":           {judgeStorage, scene{}, Limited, "there is no StorageClass", "CSI driver"},
		"clocks agree":       {judgeClocks, scene{clock: agreed, nodes: []corev1.Node{gpuNode("one", 0)}, beats: []coordinationv1.Lease{beat("one", noon.Add(-9*time.Second))}}, Good, "agree", ""},
		"a node ahead":       {judgeClocks, scene{clock: agreed, nodes: []corev1.Node{gpuNode("one", 0)}, beats: []coordinationv1.Lease{beat("one", noon.Add(30*time.Second))}}, Limited, "one is 30s ahead", "chrony"},
		"a node behind":      {judgeClocks, scene{clock: agreed, nodes: []corev1.Node{gpuNode("one", 0)}, beats: []coordinationv1.Lease{beat("one", noon.Add(-time.Hour))}}, Limited, "one is 1h0m0s behind", "chrony"},
		"here behind":        {judgeClocks, scene{clock: clocks{here: noon.Add(-time.Minute), server: noon}}, Limited, "this machine's clock is 1m0s behind", "this machine's clock"},
		"no kinds":           {judgeKinds, kind(installation.Nobody, nil, nil), Bad, "missing: gangs", "muster install"},
		"foreign kinds":      {judgeKinds, kind(installation.Foreign, nil, nil), Bad, "somebody else", "never overwrites"},
		"older kinds":        {judgeKinds, kind(installation.Ours, nil, []string{"v1alpha1 spec.a"}), Limited, "older than this program", "muster install"},
		"newer kinds":        {judgeKinds, kind(installation.Ours, []string{"v1alpha1 spec.a"}, nil), Good, "newer than this program", ""},
		"kinds":              {judgeKinds, kind(installation.Ours, nil, nil), Good, "as this program knows them", ""},
		"no manager":         {judgeManager, scene{}, Bad, "not installed", "muster install"},
		"no store of data":   {judgeData, scene{manager: installation.Manager{Version: "v1", Wanted: 1, Available: 1}}, Limited, "no store of data", "data.s3.bucket"},
		"a store of data":    {judgeData, scene{data: "bucket x"}, Good, "bucket x", ""},
		"a gateway":          {judgeGateway, behind(corev1.ServiceTypeClusterIP, true, true, false), Good, "muster-gateway.muster-system.svc:6480, 2 replicas", ""},
		"nobody behind it":   {judgeGateway, behind(corev1.ServiceTypeClusterIP, false), Bad, "no replica", "describe pods"},
		"no address for it":  {judgeGateway, behind(corev1.ServiceTypeLoadBalancer, true), Limited, "no address yet", "type=ClusterIP"},
		"a token":            {judgeTokens, scene{users: []string{"ada"}, tokens: []token{{"ada", "forever", "ada"}}}, Limited, "Secret forever of namespace ada has a token of service account ada that never ends", "kubectl -n ada delete secret forever"},
		"no token":           {judgeTokens, scene{users: []string{"ada", "bob"}}, Good, "namespaces of 2 users", ""},
		"no replica":         {judgeManager, scene{manager: installation.Manager{Version: "v1"}}, Bad, "scaled to no replica", "replicas=2"},
		"no manager ready":   {judgeManager, scene{manager: installation.Manager{Version: "v1", Wanted: 2, Trouble: "ImagePullBackOff"}}, Bad, "ImagePullBackOff", "describe pods"},
	} {
		t.Run(name, func(t *testing.T) {
			findings := c.judge(c.scene)
			for _, f := range findings {
				if f.Verdict == c.verdict && strings.Contains(f.Says, c.says) && strings.Contains(f.Fix, c.fix) {
					return
				}
			}
			t.Errorf("%+v", findings)
		})
	}
}

// behind is a cluster with the gateway's Service, and replicas that are ready or not.
func behind(kind corev1.ServiceType, ready ...bool) scene {
	service := corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.SystemNamespace, Name: v1alpha1.GatewayName}}
	service.Spec.Type, service.Spec.Ports = kind, []corev1.ServicePort{{Port: 6480}}
	var doors discoveryv1.EndpointSlice
	for i := range ready {
		doors.Endpoints = append(doors.Endpoints, discoveryv1.Endpoint{Addresses: []string{fmt.Sprintf("10.0.0.%d", i)}, Conditions: discoveryv1.EndpointConditions{Ready: &ready[i]}})
	}
	return scene{gateways: []corev1.Service{service}, doors: []discoveryv1.EndpointSlice{doors}}
}

func TestNoGateway(t *testing.T) {
	if findings := judgeGateway(scene{}); findings != nil {
		t.Errorf("a cluster that is to have none: %+v", findings)
	}
}

func TestNoUsers(t *testing.T) {
	if findings := judgeTokens(scene{}); findings != nil {
		t.Errorf("a cluster without users: %+v", findings)
	}
}

// The doctor tells a user with almost no rights so, and that is no success.
func TestRights(t *testing.T) {
	if found := judgeRights(2, 7); len(found) != 1 || found[0].Verdict != Bad || !strings.Contains(found[0].Fix, "administrator") {
		t.Errorf("a tenant: %+v", found)
	}
	if found := judgeRights(9, 1); len(found) != 0 {
		t.Errorf("an administrator: %+v", found)
	}
}
