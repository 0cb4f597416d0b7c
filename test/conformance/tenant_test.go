//go:build conformance

package conformance

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/test/e2e/harness"
)

// bound is a namespace, and an account in it with the role muster-user there and no other.
const bound = `{apiVersion: v1, kind: List, items: [
	{apiVersion: v1, kind: ServiceAccount, metadata: {namespace: %[1]s, name: bob}},
	{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {namespace: %[1]s, name: bob},
		roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: muster-user}, subjects: [{kind: ServiceAccount, namespace: %[1]s, name: bob}]}]}`

// tenant is a user of the cluster with a kubeconfig.
type tenant struct {
	testing.TB
	kubeconfig, dir string
}

// asks runs one line of the CLI, which ends with a code and with the words.
func (u tenant) asks(code int, words, line string) {
	u.Helper()
	ctx, cancel := context.WithTimeout(u.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, harness.Binary(), append([]string{"--kubeconfig", u.kubeconfig}, strings.Fields(line)...)...)
	cmd.Env, cmd.Dir = append(os.Environ(), "MUSTER_HOME="+u.dir), u.dir
	r := harness.Finish(cmd)
	said := r.Stdout + r.Stderr
	if r.Code != code || !strings.Contains(said, words) {
		u.Errorf("muster %s: code %d, want %d and %q: %s", line, r.Code, code, words, said)
	}
	if r.Code != 0 && strings.Count(strings.TrimSpace(said), "\n") > 0 && !strings.HasPrefix(line, "doctor") {
		u.Errorf("muster %s: the refusal has several lines: %s", line, said)
	}
}

// TestATenantsCommands has users with nothing but rights in one namespace use each command: it
// works there, or names the right that is missing.
func TestATenantsCommands(t *testing.T) {
	if the.nodes == nil {
		t.Fatal("one machine has no users: leave this test out here, by name, as the Makefile does")
	}
	u := tenant{TB: t, dir: t.TempDir()}
	u.kubeconfig = filepath.Join(u.dir, "grace.kubeconfig")
	the.does(t, "default", "user", "add", "grace", "--lifetime", "1h", "--file", u.kubeconfig)
	t.Cleanup(func() { the.does(t, "default", "user", "remove", "grace", "--force", "--yes") })
	const nodes = "system:serviceaccount:grace:grace may not list nodes of the whole cluster; ask an administrator"
	if err := os.WriteFile(filepath.Join(u.dir, "file"), []byte("a"), 0o600); err != nil {
		t.Fatal(err)
	}
	u.asks(0, "one", "run --detach --name one --code none --gpus 1 --checkpoints none --image "+the.image+" -- sleep 1000")
	the.until(t, "grace", "one", v1alpha1.JobRunning)
	for _, c := range []struct {
		code        int
		words, line string
	}{
		{0, "Running", "get"},
		{0, "placed since", "why one"},
		{0, "grace/one", "top"},
		{0, "default", "queue list"},
		{0, " running, 0 waiting", "queue describe grace"},
		{1, "you may not create queues; ask an administrator", "queue create x"},
		{1, "you may not update queues; ask an administrator", "queue edit grace --min-run-time 1s"},
		{1, "you may not delete queues; ask an administrator", "queue delete grace"},
		{0, "created", "data create words"},
		{0, "1 added", "data put file words"},
		{0, "system:serviceaccount:grace:grace", "data log words"},
		{0, "nothing is damaged", "data verify words"},
		{0, "the store takes", "data du"},
		{0, "There are no pipelines", "pipeline list"},
		{1, nodes, "node list"},
		{1, nodes, "node drain node-1"},
		{1, "may not get namespaces in namespace muster-system; ask", "pause"},
		{1, "may not create namespaces of the whole cluster; ask", "user add eve"},
		{1, "limited", "doctor"},
		{1, "the right to list nodes", "get nodes"},
		{1, "you may not in all namespaces; leave out --all-namespaces", "get --all-namespaces"},
		{1, `you may not in namespace "default"; -n names another`, "-n default get"},
		{0, "released", "release one --force --yes"},
		{0, "deleted", "delete one"},
	} {
		u.asks(c.code, c.words, c.line)
	}
	// A namespace that its administrator has set up by hand, in steps that the refusals name.
	ns := the.namespace(t)
	if r := the.kubectl(t, fmt.Sprintf(bound, ns), "apply", "-f", "-"); r.Code != 0 {
		t.Fatal(r.Stderr)
	}
	u.kubeconfig = the.bob(t, ns, u.kubeconfig)
	u.asks(0, "There are no training jobs", "get")
	u.asks(1, "may not list queues of the whole cluster; ask an administrator", "queue list")
	u.asks(1, "an administrator makes it with `kubectl -n "+ns+" create serviceaccount muster-door`", "top")
	if r := the.kubectl(t, "", "-n", ns, "create", "serviceaccount", "muster-door"); r.Code != 0 {
		t.Fatal(r.Stderr)
	}
	u.asks(1, "binds the role muster-names to you", "top")
	if r := the.kubectl(t, "", "create", "clusterrolebinding", ns, "--clusterrole=muster-names", "--serviceaccount="+ns+":bob"); r.Code != 0 {
		t.Fatal(r.Stderr)
	}
	t.Cleanup(func() { the.kubectl(t, "", "delete", "clusterrolebinding", ns) })
	harness.Eventually(t, within, "waiting until the API server knows the new right", func() error {
		r := the.kubectl(t, "", "auth", "can-i", "list", "queues.muster.dev", "--as=system:serviceaccount:"+ns+":bob")
		if r.Code != 0 {
			return fmt.Errorf("%s%s", r.Stdout, r.Stderr)
		}
		return nil
	})
	u.asks(0, "node-1", "top")
	u.asks(0, "default", "queue list")
	u.asks(0, "created", "data create words")
	u.asks(0, "1 added", "data put file words")
}

// bob writes a kubeconfig like another, with a token of the account bob of a namespace.
func (p *platform) bob(t testing.TB, ns, like string) string {
	t.Helper()
	token := p.kubectl(t, "", "-n", ns, "create", "token", "bob", "--duration", "1h")
	path := filepath.Join(t.TempDir(), "bob.kubeconfig")
	text, err := os.ReadFile(like)
	if token.Code != 0 || err != nil {
		t.Fatalf("making a kubeconfig: %v: %s", err, token.Stderr)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, line := range [][]string{
		{"set-credentials", "bob", "--token=" + strings.TrimSpace(token.Stdout)},
		{"set-context", "--current", "--user=bob", "--namespace=" + ns},
	} {
		cmd := exec.CommandContext(t.Context(), harness.KubectlBinary(), append([]string{"--kubeconfig", path, "config"}, line...)...)
		if r := harness.Finish(cmd); r.Code != 0 {
			t.Fatal(r.Stderr)
		}
	}
	return path
}
