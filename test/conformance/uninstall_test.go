//go:build conformance

package conformance

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/test/e2e/harness"
)

// TestUninstalledUnderPods removes Muster while a pod and a gang have GPUs of the agent, and
// deletes these pods afterwards: they end, because the agent stays for them. It also asks for
// an agent that cannot start.
func TestUninstalledUnderPods(t *testing.T) {
	if the.counts || the.another == nil {
		t.Fatal("nodes have no agent here: leave this test out, by name, as the Makefile does")
	}
	ns := the.namespace(t)
	manifest := fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: lone}, spec: {schedulerName: muster, restartPolicy: Never, terminationGracePeriodSeconds: 1,
		containers: [{name: main, image: %q, command: [sleep, "100000"], resources: {limits: {nvidia.com/gpu: 1}}}]}}`, the.image)
	if r := the.kubectl(t, manifest, "-n", ns, "apply", "-f", "-"); r.Code != 0 {
		t.Fatal(r.Stderr)
	}
	the.holding(t, ns, "gang", 2, 1, "")
	the.until(t, ns, "gang", v1alpha1.JobRunning)
	harness.Eventually(t, within, "waiting until the pod runs", func() error {
		var pod corev1.Pod
		err := the.api.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "lone"}, &pod)
		if err == nil && pod.Status.Phase != corev1.PodRunning {
			err = fmt.Errorf("it is %s: %s", pod.Status.Phase, pod.Status.Message)
		}
		return err
	})
	answers := func(code int, words, line string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
		defer cancel()
		r := harness.Finish(exec.CommandContext(ctx, harness.Binary(), append([]string{"--kubeconfig", the.kubeconfig}, strings.Fields(line)...)...))
		if r.Code != code || !strings.Contains(r.Stdout+r.Stderr, words) {
			t.Fatalf("muster %s: code %d, want %d and %q:\n%s%s", line, r.Code, code, words, r.Stdout, r.Stderr)
		}
	}
	// 1. Refusals, and the messages if nothing changes.
	answers(1, "3 pods that cannot end without it", "install --set agent.create=false,store.persistentVolumeClaim=,data.gateway.enabled=false")
	answers(0, "unchanged  FlowSchema muster", "install --dry-run")
	if r := the.muster(t, "install", "--dry-run"); r.Code != 0 || strings.Contains(r.Stdout, "update ") {
		t.Errorf("muster install again changes objects: %s%s", r.Stdout, r.Stderr)
	}
	answers(1, "simulateGPUs", "install --dry-run --set agent.simulateGPUs=2A100")
	answers(1, "1 pods that no job made cannot end without the agent ("+ns+"/lone on ", "uninstall --purge --yes")
	// 2. Without the manager the pods end.
	t.Cleanup(func() {
		if err := the.reinstall(context.Background()); err != nil {
			t.Error(err)
		}
		if r := the.muster(t, "get"); strings.Contains(r.Stderr, "no manager") {
			t.Errorf("with a manager: %s", r.Stderr)
		}
	})
	answers(0, "the agent (DaemonSet muster-node), because 3 pods cannot end without it", "uninstall --yes")
	harness.Eventually(t, within, "waiting until the lease of the manager is old", func() error {
		if r := the.muster(t, "-n", ns, "get"); r.Code != 0 || !strings.Contains(r.Stderr, "no manager of Muster has run on this cluster for") {
			return fmt.Errorf("muster get: code %d: %s", r.Code, r.Stderr)
		}
		return nil
	})
	if r := the.kubectl(t, "", "-n", ns, "delete", "pod", "--all", "--wait=false"); r.Code != 0 {
		t.Fatal(r.Stderr)
	}
	the.ended(t, ns)
	answers(0, "Muster is removed", "uninstall --yes")
	harness.Eventually(t, within, "waiting until no slice of GPUs is left", func() error {
		if r := the.kubectl(t, "", "get", "resourceslices", "-o", "name"); r.Code != 0 || strings.TrimSpace(r.Stdout) != "" {
			return fmt.Errorf("left: %s%s", r.Stdout, r.Stderr)
		}
		return nil
	})
	// 3. The error names an agent that ends at each start.
	answers(1, "the agent does not start: 0 of 2 agents ready", "install --set agent.extraArgs[0]=--nonsense")
	if err := the.reinstall(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// ended waits until no pod of a namespace is left.
func (p *platform) ended(t testing.TB, ns string) {
	t.Helper()
	harness.Eventually(t, within, "waiting until the pods are gone", func() error {
		var pods corev1.PodList
		if err := p.api.List(t.Context(), &pods, client.InNamespace(ns)); err != nil {
			return err
		}
		if len(pods.Items) > 0 {
			q := &pods.Items[0]
			return fmt.Errorf("%d are left, such as %s, which is %s and was deleted at %v", len(pods.Items), q.Name, q.Status.Phase, q.DeletionTimestamp)
		}
		return nil
	})
}
