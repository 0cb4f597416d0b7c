//go:build conformance

package conformance

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1 "k8s.io/api/core/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/test/e2e/harness"
)

// TestAFailureIsTriedAgain has a member fail twice: it is started again, and
// the job fails with the exit code once there are no more tries.
func TestAFailureIsTriedAgain(t *testing.T) {
	ns := the.namespace(t)
	the.submit(t, ns, "fails", fmt.Sprintf("{backoffLimit: 1, roles: [{name: worker, replicas: 2, gpus: 1, command: %s}]}", command(`[ "$INDEX" = 1 ] && exit 7; `+hold)))
	job := the.until(t, ns, "fails", v1alpha1.JobFailed)
	if job.Status.Restarts != 1 || !strings.Contains(job.Status.Message, "7") {
		t.Errorf("%d restarts, and it says %q; want 1, and exit code 7", job.Status.Restarts, job.Status.Message)
	}
	harness.Eventually(t, 45*time.Second, "waiting until nothing is held", func() error {
		if n, live := the.placements(t, ns), the.pods(t, ns, "fails"); n > 0 || len(live) > 0 {
			return fmt.Errorf("%d placements and %d live pods", n, len(live))
		}
		return nil
	})
}

// TestSuspendAndResume frees all GPUs for another job, and goes on after it.
func TestSuspendAndResume(t *testing.T) {
	ns := the.namespace(t)
	the.holding(t, ns, "paused", 4, 1, "")
	the.until(t, ns, "paused", v1alpha1.JobRunning)
	if r := the.muster(t, "-n", ns, "suspend", "paused"); r.Code != 0 {
		t.Fatalf("muster suspend: %s", r.Stderr)
	}
	the.until(t, ns, "paused", v1alpha1.JobSuspended)
	if live := the.pods(t, ns, "paused"); len(live) > 0 {
		t.Errorf("%s of a suspended job is %s", live[0].Name, live[0].Status.Phase)
	}
	the.submit(t, ns, "between", "{roles: [{name: worker, replicas: 4, gpus: 1, command: ['true']}]}")
	the.until(t, ns, "between", v1alpha1.JobSucceeded)
	if r := the.muster(t, "-n", ns, "resume", "paused"); r.Code != 0 {
		t.Fatalf("muster resume: %s", r.Stderr)
	}
	the.until(t, ns, "paused", v1alpha1.JobRunning)
	the.release(t, ns, "paused", "worker", 0, 1, 2, 3)
	if job := the.until(t, ns, "paused", v1alpha1.JobSucceeded); job.Status.Restarts != 0 {
		t.Errorf("a suspension counts as %d restarts", job.Status.Restarts)
	}
}

func TestTheTimeLimitEndsIt(t *testing.T) {
	ns := the.namespace(t)
	the.submit(t, ns, "late", "{activeDeadlineSeconds: 2, roles: [{name: worker, replicas: 2, gpus: 1, command: [sleep, '100000']}]}")
	job := the.until(t, ns, "late", v1alpha1.JobFailed)
	if !strings.Contains(job.Status.Message, "2s") {
		t.Errorf("it says %q, want the limit", job.Status.Message)
	}
	the.settle(t.Context(), t, ns)
}

// TestATimeToLive removes an ended job, and all that belongs to it.
func TestATimeToLive(t *testing.T) {
	ns := the.namespace(t)
	the.submit(t, ns, "brief", "{ttlSecondsAfterFinished: 1, roles: [{name: worker, gpus: 1, command: ['true']}]}")
	the.gone(t, ns, "brief")
	harness.Eventually(t, within, "waiting until the job itself is gone", func() error {
		var jobs v1alpha1.TrainingJobList
		if err := the.api.List(t.Context(), &jobs, client.InNamespace(ns)); err != nil {
			return err
		}
		if len(jobs.Items) > 0 {
			return fmt.Errorf("it is %s", jobs.Items[0].Status.Phase)
		}
		return nil
	})
}

// TestAnImageThatCannotBeHad ends the job in words that name the image, and
// holds nothing.
func TestAnImageThatCannotBeHad(t *testing.T) {
	ns := the.namespace(t)
	the.submit(t, ns, "absent", fmt.Sprintf("{startTimeout: 30s, environment: {image: %q}, roles: [{name: worker, replicas: 2, gpus: 1, command: ['true']}]}", the.absent))
	the.says(t, ns, "absent", the.absent)
	the.holding(t, ns, "four", 4, 1, "")
	the.until(t, ns, "four", v1alpha1.JobRunning)
}

