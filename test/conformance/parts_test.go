//go:build conformance

package conformance

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/test/e2e/harness"
)

// TestPartsOfAGPU: members with a part of a GPU run beside one another on the
// same one, know their part, and are in the one ledger with those that want it
// for themselves. What is enforced is said.
func TestPartsOfAGPU(t *testing.T) {
	ns := the.namespace(t)
	if the.counts {
		the.submit(t, ns, "part", fmt.Sprintf("{roles: [{name: worker, gpus: 250m, command: %s}]}", command(hold)))
		the.says(t, ns, "part", "no node has a GPU of which a part can be given")
		return
	}
	the.submit(t, ns, "parts", fmt.Sprintf("{roles: [{name: worker, replicas: 2, gpus: 250m, command: %s}, {name: big, gpuMemory: 40Gi, command: %s}]}", command(hold), command(hold)))
	job := the.until(t, ns, "parts", v1alpha1.JobRunning)
	var on []string
	for _, p := range the.pods(t, ns, "parts") {
		on = append(on, p.Annotations[v1alpha1.AnnotationGPUs])
	}
	slices.Sort(on)
	if on = slices.Compact(on); len(on) != 1 || strings.Contains(on[0], ",") {
		t.Errorf("two quarters and a half are on %v, want one GPU", on)
	}
	harness.Eventually(t, within, "waiting until it is said what is enforced", func() error {
		job = the.job(t, ns, "parts")
		for _, r := range job.Status.Roles {
			want := map[string]string{"worker": "250m (20480 MiB), not enforced: ", "big": "500m (40960 MiB), not enforced: "}[r.Name]
			if !strings.HasPrefix(r.GPUShare, want) {
				return fmt.Errorf("of %s it says %q, want %q", r.Name, r.GPUShare, want)
			}
		}
		return nil
	})
	r := the.muster(t, "top")
	for _, holder := range []string{"/parts worker-0 (250m, 20.0 GiB)", "/parts worker-1 (250m, 20.0 GiB)", "/parts big-0 (500m, 40.0 GiB)"} {
		if !strings.Contains(r.Stdout, ns+holder) {
			t.Errorf("muster top does not show %s:\n%s%s", holder, r.Stdout, r.Stderr)
		}
	}
	// The one ledger: three GPUs are left, and not four.
	the.holding(t, ns, "four", 4, 1, "")
	the.says(t, ns, "four", "GPU")
	the.holding(t, ns, "three", 3, 1, "")
	the.until(t, ns, "three", v1alpha1.JobRunning)
	for _, p := range the.pods(t, ns, "three") {
		if p.Annotations[v1alpha1.AnnotationGPUs] == on[0] {
			t.Errorf("%s has %s to itself, of which others have parts", p.Name, on[0])
		}
	}
	the.release(t, ns, "parts", "worker", 0, 1)
	the.release(t, ns, "parts", "big", 0)
	the.until(t, ns, "parts", v1alpha1.JobSucceeded)
	the.release(t, ns, "three", "worker", 0, 1, 2)
	the.until(t, ns, "four", v1alpha1.JobRunning)
}

// TestPartsAreTold: a container reads its part, and sees the GPUs that it was
// given and no others.
func TestPartsAreTold(t *testing.T) {
	if the.counts {
		t.Skip("the device plugin of this platform gives whole GPUs")
	}
	ns := the.namespace(t)
	const part = `[ "$MUSTER_GPU_MILLI $MUSTER_GPU_MEMORY_MIB $MUSTER_GPU_MEMORY_FRACTION" = "250 20480 0.25" ] && [ "$NVIDIA_VISIBLE_DEVICES" = void ] && case "$MUSTER_GPUS" in *,*) false;; GPU-sim-*=A100) true;; *) false;; esac`
	the.submit(t, ns, "part", fmt.Sprintf("{roles: [{name: worker, gpus: 250m, command: %s}]}", command(part)))
	the.until(t, ns, "part", v1alpha1.JobSucceeded)
	const two = `[ -z "$MUSTER_GPU_MILLI" ] && case "$MUSTER_GPUS" in *,*,*) false;; GPU-sim-*=A100,GPU-sim-*=A100) true;; *) false;; esac`
	the.submit(t, ns, "two", fmt.Sprintf("{roles: [{name: worker, gpus: 2, command: %s}]}", command(two)))
	the.until(t, ns, "two", v1alpha1.JobSucceeded)
}

// TestNoClaimStays: what members were given through claims goes with them.
func TestNoClaimStays(t *testing.T) {
	ns := the.namespace(t)
	the.holding(t, ns, "goes", 4, 1, "")
	the.until(t, ns, "goes", v1alpha1.JobRunning)
	claims := func() (n int, first string, err error) {
		var list resourcev1.ResourceClaimList
		if err := the.api.List(t.Context(), &list, client.InNamespace(ns)); err != nil || len(list.Items) == 0 {
			return 0, "", err
		}
		return len(list.Items), list.Items[0].Name, nil
	}
	// Each member has one where an agent names the GPUs.
	if n, _, err := claims(); err != nil || n != 4 && the.another != nil && !the.counts {
		t.Errorf("four members have %d claims: %v", n, err)
	}
	if r := the.muster(t, "-n", ns, "delete", "goes"); r.Code != 0 {
		t.Fatalf("muster delete: %s%s", r.Stdout, r.Stderr)
	}
	harness.Eventually(t, within, "waiting until no claim is left", func() error {
		n, first, err := claims()
		if err == nil && n > 0 {
			err = fmt.Errorf("%d are left, such as %s", n, first)
		}
		return err
	})
	the.holding(t, ns, "next", 4, 1, "")
	the.until(t, ns, "next", v1alpha1.JobRunning)
}

