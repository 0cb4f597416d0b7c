//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/test/e2e/harness"
)

// TestWithinOneRack: a job that has to be in one rack waits while the machine
// does not say where it is, says so, and starts once it does; the configuration
// says it as well, and takes it back.
func TestWithinOneRack(t *testing.T) {
	m := own(t, "--tier", "plain", "--simulate-gpus", "2xA100")
	ns := m.Namespace(t)
	ctx := deadline(t, 4*time.Minute)
	dir := folder(t, map[string]string{"a": ""})
	run := func(name string, flags ...string) {
		args := append([]string{"-n", ns, "run", "--name", name, "--nodes", "2", "--framework", "None", "--detach"}, flags...)
		expect(t, m.RunIn(ctx, dir, append(args, "--", "sleep", "1")...), 0)
	}
	run("racked", "--within", "rack")
	waitPhase(t, m, ns, "racked", v1alpha1.JobWaiting)
	harness.Eventually(t, 20*time.Second, "why it waits", func() error {
		if message := job(t, m, ns, "racked").Status.Message; !strings.HasPrefix(message, "impossible now: must be within one rack") {
			return fmt.Errorf("its message is %q", message)
		}
		return nil
	})
	expect(t, m.Run(ctx, "-n", ns, "why", "racked"), 0, "must be within one rack, and no node says in which it is; put the label muster.dev/rack on nodes", "--near rack")
	expect(t, m.Run(ctx, "-n", ns, "why", "racked", "-o", "json"), 0, `"NoDomain"`, `"WiderDomain"`)
	run("wish", "--near", "rack", "--spread", "zone")
	waitPhase(t, m, ns, "wish", v1alpha1.JobSucceeded)
	run("apart", "--apart", "node")
	waitPhase(t, m, ns, "apart", v1alpha1.JobWaiting)
	expect(t, m.Run(ctx, "-n", ns, "why", "apart"), 0, "no two workers may be on one node, and there are 2; only 1 node would do", "--spread node")
	// 1. A label on the node is enough.
	expect(t, m.Kubectl(ctx, "", "label", "node", "--all", "muster.dev/rack=r07"), 0)
	waitPhase(t, m, ns, "racked", v1alpha1.JobSucceeded)
	expect(t, m.Kubectl(ctx, "", "label", "node", "--all", "muster.dev/rack-"), 0)
	// 2. So is one in the configuration.
	configure := func(labels string) {
		if err := m.Down(ctx); err != nil {
			t.Fatal(err)
		}
		text := "apiVersion: config.muster.dev/v1alpha1\nkind: Embedded\n" + labels
		if err := os.WriteFile(filepath.Join(m.Home, "config.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := m.Start(ctx); err != nil {
			t.Fatal(err)
		}
	}
	configure("nodeLabels: {topology.kubernetes.io/zone: a, nvidia.com/gpu.clique: c.1}\n")
	run("zoned", "--within", "nvlink", "--apart", "node")
	waitPhase(t, m, ns, "zoned", v1alpha1.JobWaiting)
	run("linked", "--within", "nvlink", "--gpus", "1")
	waitPhase(t, m, ns, "linked", v1alpha1.JobSucceeded)
	// 3. And it is taken back with it.
	configure("")
	harness.Eventually(t, 20*time.Second, "the label to be gone", func() error {
		if r := m.Kubectl(ctx, "", "get", "nodes", "-l", "nvidia.com/gpu.clique", "-o", "name"); r.Code != 0 || r.Stdout != "" {
			return fmt.Errorf("got %s%s", r.Stdout, r.Stderr)
		}
		return nil
	})
}

// TestTopologyThatCannotBe: what makes no sense is refused, with what does.
func TestTopologyThatCannotBe(t *testing.T) {
	m := plainTier.start(t)
	ns := m.Namespace(t)
	ctx := deadline(t, time.Minute)
	dir := folder(t, map[string]string{"a": ""})
	for _, tt := range []struct {
		flags []string
		want  string
	}{
		{[]string{"--within", "rak"}, "there is zone, rack, nvlink (an NVLink domain) and node; did you mean rack?"},
		{[]string{"--within", "rack", "--near", "zone"}, "give one"},
		{[]string{"--apart", "rack", "--spread", "zone"}, "give one"},
		{[]string{"--within", "rack", "--apart", "zone"}, "members in one rack cannot each have a zone of their own"},
		{[]string{"--spread", ""}, "its value is empty"},
	} {
		args := append([]string{"-n", ns, "run", "--nodes", "2"}, tt.flags...)
		expect(t, m.RunIn(ctx, dir, append(args, "--", "true")...), 2, tt.want)
	}
	manifest := func(topology, spread string) string {
		return fmt.Sprintf(`{apiVersion: muster.dev/v1alpha1, kind: TrainingJob, metadata: {name: x, namespace: %s},
spec: {topology: %s, roles: [{name: worker, replicas: 2, command: ["true"], spread: %s}]}}`, ns, topology, spread)
	}
	expect(t, m.Kubectl(ctx, manifest("{within: row}", "{over: node}"), "apply", "-f", "-"), 1, `"zone", "rack", "nvlink", "node"`)
	expect(t, m.Kubectl(ctx, manifest("{within: rack, required: true}", "{over: rack, required: true}"), "apply", "-f", "-"), 1,
		"spread over a narrower level than topology.within (from wide to narrow: zone, rack, nvlink, node), or do not require both")
	expect(t, m.Kubectl(ctx, manifest("{within: rack, required: true}", "{over: node, required: true}"), "apply", "-f", "-"), 0)
}
