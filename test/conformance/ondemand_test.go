//go:build conformance

package conformance

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/test/e2e/harness"
)

// someBytes are the same on every machine, and do not compress.
func someBytes(n int) []byte {
	out := make([]byte, n)
	source := rand.New(rand.NewPCG(1, 2))
	for i := range out {
		out[i] = byte(source.Uint32())
	}
	return out
}

// goOn lets a member go on that waits for it.
func (p *platform) goOn(t testing.TB, ns, pod string) {
	t.Helper()
	if r := p.kubectl(t, "", "-n", ns, "exec", pod, "--", "touch", "/tmp/go"); r.Code != 0 {
		t.Fatalf("letting %s go on: %s%s", pod, r.Stdout, r.Stderr)
	}
}

// TestDataOnDemand: what a job asks to read as it goes is mounted, and not fetched. Agents
// that are started anew meanwhile are not noticed; where what serves the mount is killed,
// who reads is told, and the member starts again. Nothing of it is left.
func TestDataOnDemand(t *testing.T) {
	if platformName() != "agent" {
		t.Fatal("there are no agents: leave this test out here, by name, as the Makefile does")
	}
	ns, folder := the.namespace(t), t.TempDir()
	long := someBytes(24 << 20)
	if err := os.WriteFile(filepath.Join(folder, "long"), long, 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		if err := os.WriteFile(filepath.Join(folder, fmt.Sprint(i)), fmt.Appendf(nil, "file %d\n", i), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"data", "create", "digits"}, {"data", "put", folder, "digits:/train"}} {
		if r := the.muster(t, append([]string{"-n", ns}, args...)...); r.Code != 0 {
			t.Fatalf("%v: %s%s", args, r.Stdout, r.Stderr)
		}
	}
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		for _, args := range [][]string{{"describe", "pods"}, {"logs", "reader-worker-0", "-c", "muster-data", "--tail=20"}, {"logs", "reader-worker-1", "-c", "muster-data", "--tail=20"}} {
			r := the.kubectl(t, "", append([]string{"-n", ns}, args...)...)
			t.Logf("%v: %s%s", args, r.Stdout, r.Stderr)
		}
	})
	the.submit(t, ns, "reader", fmt.Sprintf("{data: [{dataset: digits, branch: main, path: /train, mount: /data, lazy: true}], roles: [{name: worker, replicas: 2, gpus: 1, command: %s}]}", command(
		`cat /data/7; ls /data | wc -l; touch /data/new 2>/dev/null && exit 4; until [ -e /tmp/go ]; do cat /data/8 >/dev/null || exit 3; sleep 0.1; done; sha256sum /data/long`)))
	the.until(t, ns, "reader", v1alpha1.JobRunning)
	for worker := range 2 {
		harness.Eventually(t, within, "waiting until it reads", func() error {
			if said := the.output(t, ns, fmt.Sprint("reader-worker-", worker)); said != "file 7\n51\n" {
				return fmt.Errorf("worker %d says %q", worker, said)
			}
			return nil
		})
	}
	read := the.job(t, ns, "reader").Status.Data
	if len(read) != 1 || !read[0].Lazy || read[0].Files != 51 || read[0].Bytes < 24<<20 {
		t.Errorf("it reads %+v", read)
	}
	// 1. Agents are started anew.
	r := the.kubectl(t, "", "-n", v1alpha1.SystemNamespace, "delete", "pods", "-l", "app.kubernetes.io/component=node", "--grace-period=0", "--force", "--wait=false")
	if r.Code != 0 || !strings.Contains(r.Stdout, "deleted") {
		t.Fatalf("stopping the agents: %d %s%s", r.Code, r.Stdout, r.Stderr)
	}
	sum := fmt.Sprintf("%x  /data/long\n", sha256.Sum256(long))
	the.goOn(t, ns, "reader-worker-0")
	harness.Eventually(t, within, "waiting until all of it is read", func() error {
		if said := the.output(t, ns, "reader-worker-0"); !strings.HasSuffix(said, sum) {
			return fmt.Errorf("it says %q, want %q at the end", said, sum)
		}
		return nil
	})
	// 2. What serves the other one is killed.
	before := podOf(t, ns, "reader-worker-1")
	r = the.kubectl(t, "", "-n", ns, "exec", "reader-worker-1", "-c", "muster-data", "--", "sh", "-c", `for p in /proc/[0-9]*; do [ "$(cat $p/comm 2>/dev/null)" = muster-worker ] && kill -9 ${p#/proc/}; done; true`)
	t.Logf("killing it: %d %s%s", r.Code, r.Stdout, r.Stderr) // with it goes the command's own container
	harness.Eventually(t, within, "waiting until the member is started again", func() error {
		if now := podOf(t, ns, "reader-worker-1"); now == nil || now.UID == before.UID || now.Status.Phase != corev1.PodRunning {
			return fmt.Errorf("it is not: %s", the.job(t, ns, "reader").Status.Message)
		}
		return nil
	})
	the.goOn(t, ns, "reader-worker-1")
	the.until(t, ns, "reader", v1alpha1.JobSucceeded)
	if said := the.output(t, ns, "reader-worker-1"); !strings.HasSuffix(said, sum) {
		t.Errorf("worker 1 says %q, want %q at the end", said, sum)
	}
	// 3. A kubelet lets a pod go once nothing of its volumes is mounted any more.
	if r := the.muster(t, "-n", ns, "delete", "reader"); r.Code != 0 {
		t.Fatalf("muster delete: %s", r.Stderr)
	}
	the.gone(t, ns, "reader")
}

// podOf reads a pod; nil: there is none.
func podOf(t testing.TB, ns, name string) *corev1.Pod {
	t.Helper()
	for _, pod := range the.pods(t, ns, strings.Split(name, "-")[0]) {
		if pod.Name == name {
			return &pod
		}
	}
	return nil
}
