//go:build conformance

package conformance

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/test/cluster"
	"github.com/muster-dev/muster/test/e2e/harness"
)

// saves is a member whose first process is a shell that has started the trainer without exec.
// The trainer notes each start, and each SIGTERM after a moment.
const saves = `sh -c 'trap "sleep 0.5; echo saved >> /saved/$INDEX; exit" TERM; echo started >> /saved/$INDEX; while :; do sleep 0.05; done'; :`

// bare has no shell. Its program ends at SIGTERM.
var bare = cluster.Image{Name: "muster.test/bare:1", Entrypoint: []string{"/sleep", "100000"}, Files: []cluster.File{{To: "/sleep", From: "/bin/busybox"}}}

// TestSIGTERMReachesTheTrainer suspends, preempts and deletes a job whose trainer is a child of
// a shell: it saves each time, although the kubelet sends SIGTERM to the shell alone. Only of an
// image without a shell the kubelet says that the hook failed.
func TestSIGTERMReachesTheTrainer(t *testing.T) {
	if the.nodes == nil {
		t.Fatal("no kubelet ends the members: leave this test out here, by name, as the Makefile does")
	}
	ns := the.namespace(t)
	queues(t, "owner", "borrower")
	folder := the.claim(t, ns, "saved")
	if err := importOn(t.Context(), the.nodes, bare); err != nil {
		t.Fatal(err)
	}
	the.submit(t, ns, "bare", fmt.Sprintf("{environment: {image: %[1]q}, roles: [{name: worker, template: {spec: {containers: [{name: main, image: %[1]q}]}}}]}", bare.Name))
	// notes waits until each member has noted so many words, each of one start or of its end.
	notes := func(lines int) {
		t.Helper()
		want := strings.Repeat("started\nsaved\n", lines/2) + strings.Repeat("started\n", lines%2)
		harness.Eventually(t, within, "waiting for the trainers' lines", func() error {
			for _, index := range []string{"0", "1"} {
				got, err := os.ReadFile(filepath.Join(folder, index))
				if err != nil {
					return err
				}
				if string(got) != want {
					return fmt.Errorf("trainer %s noted %q, want %q", index, got, want)
				}
			}
			return nil
		})
	}
	the.submit(t, ns, "saves", fmt.Sprintf("{queue: borrower, volumes: [{name: saved, claim: saved, mountPath: /saved}], roles: [{name: worker, replicas: 2, gpus: 2, command: %s}]}", command(saves)))
	notes(1)
	the.does(t, ns, "suspend", "saves")
	notes(2)
	the.until(t, ns, "saves", v1alpha1.JobSuspended)
	the.does(t, ns, "resume", "saves")
	notes(3)
	the.holding(t, ns, "preempts", 1, 2, ", queue: owner")
	notes(4)
	the.until(t, ns, "preempts", v1alpha1.JobRunning)
	the.does(t, ns, "delete", "preempts")
	notes(5)
	the.does(t, ns, "delete", "saves")
	notes(6)
	the.until(t, ns, "bare", v1alpha1.JobRunning)
	the.does(t, ns, "delete", "bare")
	the.hooksFail(t, ns, "bare-worker-0")
}

// hooksFail waits until the kubelet has said of a pod that its hook before the stop failed, and
// asserts that it has not of any other.
func (p *platform) hooksFail(t testing.TB, ns, pod string) {
	t.Helper()
	harness.Eventually(t, within, "waiting for an event of "+pod, func() error {
		var events corev1.EventList
		if err := p.api.List(t.Context(), &events, client.InNamespace(ns)); err != nil {
			return err
		}
		said := false
		for i := range events.Items {
			e := &events.Items[i]
			if e.Reason == "FailedPreStopHook" && e.InvolvedObject.Name != pod {
				t.Fatalf("an event of %s: %s", e.InvolvedObject.Name, e.Message)
			}
			said = said || e.Reason == "FailedPreStopHook"
		}
		if !said {
			return fmt.Errorf("none of %d", len(events.Items))
		}
		return nil
	})
}

// does runs the CLI in a namespace.
func (p *platform) does(t testing.TB, ns string, args ...string) {
	t.Helper()
	if r := p.muster(t, append([]string{"-n", ns}, args...)...); r.Code != 0 {
		t.Fatalf("muster %s: code %d: %s%s", strings.Join(args, " "), r.Code, r.Stdout, r.Stderr)
	}
}

// claim makes a claim for a folder of this machine, which all nodes see, and returns the folder.
func (p *platform) claim(t testing.TB, ns, name string) string {
	t.Helper()
	folder := t.TempDir()
	volume := fmt.Sprintf(`{apiVersion: v1, kind: List, items: [
		{apiVersion: v1, kind: PersistentVolume, metadata: {name: %[1]s-%[2]s}, spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteMany], storageClassName: "",
			claimRef: {namespace: %[1]s, name: %[2]s}, hostPath: {path: %[3]q}}},
		{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {namespace: %[1]s, name: %[2]s}, spec: {accessModes: [ReadWriteMany], storageClassName: "",
			volumeName: %[1]s-%[2]s, resources: {requests: {storage: 1Gi}}}}]}`, ns, name, folder)
	if r := p.kubectl(t, volume, "apply", "-f", "-"); r.Code != 0 {
		t.Fatal(r.Stderr)
	}
	t.Cleanup(func() { p.kubectl(t, "", "delete", "pv", ns+"-"+name, "--wait=false") })
	return folder
}