// TestAQuotaIsCountedForTheWhole has a namespace allow three pods: a gang of
// four is never begun, says why, and starts when it may.
func TestAQuotaIsCountedForTheWhole(t *testing.T) {
	ns := the.namespace(t)
	quota := `{apiVersion: v1, kind: ResourceQuota, metadata: {name: few}, spec: {hard: {count/pods: "%d"}}}`
	if r := the.kubectl(t, fmt.Sprintf(quota, 3), "-n", ns, "apply", "-f", "-"); r.Code != 0 {
		t.Fatal(r.Stderr)
	}
	harness.Eventually(t, within, "waiting until the quota counts", func() error {
		var q corev1.ResourceQuota
		if err := the.api.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "few"}, &q); err != nil {
			return err
		}
		if len(q.Status.Hard) == 0 {
			return fmt.Errorf("its status is empty")
		}
		return nil
	})
	the.holding(t, ns, "four", 4, 1, "")
	the.says(t, ns, "four", "quota")
	if live := the.pods(t, ns, "four"); len(live) > 0 {
		t.Errorf("%d pods of a gang that may not be", len(live))
	}
	if r := the.kubectl(t, fmt.Sprintf(quota, 4), "-n", ns, "apply", "-f", "-"); r.Code != 0 {
		t.Fatal(r.Stderr)
	}
	the.until(t, ns, "four", v1alpha1.JobRunning)
}

// noThird is a policy of a namespace that refuses one pod by its name, as quotas
// and policies of others refuse pod 57 of 100.
const noThird = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: %[1]s}
spec:
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %[1]s}}
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
  validations: [{expression: "!object.metadata.name.endsWith('-worker-2')", message: no third wheel}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: %[1]s}
spec: {policyName: %[1]s, validationActions: [Deny]}
`

// TestOneMemberThatIsNotAllowed has a policy refuse one pod of four, which no
// dry run of another could tell: all of the gang is given back within seconds,
// with the policy's words, others get its GPUs, and it starts once it may.
func TestOneMemberThatIsNotAllowed(t *testing.T) {
	ns := the.namespace(t)
	policy := fmt.Sprintf(noThird, ns)
	remove := func() { the.kubectl(t, policy, "delete", "--ignore-not-found", "-f", "-") }
	t.Cleanup(remove)
	if r := the.kubectl(t, policy, "apply", "-f", "-"); r.Code != 0 {
		t.Fatal(r.Stderr)
	}
	third := `{apiVersion: v1, kind: Pod, metadata: {name: a-worker-2}, spec: {containers: [{name: a, image: a}]}}`
	harness.Eventually(t, within, "waiting until the policy holds", func() error {
		if r := the.kubectl(t, third, "-n", ns, "create", "--dry-run=server", "-f", "-"); !strings.Contains(r.Stderr, "no third wheel") {
			return fmt.Errorf("%s%s", r.Stdout, r.Stderr)
		}
		return nil
	})
	the.holding(t, ns, "four", 4, 1, "")
	the.says(t, ns, "four", "no third wheel")
	harness.Eventually(t, within, "waiting until nothing is held", func() error {
		if n, live := the.placements(t, ns), the.pods(t, ns, "four"); n > 0 || len(live) > 0 {
			return fmt.Errorf("%d placements and %d live pods", n, len(live))
		}
		return nil
	})
	the.submit(t, ns, "between", "{roles: [{name: worker, replicas: 2, gpus: 2, command: ['true']}]}")
	the.until(t, ns, "between", v1alpha1.JobSucceeded)
	remove()
	the.until(t, ns, "four", v1alpha1.JobRunning)
	the.release(t, ns, "four", "worker", 0, 1, 2, 3)
	the.until(t, ns, "four", v1alpha1.JobSucceeded)
}

// TestDeletedWhileItStarts deletes jobs at once: nothing of them is left.
func TestDeletedWhileItStarts(t *testing.T) {
	ns := the.namespace(t)
	for i := range 5 {
		name := fmt.Sprintf("gone-%d", i)
		the.holding(t, ns, name, 4, 1, "")
		if i%2 == 1 {
			harness.Eventually(t, within, "waiting for its placement", func() error {
				if the.placements(t, ns) == 0 {
					return fmt.Errorf("none yet: %s", the.job(t, ns, name).Status.Message)
				}
				return nil
			})
		}
		if r := the.muster(t, "-n", ns, "delete", name); r.Code != 0 {
			t.Fatalf("muster delete: %s", r.Stderr)
		}
	}
	for i := range 5 {
		the.gone(t, ns, fmt.Sprintf("gone-%d", i))
	}
}

// TestANamespaceDeletedUnderAGang takes everything along, and frees its GPUs.
func TestANamespaceDeletedUnderAGang(t *testing.T) {
	ns, other := the.namespace(t), the.namespace(t)
	the.holding(t, ns, "under", 4, 1, "")
	the.until(t, ns, "under", v1alpha1.JobRunning)
	if err := the.api.Delete(t.Context(), &corev1.Namespace{ObjectMeta: objectMeta(ns)}); err != nil {
		t.Fatal(err)
	}
	the.holding(t, other, "after", 4, 1, "")
	the.until(t, other, "after", v1alpha1.JobRunning)
}
