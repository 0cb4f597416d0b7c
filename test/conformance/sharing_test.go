//go:build conformance

package conformance

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/test/e2e/harness"
)

func objectMeta(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }

// queues makes queues, which go with the test.
func queues(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		if r := the.muster(t, "queue", "create", name, "--guaranteed", "gpu=2", "--min-run-time", "1s"); r.Code != 0 {
			t.Fatalf("muster queue create: %s", r.Stderr)
		}
		t.Cleanup(func() {
			harness.Eventually(t, within, "waiting until queue "+name+" can go", func() error {
				if r := the.kubectl(t, "", "delete", "queue", name, "--ignore-not-found"); r.Code != 0 {
					return fmt.Errorf("%s", r.Stderr)
				}
				return nil
			})
		})
	}
}

// TestAQueueTakesBackWhatItLent: a queue borrows what its sibling leaves, and
// gives it back when the sibling wants its guarantee. Nothing counts as a
// failure.
func TestAQueueTakesBackWhatItLent(t *testing.T) {
	ns := the.namespace(t)
	queues(t, "vision", "nlp")
	the.holding(t, ns, "own", 1, 2, ", queue: nlp")
	the.until(t, ns, "own", v1alpha1.JobRunning)
	the.holding(t, ns, "borrows", 1, 2, ", queue: nlp")
	the.until(t, ns, "borrows", v1alpha1.JobRunning)
	the.holding(t, ns, "entitled", 1, 2, ", queue: vision")
	the.until(t, ns, "entitled", v1alpha1.JobRunning)
	evicted := ""
	for _, name := range []string{"own", "borrows"} {
		if the.job(t, ns, name).Status.Evictions > 0 {
			evicted = name
		}
	}
	if evicted == "" {
		t.Fatal("nobody made room, and yet there is room")
	}
	if job := the.until(t, ns, evicted, v1alpha1.JobWaiting); job.Status.Restarts != 0 {
		t.Errorf("an eviction counts as %d restarts", job.Status.Restarts)
	}
	the.release(t, ns, "entitled", "worker", 0)
	the.until(t, ns, evicted, v1alpha1.JobRunning)
}

// TestAQueueThatIsNot: the job waits, names it, and starts once it is made.
func TestAQueueThatIsNot(t *testing.T) {
	ns := the.namespace(t)
	queues(t, "there")
	the.holding(t, ns, "lost", 1, 1, ", queue: visoin")
	the.says(t, ns, "lost", "visoin")
	queues(t, "visoin")
	the.until(t, ns, "lost", v1alpha1.JobRunning)
}

// TestPaused: nothing new starts while starting is paused, and what runs goes
// on.
func TestPaused(t *testing.T) {
	ns := the.namespace(t)
	the.holding(t, ns, "before", 1, 1, "")
	the.until(t, ns, "before", v1alpha1.JobRunning)
	if r := the.muster(t, "pause"); r.Code != 0 {
		t.Fatalf("muster pause: %s", r.Stderr)
	}
	unpause := func() {
		if r := the.muster(t, "unpause"); r.Code != 0 {
			t.Fatalf("muster unpause: %s", r.Stderr)
		}
	}
	t.Cleanup(unpause)
	the.holding(t, ns, "after", 1, 1, "")
	the.says(t, ns, "after", "paused")
	the.release(t, ns, "before", "worker", 0)
	the.until(t, ns, "before", v1alpha1.JobSucceeded)
	if job := the.job(t, ns, "after"); job.Status.Phase != v1alpha1.JobWaiting {
		t.Errorf("it is %s while starting is paused", job.Status.Phase)
	}
	unpause()
	the.until(t, ns, "after", v1alpha1.JobRunning)
}

// TestItGrowsAndGivesBack starts a job of 1..4 on one GPU: it takes what is
// idle, and gives it back to whoever comes.
func TestItGrowsAndGivesBack(t *testing.T) {
	ns := the.namespace(t)
	the.submit(t, ns, "sweep", fmt.Sprintf("{roles: [{name: worker, minReplicas: 1, replicas: 4, gpus: 1, command: %s}]}", command(hold)))
	members := func(n int) {
		t.Helper()
		harness.Eventually(t, within, fmt.Sprintf("waiting until %d members run", n), func() error {
			running := 0
			for _, pod := range the.pods(t, ns, "sweep") {
				if pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil {
					running++
				}
			}
			if running != n {
				return fmt.Errorf("%d run", running)
			}
			return nil
		})
	}
	members(4)
	the.holding(t, ns, "comes", 2, 1, "")
	the.until(t, ns, "comes", v1alpha1.JobRunning)
	members(2)
	the.release(t, ns, "comes", "worker", 0, 1)
	members(4)
}

