//go:build e2e

package benchmarks

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/controlplane"
	"github.com/muster-dev/muster/internal/environment/source"
	"github.com/muster-dev/muster/test/e2e/harness"
)

// samples is how often each figure is measured.
const samples = 5

// TestBenchUp compares `muster up`, to ready, with a bare kube-apiserver and
// etcd of the same build, in turn. The first start of a data folder makes
// keys and objects; it is left out on both sides.
func TestBenchUp(t *testing.T) {
	ctx := t.Context()
	home, bareHome := t.TempDir(), t.TempDir()
	var muster, bare, ratio, readyz, memory []float64
	for i := range samples + 1 {
		start := time.Now()
		plane, err := controlplane.Start(ctx, controlplane.Options{DataDir: bareHome, Bare: true, Executable: []string{harness.Binary(), "control-plane"}})
		if err != nil {
			t.Fatal(err)
		}
		b := time.Since(start).Seconds()
		if err := plane.Stop(ctx); err != nil {
			t.Fatal(err)
		}
		start = time.Now()
		m, err := harness.Up(ctx, home, "--tier", "plain", "--simulate-gpus", "8xA100")
		if err != nil {
			t.Fatal(err)
		}
		a := time.Since(start).Seconds()
		harness.Eventually(t, 20*time.Second, "waiting for every start-up hook of the API server", func() error { return m.Readyz(ctx) })
		full := time.Since(start).Seconds()
		if i > 0 {
			bare, muster, ratio, readyz = append(bare, b), append(muster, a), append(ratio, a/b), append(readyz, full/b)
			settle := time.NewTimer(3 * time.Second)
			<-settle.C // idle: let what the start set in motion end
			memory = append(memory, m.ResidentMB())
		}
		if err := m.Down(ctx); err != nil {
			t.Fatal(err)
		}
	}
	report(t, row{what: "muster up to ready", samples: muster, unit: "s", target: "-", limit: 1e9, note: fmt.Sprintf("bare kube-apiserver + etcd: %.2f s", median(bare))})
	report(t, row{what: "ratio to bare kube-apiserver + etcd", samples: ratio, target: "<= 1.3", limit: 1.3, note: "pods can be placed; bare waits for the whole /readyz"})
	report(t, row{what: "the same, both to the whole /readyz", samples: readyz, target: "<= 1.3", limit: 1.3})
	report(t, row{what: "resident memory, idle, all processes", samples: memory, unit: "MB", target: "<= 450 MB", limit: 450, note: "the shared binary counted once"})
}

// start starts a Muster for one benchmark.
func start(t *testing.T, args ...string) *harness.Muster {
	t.Helper()
	m, err := harness.Up(t.Context(), t.TempDir(), args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		if err := m.Down(ctx); err != nil {
			t.Error(err)
		}
	})
	return m
}

