//go:build autoscaler

package autoscaler

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/test/cluster"
	"github.com/muster-dev/muster/test/e2e/harness"
)

// karpenter is what is applied to the cluster.
//
//go:embed karpenter.yaml
var karpenter string

const (
	// ours is the label that Karpenter's nodes have.
	ours = "karpenter.sh/nodepool"
	ns   = "default"
	// patience bounds whatever must come about.
	patience = 2 * time.Minute
)

// TestKarpenter has gangs wait on a cluster without a single GPU. Karpenter makes as
// many machines as a gang needs, at once, the gang starts on them, and nobody takes
// them away while it runs, not even to put five members onto fewer machines; a machine
// that has nothing to do any more goes, whatever the others do.
func TestKarpenter(t *testing.T) {
	r := start(t)
	r.submit("five", 5, 1)
	r.until("five", v1alpha1.JobRunning)
	first, pods := r.machines(), r.members("five")
	if len(first) != 3 || len(pods) != 5 {
		t.Fatalf("%d members on %d machines of two GPUs", len(pods), len(first))
	}
	for name, pod := range pods {
		if !first[pod.Spec.NodeName] {
			t.Errorf("%s is on %s, which Karpenter did not make", name, pod.Spec.NodeName)
		}
	}
	r.asking(0)
	// Two GPUs of one machine are not to be had: one of six is free.
	r.submit("two", 1, 2)
	r.until("two", v1alpha1.JobRunning)
	if all := r.machines(); len(all) != 4 {
		t.Errorf("%d machines", len(all))
	}
	r.delete("two")
	r.wait(3)
	for node := range r.machines() {
		if !first[node] {
			t.Errorf("%s stayed, and one on which five runs was taken away", node)
		}
	}
	for name, pod := range r.members("five") {
		if pods[name].UID != pod.UID {
			t.Errorf("%s is another one than before", name)
		}
	}
	r.delete("five")
	r.wait(0)
}

// rig is a cluster with Muster and Karpenter on it.
type rig struct {
	*testing.T
	cluster *cluster.Cluster
	api     client.Client
}

// start starts a Kubernetes of one node without GPUs.
func start(t *testing.T) *rig {
	t.Helper()
	r := &rig{T: t}
	muster, err := cluster.Program(t.Context(), "muster.test/muster:v1", harness.Binary(), "/muster")
	r.must(err)
	from := dependencies(t)
	program := cluster.Image{Name: "autoscaler.test/karpenter:v1", Entrypoint: []string{"/karpenter"}, Files: []cluster.File{
		{To: "/karpenter", From: filepath.Join(from, "karpenter")}, {To: "/tmp"},
	}}
	r.cluster, err = cluster.Start(t.Context(), cluster.Options{Nodes: []cluster.NodeOptions{{Images: []cluster.Image{muster, program}}}, Scheduler: true})
	r.must(err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(r.cluster.Tails(), r.kubectl("", "-n", "karpenter", "logs", "karpenter", "--tail=30"), r.kubectl("", "get", "nodes,nodeclaims,pods", "-A"))
		}
		if err := r.cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	r.muster("install --set image.repository=muster.test/muster --set image.tag=v1 --set manager.replicas=1 --set manager.resources.limits=null" +
		" --set autoscaler.enabled=true --set autoscaler.after=1s --set defaultQueue.subjects[0].kind=Group --set defaultQueue.subjects[0].name=system:authenticated")
	r.connect()
	r.kubectl("", "apply", "--server-side", "-f", filepath.Join(from, "kinds.yaml"))
	r.kubectl("", "wait", "--for=condition=Established", "crd", "nodepools.karpenter.sh", "nodeclaims.karpenter.sh", "kwoknodeclasses.karpenter.kwok.sh")
	r.kubectl(karpenter, "apply", "-f", "-")
	r.power()
	return r
}

// dependencies is the folder of what hack/autoscaler-deps builds.
func dependencies(t *testing.T) string {
	t.Helper()
	build := harness.Finish(exec.CommandContext(t.Context(), filepath.Join(harness.Root(), "hack", "autoscaler-deps")))
	if build.Code != 0 {
		t.Fatalf("building Karpenter: %s", build.Stderr)
	}
	return strings.TrimSpace(build.Stdout)
}

func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// muster runs the CLI as an administrator.
func (r *rig) muster(line string) {
	r.Helper()
	cmd := exec.CommandContext(r.Context(), harness.Binary(), append([]string{"--kubeconfig", r.cluster.Kubeconfig()}, strings.Fields(line)...)...)
	if said := harness.Finish(cmd); said.Code != 0 {
		r.Fatalf("muster %s: %s%s", line, said.Stdout, said.Stderr)
	}
}

// kubectl runs it, also once the test is over.
func (r *rig) kubectl(stdin string, args ...string) string {
	r.Helper()
	cmd := exec.Command(harness.KubectlBinary(), append([]string{"--kubeconfig", r.cluster.Kubeconfig()}, args...)...) //nolint:noctx // It is used by cleanups, too.
	cmd.Stdin = strings.NewReader(stdin)
	said := harness.Finish(cmd)
	if said.Code != 0 {
		r.Errorf("kubectl %s: %s%s", strings.Join(args, " "), said.Stdout, said.Stderr)
	}
	return said.Stdout
}

