//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/osfile/disktest"
	"github.com/muster-dev/muster/test/e2e/harness"
)

// own starts a Muster for one test alone, stopped with it.
func own(t testing.TB, args ...string) *harness.Muster {
	t.Helper()
	m, err := harness.Up(deadline(t, 2*time.Minute), t.TempDir(), args...)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
		defer cancel()
		if err := m.Down(ctx); err != nil {
			t.Error(err)
			m.Abandon()
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// refusesToStart fails the test unless `muster up --detach` in home ends with
// exit code 1 and these words, and leaves no process.
func refusesToStart(t testing.TB, home string, flags []string, words ...string) {
	t.Helper()
	m := &harness.Muster{Home: home}
	r := m.Run(deadline(t, time.Minute), append([]string{"up", "--detach"}, flags...)...)
	if r.Code != 1 {
		_ = m.Run(deadline(t, time.Minute), "down")
	}
	expect(t, r, 1, words...)
	expect(t, m.Run(deadline(t, time.Minute), "status"), 3)
}

func TestAPortThatIsTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	port := fmt.Sprint(l.Addr().(*net.TCPAddr).Port)
	refusesToStart(t, t.TempDir(), []string{"--port", port}, port, "taken")
}

func TestADiskThatIsFull(t *testing.T) {
	home := disktest.New(t, "size=64m")
	refusesToStart(t, home, nil, home, "full", "MiB")
}

func TestADiskThatIsReadOnly(t *testing.T) {
	dir := disktest.New(t, "size=64m")
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	refusesToStart(t, filepath.Join(dir, "home"), nil, dir, "read-only")
	refusesToStart(t, dir, nil, dir, "read-only")
}

// TestTwoStartsAtOnce starts a second Muster while the first is starting.
func TestTwoStartsAtOnce(t *testing.T) {
	home := t.TempDir()
	m := &harness.Muster{Home: home}
	ctx := deadline(t, 2*time.Minute)
	t.Cleanup(func() { expect(t, m.Run(context.Background(), "down"), 0) })
	first := m.Command(ctx, "up", "--detach", "--tier", "plain")
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	waitFile(t, filepath.Join(home, "status.json"))
	second := m.Run(ctx, "up", "--detach", "--tier", "plain")
	if err := first.Wait(); err != nil {
		t.Errorf("the first start: %v", err)
	}
	// It may say that one is running, or wait for the first; never a second one.
	if second.Code != 0 && !strings.Contains(second.Stderr, home) {
		t.Errorf("the second start: exit code %d %s", second.Code, second.Stderr)
	}
	t.Logf("second start: exit code %d %s%s", second.Code, second.Stdout, second.Stderr)
	expect(t, m.Run(ctx, "status"), 0)
}

// TestCorruptedData overwrites the middle of etcd's file: the start fails with
// the file's folder named, and nothing of it is changed.
func TestCorruptedData(t *testing.T) {
	home := t.TempDir()
	m, err := harness.Up(deadline(t, time.Minute), home, "--tier", "plain")
	if err != nil {
		t.Fatal(err)
	}
	expect(t, m.Run(deadline(t, time.Minute), "down"), 0)
	path := filepath.Join(home, "etcd", "member", "snap", "db")
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	garbage := make([]byte, 64<<10)
	for i := range garbage {
		garbage[i] = byte(i*7 + 13)
	}
	if _, err := file.WriteAt(garbage, 0); err != nil {
		t.Fatal(err)
	}
	refusesToStart(t, home, []string{"--tier", "plain"}, filepath.Join(home, "etcd"), "backup")
	after := make([]byte, len(garbage))
	if _, err := file.ReadAt(after, 0); err != nil || string(after) != string(garbage) {
		t.Errorf("the file was changed: %v", err)
	}
}

// TestDeletingWhileItStarts deletes a gang of 50 at four random moments of its start, or at
// ten.
func TestDeletingWhileItStarts(t *testing.T) {
	inTiers(t, costly(isolatedTier), func(t *testing.T, m *harness.Muster) {
		ns, ctx, seconds := m.Namespace(t), deadline(t, 2*time.Minute), mark()
		rounds := 4
		if long {
			rounds = 10
		}
		for round := range rounds {
			name := fmt.Sprintf("short-%d", round)
			submit(t, m, ns, name, append([]string{"--workers", "46", "--ps", "4", "--cpus", "1m", "--memory", "1Mi", "--"}, "sleep", seconds)...)
			moment := time.Duration(rand.IntN(1200)) * time.Millisecond
			<-time.After(moment)
			expect(t, m.Run(ctx, "-n", ns, "delete", name), 0)
			if left := running(m, "sleep "+seconds); len(left) > 0 {
				t.Fatalf("deleted after %s: %d processes are left: %s", moment, len(left), left[0])
			}
		}
		harness.Eventually(t, 15*time.Second, "waiting until no object is left", func() error {
			if left := objectsLeft(ctx, m, ns); len(left) > 0 {
				return fmt.Errorf("left: %v", left)
			}
			return nil
		})
		expect(t, m.Run(ctx, "-n", ns, "run", "--code", "none", "--gpus", "A100:4", "--", "true"), 0)
	})
}

// TestManySubmits creates 100 jobs at once, or 1,000: all succeed, and are deleted.
func TestManySubmits(t *testing.T) {
	jobs := 100
	if long {
		jobs = 1000
	}
	m := own(t, "--tier", "plain")
	ctx := deadline(t, 10*time.Minute)
	start := time.Now()
	var group sync.WaitGroup
	for i := range jobs {
		group.Go(func() {
			if err := m.Client.Create(ctx, tiny(fmt.Sprintf("n%d", i))); err != nil {
				t.Errorf("submitting job %d: %v", i, err)
			}
		})
	}
	group.Wait()
	t.Logf("%d submitted in %s", jobs, time.Since(start))
	for deadline := start.Add(6 * time.Minute); ; <-time.After(500 * time.Millisecond) {
		var list v1alpha1.TrainingJobList
		if err := m.Client.List(ctx, &list, client.InNamespace("default")); err != nil {
			t.Fatal(err)
		}
		phases := map[v1alpha1.JobPhase]int{}
		for _, j := range list.Items {
			phases[j.Status.Phase]++
		}
		if phases[v1alpha1.JobSucceeded] == jobs {
			break
		}
		if time.Now().After(deadline) || phases[v1alpha1.JobFailed] > 0 {
			t.Fatalf("after %s the jobs are %v", time.Since(start), phases)
		}
	}
	t.Logf("all succeeded after %s", time.Since(start))
	expect(t, m.Run(ctx, "delete", "--all"), 0)
	t.Logf("all deleted after %s", time.Since(start))
}

// tiny is a job of one member that ends at once.
func tiny(name string) *v1alpha1.TrainingJob {
	none := resource.MustParse("1Mi")
	return &v1alpha1.TrainingJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: v1alpha1.TrainingJobSpec{Roles: []v1alpha1.Role{{
			Name: "worker", Command: []string{"true"},
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("1m"), corev1.ResourceMemory: none,
			}},
		}}},
	}
}