// stamped is a job whose members write the time of their start, in nanoseconds,
// into a folder of this machine.
func stamped(name, dir string, workers, ps int32, gpus string) *v1alpha1.TrainingJob {
	command := []string{"sh", "-c", `date +%s%N > ` + dir + `/$ROLE-$INDEX.start; while [ ! -e ` + dir + `/end ]; do sleep 0.05; done; date +%s%N > ` + dir + `/$ROLE-$INDEX.end`}
	job := &v1alpha1.TrainingJob{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
	job.Spec.Framework = v1alpha1.FrameworkTensorFlow
	add := func(role string, n int32, gpus string) {
		r := v1alpha1.Role{Name: role, Replicas: &n, Command: command}
		r.Resources.Requests = quantities("cpu", "1m", "memory", "1Mi")
		if gpus != "" {
			q := quantity(gpus)
			r.GPUs = &q
		}
		if n > 0 {
			job.Spec.Roles = append(job.Spec.Roles, r)
		}
	}
	add("worker", workers, gpus)
	add("ps", ps, "")
	return job
}

// lastStart waits until n members have started and returns when the last did.
func lastStart(t *testing.T, dir string, n int) time.Time {
	t.Helper()
	var last int64
	harness.Eventually(t, time.Minute, fmt.Sprintf("waiting for %d members", n), func() error {
		files, _ := filepath.Glob(dir + "/*.start")
		if len(files) < n {
			return fmt.Errorf("%d have started", len(files))
		}
		last = 0
		for _, file := range files {
			at, err := stamp(file)
			if err != nil {
				return err
			}
			last = max(last, at)
		}
		return nil
	})
	return time.Unix(0, last)
}

func stamp(file string) (int64, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
}

// gangStart measures submit to last process started.
func gangStart(t *testing.T, m *harness.Muster, n int, workers, ps int32, gpus string) (took []float64) {
	t.Helper()
	for i := range n + 1 {
		dir := t.TempDir()
		job := stamped(fmt.Sprintf("g%d", i), dir, workers, ps, gpus)
		begin := time.Now()
		if err := m.Client.Create(t.Context(), job); err != nil {
			t.Fatal(err)
		}
		last := lastStart(t, dir, int(workers+ps))
		if i > 0 {
			took = append(took, float64(last.Sub(begin).Microseconds())/1000)
		}
		if err := os.WriteFile(dir+"/end", nil, 0o644); err != nil {
			t.Fatal(err)
		}
		finished(t, m, job)
		if err := m.Client.Delete(t.Context(), job, client.PropagationPolicy(metav1.DeletePropagationForeground)); err != nil {
			t.Fatal(err)
		}
		harness.Eventually(t, time.Minute, "waiting until the job is deleted", func() error {
			if err := m.Client.Get(t.Context(), client.ObjectKeyFromObject(job), job); client.IgnoreNotFound(err) != nil {
				return err
			} else if err == nil {
				return fmt.Errorf("%s is still there", job.Name)
			}
			return nil
		})
	}
	return took
}

func finished(t *testing.T, m *harness.Muster, job *v1alpha1.TrainingJob) {
	t.Helper()
	harness.Eventually(t, time.Minute, "waiting for the job's end", func() error {
		if err := m.Client.Get(t.Context(), client.ObjectKeyFromObject(job), job); err != nil {
			return err
		}
		if job.Status.Phase != v1alpha1.JobSucceeded {
			return fmt.Errorf("%s: %s", job.Status.Phase, job.Status.Message)
		}
		return nil
	})
}

func TestBenchGangStart(t *testing.T) {
	for _, tier := range []string{"plain", "isolated"} {
		m := start(t, "--tier", tier, "--simulate-gpus", "8xA100")
		report(t, row{what: "5-member job, submit to last process, " + tier, samples: gangStart(t, m, 2*samples, 3, 2, "1"), unit: "ms", target: "<= 300 ms", limit: 300})
		if tier == "plain" {
			report(t, row{what: "100-member gang, the same, " + tier, samples: gangStart(t, m, samples, 100, 0, ""), unit: "ms", target: "<= 2000 ms", limit: 2000})
		}
	}
}

// TestBenchGPUFree measures from the end of the process that holds the only
// GPU to the news of the Placement that gives it to the job that waits: an
// upper bound of "placeable again", the plan and its write included.
func TestBenchGPUFree(t *testing.T) {
	m := start(t, "--tier", "plain", "--simulate-gpus", "1xA100")
	watch, err := m.Client.Watch(t.Context(), &v1alpha1.PlacementList{})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	placed := make(chan time.Time, 64)
	go func() {
		defer close(placed)
		for event := range watch.ResultChan() {
			if event.Type == "ADDED" {
				placed <- time.Now()
			}
		}
	}()
	var took, begun []float64
	for i := range 50 {
		first, second := t.TempDir(), t.TempDir()
		a, b := stamped(fmt.Sprintf("a%d", i), first, 1, 0, "1"), stamped(fmt.Sprintf("b%d", i), second, 1, 0, "1")
		if err := m.Client.Create(t.Context(), a); err != nil {
			t.Fatal(err)
		}
		<-placed
		lastStart(t, first, 1)
		if err := m.Client.Create(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		harness.Eventually(t, time.Minute, "waiting until the second job waits", func() error {
			if err := m.Client.Get(t.Context(), client.ObjectKeyFromObject(b), b); err != nil {
				return err
			}
			if b.Status.Phase != v1alpha1.JobWaiting {
				return fmt.Errorf("%s", b.Status.Phase)
			}
			return nil
		})
		if err := os.WriteFile(first+"/end", nil, 0o644); err != nil {
			t.Fatal(err)
		}
		given, started := <-placed, lastStart(t, second, 1)
		ended, err := stamp(first + "/worker-0.end")
		if err != nil {
			t.Fatal(err)
		}
		took = append(took, float64(given.Sub(time.Unix(0, ended)).Microseconds())/1000)
		begun = append(begun, float64(started.Sub(time.Unix(0, ended)).Microseconds())/1000)
		if err := os.WriteFile(second+"/end", nil, 0o644); err != nil {
			t.Fatal(err)
		}
		finished(t, m, b)
	}
	report(t, row{what: "process end to its GPU given again, p99", samples: took, unit: "ms", target: "<= 100 ms", limit: 100, figure: percentile(0.99), note: fmt.Sprintf("median %.3g ms; plan and write included", sortedMedian(took))})
	report(t, row{what: "process end to the next process on its GPU", samples: begun, unit: "ms", target: "-", limit: 1e9})
}

// TestBenchParameterServersGone measures, in /proc, from the last worker's end
// to the last process of the job gone.
func TestBenchParameterServersGone(t *testing.T) {
	m := start(t, "--tier", "plain", "--simulate-gpus", "8xA100")
	var took []float64
	for i := range 2 * samples {
		dir := t.TempDir()
		job := stamped(fmt.Sprintf("p%d", i), dir, 3, 2, "1")
		job.Spec.Roles[1].Command = []string{"sh", "-c", "date +%s%N > " + dir + "/$ROLE-$INDEX.start; exec sleep 1000"}
		if err := m.Client.Create(t.Context(), job); err != nil {
			t.Fatal(err)
		}
		lastStart(t, dir, 5)
		if err := os.WriteFile(dir+"/end", nil, 0o644); err != nil {
			t.Fatal(err)
		}
		var gone time.Time
		harness.Eventually(t, time.Minute, "waiting until nothing is left", func() error {
			if left := harness.Processes(m.Home); len(left) > 0 {
				return fmt.Errorf("%s", left[0])
			}
			gone = time.Now()
			return nil
		})
		var last int64
		for worker := range 3 {
			at, err := stamp(fmt.Sprintf("%s/worker-%d.end", dir, worker))
			if err != nil {
				t.Fatal(err)
			}
			last = max(last, at)
		}
		took = append(took, float64(gone.Sub(time.Unix(0, last)).Microseconds())/1000)
	}
	report(t, row{what: "last worker's end to parameter servers gone", samples: took, unit: "ms", target: "<= 1000 ms", limit: 1000, note: "seen in /proc, read every 20 ms"})
}

// TestBenchSnapshot stores an unchanged folder of 1,000 files again.
func TestBenchSnapshot(t *testing.T) {
	dir, home := t.TempDir(), t.TempDir()
	for i := range 1000 {
		path := filepath.Join(dir, fmt.Sprintf("d%d", i%20), fmt.Sprintf("f%d.py", i))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(strings.Repeat(fmt.Sprintf("print(%d)\n", i), 100)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var took []float64
	for i := range 2*samples + 1 {
		begin := time.Now()
		store, err := source.Open(home)
		if err != nil {
			t.Fatal(err)
		}
		result, err := store.Snapshot(t.Context(), dir, source.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			// Files as young as the index are read again; let them age.
			age := time.NewTimer(3 * time.Second)
			<-age.C
			continue
		}
		if result.StoredBytes != 0 && i > 1 {
			t.Errorf("%d bytes were stored of an unchanged folder", result.StoredBytes)
		}
		took = append(took, float64(time.Since(begin).Microseconds())/1000)
	}
	report(t, row{what: "snapshot of 1,000 unchanged files", samples: took, unit: "ms", target: "<= 50 ms, 0 bytes stored", limit: 50})
}

// TestBenchAdoption kills Muster with 20 jobs running and starts it again.
func TestBenchAdoption(t *testing.T) {
	const jobs = 20
	m := start(t, "--tier", "plain", "--simulate-gpus", "8xA100")
	dir := t.TempDir()
	for i := range jobs {
		job := stamped(fmt.Sprintf("k%d", i), dir, 1, 0, "")
		job.Spec.Roles[0].Command = []string{"sh", "-c", fmt.Sprintf("date +%%s%%N > %s/%d.start; exec sleep 1000", dir, i)}
		if err := m.Client.Create(t.Context(), job); err != nil {
			t.Fatal(err)
		}
	}
	lastStart(t, dir, jobs)
	before := len(harness.Processes(m.Home))
	var took []float64
	for range samples {
		m.Kill9(t)
		begin := time.Now()
		if err := m.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		harness.Eventually(t, 20*time.Second, "waiting until all are adopted", func() error {
			var list v1alpha1.TrainingJobList
			if err := m.Client.List(t.Context(), &list); err != nil {
				return err
			}
			for _, job := range list.Items {
				if job.Status.Phase != v1alpha1.JobRunning || job.Status.Restarts != 0 {
					return fmt.Errorf("%s is %s with %d restarts", job.Name, job.Status.Phase, job.Status.Restarts)
				}
			}
			return nil
		})
		took = append(took, time.Since(begin).Seconds())
		if after := len(harness.Processes(m.Home)); after != before {
			t.Errorf("%d processes before, %d after", before, after)
		}
	}
	report(t, row{what: "kill -9 with 20 jobs, start to all adopted", samples: took, unit: "s", target: "<= 5 s, 0 lost, 0 restarted", limit: 5, note: "includes the start of Muster"})
}