// connect makes the client, once the server tells of Muster's kinds.
func (r *rig) connect() {
	r.Helper()
	scheme := runtime.NewScheme()
	r.must(errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)))
	config := r.cluster.Config()
	config.QPS = -1
	harness.Eventually(r, patience, "connecting", func() (err error) {
		if r.api, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
			return err
		}
		return r.api.List(r.Context(), &v1alpha1.TrainingJobList{})
	})
}

// submit submits a gang of members with so many GPUs each.
func (r *rig) submit(name string, members int32, gpus int64) {
	r.Helper()
	job := &v1alpha1.TrainingJob{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
	job.Spec.Environment = &v1alpha1.Environment{Image: cluster.BusyboxImage}
	job.Spec.Checkpoints = &v1alpha1.Checkpoints{None: true}
	job.Spec.Roles = []v1alpha1.Role{{Name: "worker", Replicas: &members, GPUs: resource.NewQuantity(gpus, resource.DecimalSI), GPUModels: []string{"A100"}, Command: []string{"sleep", "1000"}}}
	r.must(r.api.Create(r.Context(), job))
}

// until waits until a job has a phase.
func (r *rig) until(name string, phase v1alpha1.JobPhase) {
	r.Helper()
	since := time.Now()
	harness.Eventually(r, patience, "waiting until "+name+" is "+string(phase), func() error {
		var job v1alpha1.TrainingJob
		if err := r.api.Get(r.Context(), client.ObjectKey{Namespace: ns, Name: name}, &job); err != nil {
			return err
		}
		if job.Status.Phase != phase {
			return fmt.Errorf("it is %s: %s", job.Status.Phase, job.Status.Message)
		}
		return nil
	})
	r.Logf("%s is %s after %.1f s", name, phase, time.Since(since).Seconds())
}

func (r *rig) delete(name string) {
	r.Helper()
	r.must(r.api.Delete(r.Context(), &v1alpha1.TrainingJob{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}))
}

// members are the pods of a job.
func (r *rig) members(job string) map[string]corev1.Pod {
	r.Helper()
	var pods corev1.PodList
	r.must(r.api.List(r.Context(), &pods, client.InNamespace(ns)))
	found := map[string]corev1.Pod{}
	for _, pod := range pods.Items {
		if strings.HasPrefix(pod.Name, job+"-") {
			found[pod.Name] = pod
		}
	}
	return found
}

// asking waits until so many pods ask for nodes.
func (r *rig) asking(n int) {
	r.Helper()
	harness.Eventually(r, patience, fmt.Sprintf("waiting until %d pods ask for nodes", n), func() error {
		var pods corev1.PodList
		if err := r.api.List(r.Context(), &pods, client.HasLabels{v1alpha1.LabelPlaceholder}); err != nil || len(pods.Items) != n {
			return fmt.Errorf("%d do, %w", len(pods.Items), err)
		}
		return nil
	})
}

// machines are the nodes that Karpenter has made.
func (r *rig) machines() map[string]bool {
	r.Helper()
	var nodes corev1.NodeList
	r.must(r.api.List(r.Context(), &nodes, client.HasLabels{ours}))
	names := map[string]bool{}
	for _, node := range nodes.Items {
		names[node.Name] = true
	}
	return names
}

// wait waits until Karpenter has so many machines.
func (r *rig) wait(n int) {
	r.Helper()
	since := time.Now()
	harness.Eventually(r, patience, fmt.Sprintf("waiting until Karpenter has %d machines", n), func() error {
		if has := len(r.machines()); has != n {
			return fmt.Errorf("there are %d", has)
		}
		return nil
	})
	r.Logf("%d machines after %.1f s", n, time.Since(since).Seconds())
}

// power does for Karpenter's machines what their kubelets would do, until the test ends.
func (r *rig) power() {
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(func() {
		tick := time.NewTicker(500 * time.Millisecond)
		defer tick.Stop()
		for {
			if err := r.turn(ctx); err != nil && ctx.Err() == nil {
				r.Logf("the machines: %v", err)
			}
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	})
	r.Cleanup(func() {
		cancel()
		group.Wait()
	})
}

// turn says that each machine is well, that its pods run, and that those which are
// deleted have ended.
func (r *rig) turn(ctx context.Context) error {
	var nodes corev1.NodeList
	if err := r.api.List(ctx, &nodes, client.HasLabels{ours}); err != nil {
		return err
	}
	now, has := metav1.Now(), map[string]bool{}
	for _, node := range nodes.Items {
		has[node.Name] = true
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", LastHeartbeatTime: now, LastTransitionTime: node.CreationTimestamp}}
		if err := r.api.Status().Update(ctx, &node); !passing(err) {
			return err
		}
	}
	var pods corev1.PodList
	if err := r.api.List(ctx, &pods); err != nil {
		return err
	}
	for _, pod := range pods.Items {
		if !has[pod.Spec.NodeName] {
			continue
		}
		if pod.DeletionTimestamp != nil {
			if err := r.api.Delete(ctx, &pod, client.GracePeriodSeconds(0)); client.IgnoreNotFound(err) != nil {
				return err
			}
			continue
		}
		if pod.Status.Phase == corev1.PodRunning {
			continue
		}
		pod.Status.Phase, pod.Status.StartTime = corev1.PodRunning, &now
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue})
		for _, container := range pod.Spec.Containers {
			pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
				Name: container.Name, Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
			})
		}
		if err := r.api.Status().Update(ctx, &pod); !passing(err) {
			return err
		}
	}
	return nil
}

// passing tells whether the next turn does it, or nothing is left to do.
func passing(err error) bool {
	return err == nil || apierrors.IsConflict(err) || apierrors.IsNotFound(err)
}