// TestAPodThatNamesMuster is bound by it, and gets its GPU from the one ledger.
func TestAPodThatNamesMuster(t *testing.T) {
	ns := the.namespace(t)
	manifest := fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: lone}, spec: {schedulerName: muster, restartPolicy: Never, terminationGracePeriodSeconds: 1,
		containers: [{name: main, image: %q, command: [sleep, "100000"], resources: {limits: {nvidia.com/gpu: 2}}}]}}`, the.image)
	if r := the.kubectl(t, manifest, "-n", ns, "apply", "-f", "-"); r.Code != 0 {
		t.Fatal(r.Stderr)
	}
	harness.Eventually(t, within, "waiting until the pod runs", func() error {
		var pod corev1.Pod
		if err := the.api.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "lone"}, &pod); err != nil {
			return err
		}
		if pod.Status.Phase != corev1.PodRunning {
			return fmt.Errorf("it is %s: %s", pod.Status.Phase, pod.Status.Message)
		}
		return nil
	})
	the.holding(t, ns, "rest", 3, 1, "")
	the.says(t, ns, "rest", "GPU")
	if r := the.muster(t, "-n", ns, "why", "rest"); !strings.Contains(r.Stdout, "lone") {
		t.Errorf("muster why does not name the pod that holds what is missing: %s%s", r.Stdout, r.Stderr)
	}
	if r := the.kubectl(t, "", "-n", ns, "delete", "pod", "lone", "--wait=false"); r.Code != 0 {
		t.Fatal(r.Stderr)
	}
	the.until(t, ns, "rest", v1alpha1.JobRunning)
}

// TestTheModelDecides: a model that nobody has is waited for in words; the one
// that there is will do.
func TestTheModelDecides(t *testing.T) {
	ns := the.namespace(t)
	the.submit(t, ns, "picky", fmt.Sprintf("{roles: [{name: worker, gpus: 1, gpuModels: [B300], command: %s}]}", command(hold)))
	the.says(t, ns, "picky", "B300")
	the.submit(t, ns, "either", fmt.Sprintf("{roles: [{name: worker, gpus: 1, gpuModels: [B300, %s], command: %s}]}", the.model, command(hold)))
	the.until(t, ns, "either", v1alpha1.JobRunning)
	the.shown(t, ns+"/either worker-0")
}

// shown fails the test unless muster top shows four GPUs, and who holds one.
func (p *platform) shown(t testing.TB, holder string) {
	t.Helper()
	r := p.muster(t, "top")
	all := 0
	for line := range strings.Lines(r.Stdout) {
		if strings.Contains(line, " "+p.model+" ") {
			all++
		}
	}
	if all != 4 {
		t.Errorf("muster top shows %d GPUs, want 4:\n%s%s", all, r.Stdout, r.Stderr)
	}
	if !strings.Contains(r.Stdout, holder) {
		t.Errorf("muster top does not show %q:\n%s", holder, r.Stdout)
	}
}

// TestBadWords has the API server refuse what can be known to be wrong.
func TestBadWords(t *testing.T) {
	ns := the.namespace(t)
	for _, c := range []struct{ name, spec, want string }{
		{"no role", "{roles: []}", "roles"},
		{"minus one", "{roles: [{name: worker, replicas: -1, command: [a]}]}", "replicas"},
		{"servers alone", "{framework: TensorFlow, roles: [{name: ps, command: [a]}]}", "add a role named worker"},
		{"one and a half GPUs", "{roles: [{name: worker, gpus: '1500m', command: [a]}]}", "a share below one GPU"},
		{"unknown field", "{role: [{name: worker}]}", "role"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := the.kubectl(t, "{apiVersion: muster.dev/v1alpha1, kind: TrainingJob, metadata: {name: bad}, spec: "+c.spec+"}", "-n", ns, "apply", "--server-side", "--validate=strict", "-f", "-")
			if r.Code == 0 || !strings.Contains(r.Stderr, c.want) {
				t.Errorf("exit code %d, and it says %q, want %q", r.Code, r.Stderr, c.want)
			}
		})
	}
}