// takesGPUs is a manifest of an administrator that requests GPUs of Muster's nodes from
// kube-scheduler: a class that selects them, and a DaemonSet whose claims tolerate all.
const takesGPUs = `{apiVersion: v1, kind: List, items: [
	{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: every-gpu}, spec: {selectors: [{cel: {expression: "device.driver == 'gpu.muster.dev'"}}]}},
	{apiVersion: resource.k8s.io/v1, kind: ResourceClaimTemplate, metadata: {name: one}, spec: {spec: {devices: {requests: [
		{name: g, exactly: {deviceClassName: every-gpu, tolerations: [{operator: Exists}]}}]}}}},
	{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: takes}, spec: {selector: {matchLabels: {a: takes}}, template: {metadata: {labels: {a: takes}}, spec: {
		terminationGracePeriodSeconds: 0, tolerations: [{operator: Exists}], nodeSelector: {muster.dev/owned: "true"}, resourceClaims: [{name: g, resourceClaimTemplateName: one}],
		containers: [{name: c, image: %q, command: [sleep, "100000"], resources: {claims: [{name: g}]}}]}}}}]}`

// TestClaimsOfOthers: GPUs that kube-scheduler gave to claims count as taken, and messages name the
// claims, until the claims go.
func TestClaimsOfOthers(t *testing.T) {
	if the.counts || the.another == nil {
		t.Skip("no agent of this platform names GPUs to a cluster")
	}
	ns := the.namespace(t)
	if r := the.kubectl(t, fmt.Sprintf(takesGPUs, the.image), "-n", ns, "apply", "-f", "-"); r.Code != 0 {
		t.Fatal(r.Stderr)
	}
	t.Cleanup(func() { the.kubectl(t, "", "delete", "deviceclass", "every-gpu") })
	if r := the.kubectl(t, "", "-n", ns, "rollout", "status", "daemonset", "takes", "--timeout=60s"); r.Code != 0 {
		t.Fatal(r.Stdout, r.Stderr)
	}
	the.holding(t, ns, "all", 4, 1, "")
	the.says(t, ns, "all", "needs 4 GPUs at once; 2 are free", "not Muster's")
	for line, want := range map[string]string{"top": "claim " + ns + "/takes-", "doctor": "held by claims that Muster did not make: " + ns + "/takes-", "node list -o json": `"heldByOthers": 1`} {
		if r := the.muster(t, strings.Fields(line)...); !strings.Contains(r.Stdout, want) {
			t.Errorf("muster %s does not say %q:\n%s%s", line, want, r.Stdout, r.Stderr)
		}
	}
	if n := len(the.pods(t, ns, "all")); n != 0 {
		t.Errorf("%d members of it have pods", n)
	}
	the.holding(t, ns, "rest", 2, 1, "")
	the.until(t, ns, "rest", v1alpha1.JobRunning)
	the.release(t, ns, "rest", "worker", 0, 1)
	the.until(t, ns, "rest", v1alpha1.JobSucceeded)
	if r := the.kubectl(t, "", "-n", ns, "delete", "daemonset", "takes"); r.Code != 0 {
		t.Fatal(r.Stderr)
	}
	the.until(t, ns, "all", v1alpha1.JobRunning)
	the.release(t, ns, "all", "worker", 0, 1, 2, 3)
}

// TestQuotasOnDevices: a gang whose claims a quota does not allow is not begun, and the
// quota is named; one that it allows runs.
func TestQuotasOnDevices(t *testing.T) {
	if the.counts || the.another == nil {
		t.Skip("no agent of this platform names GPUs to a cluster")
	}
	for i, resource := range []string{"gpu.muster.dev.deviceclass.resource.k8s.io/devices", "count/resourceclaims.resource.k8s.io"} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			ns := the.namespace(t)
			quota := fmt.Sprintf(`{apiVersion: v1, kind: ResourceQuota, metadata: {name: q}, spec: {hard: {%s: "1"}}}`, resource)
			if r := the.kubectl(t, quota, "-n", ns, "apply", "-f", "-"); r.Code != 0 {
				t.Fatal(r.Stderr)
			}
			the.holding(t, ns, "half", 2, 1, "")
			the.says(t, ns, "half", "quota q of namespace "+ns+" allows 1", resource)
			the.holding(t, ns, "one", 1, 1, "")
			the.until(t, ns, "one", v1alpha1.JobRunning)
			if n := len(the.pods(t, ns, "half")); n != 0 {
				t.Errorf("%d members of it have pods", n)
			}
			the.release(t, ns, "one", "worker", 0)
		})
	}
}