// slow is a requirements file whose one package is served only once release
// exists.
func slow(t testing.TB, release string) (requirements string) {
	t.Helper()
	wheel := harness.Wheel(t, "slowly", "1", "WORD = 'built at last'\n")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for tick := time.NewTicker(50 * time.Millisecond); ; {
			if _, err := os.Stat(release); err == nil {
				_, _ = w.Write(wheel)
				return
			}
			select {
			case <-tick.C:
			case <-r.Context().Done():
				return
			}
		}
	}))
	t.Cleanup(server.Close)
	requirements = filepath.Join(t.TempDir(), "requirements.txt")
	text := "slowly @ " + server.URL + "/slowly-1-py3-none-any.whl\n"
	if err := os.WriteFile(requirements, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return requirements
}

// TestBuildingHoldsNoGPUAndSurvivesAKill kills Muster while it builds a job's
// environment. Another job has the GPUs meanwhile; the build goes on after.
func TestBuildingHoldsNoGPUAndSurvivesAKill(t *testing.T) {
	m := own(t, "--tier", "plain", "--simulate-gpus", "4xA100")
	ctx := deadline(t, 2*time.Minute)
	release := filepath.Join(t.TempDir(), "release")
	t.Cleanup(func() { _ = os.WriteFile(release, nil, 0o644) })
	submit(t, m, "default", "built", "--gpus", "4", "--requirements", slow(t, release), "--", "python", "-c", "import slowly; print(slowly.WORD)")
	waitPhase(t, m, "default", "built", v1alpha1.JobPreparing)
	expect(t, m.Run(ctx, "run", "--code", "none", "--gpus", "4", "--", "true"), 0)
	if j := job(t, m, "default", "built"); j.Status.Phase != v1alpha1.JobPreparing {
		t.Fatalf("the job is %s: %s; want it still Preparing", j.Status.Phase, j.Status.Message)
	}
	m.Kill9(t)
	m.Args = nil // the machine is that of the last start: it has the four GPUs that the job needs
	if err := m.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(release, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	waitPhase(t, m, "default", "built", v1alpha1.JobSucceeded)
	expect(t, m.Run(ctx, "logs", "built"), 0, "built at last")
}

// TestTwoMustersOnOneMachine run jobs on pretend GPUs at the same time.
func TestTwoMustersOnOneMachine(t *testing.T) {
	a := own(t, "--tier", "isolated", "--simulate-gpus", "2xA100")
	b := own(t, "--tier", "isolated", "--simulate-gpus", "2xA100")
	seconds := mark()
	for _, m := range []*harness.Muster{a, b} {
		submit(t, m, "default", "holds", "--gpus", "2", "--", "sleep", seconds)
	}
	for _, m := range []*harness.Muster{a, b} {
		waitPhase(t, m, "default", "holds", v1alpha1.JobRunning)
		if n := len(running(m, "sleep "+seconds)); n != 1 {
			t.Errorf("%d processes in %s, want 1", n, m.Home)
		}
	}
	expect(t, a.Run(deadline(t, time.Minute), "delete", "holds"), 0)
	if n := len(running(b, "sleep "+seconds)); n != 1 {
		t.Errorf("%d processes of the other Muster are left, want 1", n)
	}
	expect(t, b.Run(deadline(t, time.Minute), "delete", "holds"), 0)
}

// TestFewerGPUsThanAreHeld comes back with one GPU where four are held: what
// runs goes on, nothing is given twice, and a job that fits nowhere waits.
func TestFewerGPUsThanAreHeld(t *testing.T) {
	m := own(t, "--tier", "plain", "--simulate-gpus", "4xA100")
	ctx, seconds := deadline(t, 2*time.Minute), mark()
	submit(t, m, "default", "holds", "--gpus", "4", "--", "sleep", seconds)
	waitPhase(t, m, "default", "holds", v1alpha1.JobRunning)
	expect(t, m.Run(ctx, "down"), 0)
	m.Args = []string{"--tier", "plain", "--simulate-gpus", "1xA100"}
	if err := m.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if n := len(running(m, "sleep "+seconds)); n != 1 {
		t.Fatalf("%d processes run, want the one that held the GPUs", n)
	}
	submit(t, m, "default", "next", "--gpus", "1", "--", "true")
	waitPhase(t, m, "default", "next", v1alpha1.JobWaiting)
	expect(t, m.Run(ctx, "why", "next"), 0, "holds")
	noDeviceTwice(t, m)
	const gone = "3 GPUs that default/holds worker-0 holds are no longer there (GPU-sim-"
	expect(t, m.Run(ctx, "status"), 0, gone)
	expect(t, m.Run(ctx, "doctor"), 0, "GPUs held", gone, "delete the job")
	if r := m.Run(ctx, "top"); strings.Count(r.Stdout, "gone ") != 3 || strings.Count(r.Stdout, "default/holds worker-0; no longer there: GPU-sim-") != 3 {
		t.Errorf("top does not name the three GPUs that are held and gone: %s", r.Stdout)
	}
	var report struct {
		Nodes []struct {
			GPUs     []json.RawMessage
			GoneGPUs []struct {
				UUID   string
				Holder struct{ Namespace, Job, Member string }
			}
		}
	}
	r := m.Run(ctx, "status", "-o", "json")
	if err := json.Unmarshal([]byte(r.Stdout), &report); err != nil || len(report.Nodes) != 1 || len(report.Nodes[0].GPUs) != 1 {
		t.Errorf("status says %s (%v), want one node with one GPU", r.Stdout, err)
	}
	if len(report.Nodes) != 1 || len(report.Nodes[0].GoneGPUs) != 3 || report.Nodes[0].GoneGPUs[0].Holder.Job != "holds" {
		t.Errorf("status -o json does not name the three GPUs that are held and gone: %s", r.Stdout)
	}
	expect(t, m.Run(ctx, "delete", "holds"), 0)
	waitPhase(t, m, "default", "next", v1alpha1.JobSucceeded)
	if r := m.Run(ctx, "status"); strings.Contains(r.Stdout, "no longer there") {
		t.Errorf("status names GPUs that nobody holds any more: %s", r.Stdout)
	}
}
