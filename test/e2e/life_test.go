//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/test/e2e/harness"
)

// submit runs a job in the background: flags, "--", and its command.
func submit(t testing.TB, m *harness.Muster, ns, name string, args ...string) {
	t.Helper()
	args = append([]string{"-n", ns, "run", "--name", name, "--code", "none", "--detach"}, args...)
	expect(t, m.Run(deadline(t, 30*time.Second), args...), 0)
}

// running returns the containers' processes whose command line has the words.
func running(m *harness.Muster, words string) (found []harness.Process) {
	for _, p := range harness.Processes(m.Home) {
		if !p.Shim && strings.Contains(p.Command, words) {
			found = append(found, p)
		}
	}
	return found
}

// waitGone waits until /proc has no process with the words.
func waitGone(t testing.TB, m *harness.Muster, timeout time.Duration, words string) {
	t.Helper()
	harness.Eventually(t, timeout, "waiting until "+words+" is gone", func() error {
		if left := running(m, words); len(left) > 0 {
			return fmt.Errorf("%d are left: %s", len(left), left[0])
		}
		return nil
	})
}

// waitFile waits for a file and returns what is in it.
func waitFile(t testing.TB, path string) string {
	t.Helper()
	var data []byte
	harness.Eventually(t, 20*time.Second, "waiting for "+path, func() (err error) {
		if data, err = os.ReadFile(path); err == nil && len(data) == 0 {
			err = fmt.Errorf("%s is empty", path)
		}
		return err
	})
	return string(data)
}

// mark is a number of seconds to sleep that no other process sleeps.
func mark() string { return fmt.Sprintf("86%09d", time.Now().UnixNano()%1e9) }

// TestSuspendFreesAndResumeGoesOn suspends a job that holds every A100, has
// another run on them, and resumes it: the file that it had saved is there.
func TestSuspendFreesAndResumeGoesOn(t *testing.T) {
	eachTier(t, func(t *testing.T, m *harness.Muster) {
		ns, ctx, seconds := m.Namespace(t), deadline(t, 90*time.Second), mark()
		saved := filepath.Join(t.TempDir(), "saved")
		script := `n=$(cat "$MUSTER_CHECKPOINT_DIR/step" 2>/dev/null || echo 0); echo $((n+1)) > "$MUSTER_CHECKPOINT_DIR/step"; echo "run $((n+1))" >> ` + saved + `; exec sleep ` + seconds
		submit(t, m, ns, "pause", "--gpus", "A100:4", "--", "sh", "-c", script)
		waitPhase(t, m, ns, "pause", v1alpha1.JobRunning)
		waitFile(t, saved)
		expect(t, m.Run(ctx, "-n", ns, "suspend", "pause"), 0)
		if left := running(m, seconds); len(left) > 0 {
			t.Errorf("suspend returned while %s is running", left[0])
		}
		waitPhase(t, m, ns, "pause", v1alpha1.JobSuspended)
		expect(t, m.Run(ctx, "-n", ns, "run", "--code", "none", "--gpus", "A100:4", "--", "true"), 0)
		expect(t, m.Run(ctx, "-n", ns, "resume", "pause"), 0)
		waitPhase(t, m, ns, "pause", v1alpha1.JobRunning)
		harness.Eventually(t, 20*time.Second, "waiting for the second run", func() error {
			if got := waitFile(t, saved); got != "run 1\nrun 2\n" {
				return fmt.Errorf("the job wrote %q, want run 1 and run 2", got)
			}
			return nil
		})
		expect(t, m.Run(ctx, "-n", ns, "delete", "pause"), 0)
		waitGone(t, m, time.Second, seconds)
	})
}

func TestMaxTimeEndsTheJob(t *testing.T) {
	eachTier(t, func(t *testing.T, m *harness.Muster) {
		ns, ctx, seconds := m.Namespace(t), deadline(t, 60*time.Second), mark()
		r := m.Run(ctx, "-n", ns, "run", "--name", "late", "--code", "none", "--max-time", "3s", "--", "sleep", seconds)
		expect(t, r, 124, "3s")
		if r.Took < 3*time.Second || r.Took > 20*time.Second {
			t.Errorf("it took %s, want little more than 3s", r.Took)
		}
		t.Logf("it took %s", r.Took)
		waitGone(t, m, time.Second, seconds)
		waitPhase(t, m, ns, "late", v1alpha1.JobFailed)
		expect(t, m.Run(ctx, "-n", ns, "logs", "-f", "late"), 124)
	})
}

// TestTimeToLiveLeavesNothing has a finished job deleted by its time to live:
// pods, claims and their folders, and archived logs go with it.
func TestTimeToLiveLeavesNothing(t *testing.T) {
	m := isolated(t)
	ns, ctx := m.Namespace(t), deadline(t, 60*time.Second)
	expect(t, m.Kubectl(ctx, `{apiVersion: muster.dev/v1alpha1, kind: TrainingJob, metadata: {name: brief}, spec: {
		ttlSecondsAfterFinished: 2, volumes: [{name: data, size: 1Gi, mountPath: /data}],
		roles: [{name: worker, command: [sh, -c, "echo kept > /data/a; echo kept > $MUSTER_CHECKPOINT_DIR/b"]}]}}`, "apply", "-n", ns, "-f", "-"), 0)
	uid := string(waitPhase(t, m, ns, "brief", v1alpha1.JobSucceeded).UID)
	folders := filepath.Join(m.Home, "volumes", ns, "brief-*")
	if found, _ := filepath.Glob(folders); len(found) != 2 {
		t.Errorf("the claims' folders are %v, want two", found)
	}
	harness.Eventually(t, 30*time.Second, "waiting until nothing is left", func() error {
		err := m.Client.Get(ctx, client.ObjectKey{Namespace: ns, Name: "brief"}, &v1alpha1.TrainingJob{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("the job is there: %w", errors.Join(err, errors.New("want it not found")))
		}
		if left := objectsLeft(ctx, m, ns); len(left) > 0 {
			return fmt.Errorf("left: %v", left)
		}
		found, _ := filepath.Glob(folders)
		archived, _ := filepath.Glob(filepath.Join(m.Home, "archive", ns, uid, "*"))
		if found = append(found, archived...); len(found) > 0 {
			return fmt.Errorf("left: %v", found)
		}
		return nil
	})
}

// objectsLeft names what jobs leave in a namespace if they are not cleaned up.
func objectsLeft(ctx context.Context, m *harness.Muster, ns string) (left []string) {
	for _, list := range []client.ObjectList{&corev1.PodList{}, &v1alpha1.GangList{}, &v1alpha1.PlacementList{}, &corev1.PersistentVolumeClaimList{}, &corev1.ServiceList{}} {
		if err := m.Client.List(ctx, list, client.InNamespace(ns)); err != nil {
			return []string{err.Error()}
		}
		left = append(left, names(list)...)
	}
	return left
}

func names(list client.ObjectList) (all []string) {
	switch l := list.(type) {
	case *corev1.PodList:
		for _, o := range l.Items {
			all = append(all, "pod "+o.Name)
		}
	case *v1alpha1.GangList:
		for _, o := range l.Items {
			all = append(all, "gang "+o.Name)
		}
	case *v1alpha1.PlacementList:
		for _, o := range l.Items {
			all = append(all, "placement "+o.Name)
		}
	case *corev1.PersistentVolumeClaimList:
		for _, o := range l.Items {
			all = append(all, "claim "+o.Name)
		}
	case *corev1.ServiceList:
		for _, o := range l.Items {
			all = append(all, "service "+o.Name)
		}
	}
	return all
}

// meet is a command of two workers: the first writes a file into the folder
// given, the second waits for it and prints it.
func meet(folder string) []string {
	return []string{"--workers", "2", "--framework", "none", "--", "sh", "-c", `case "$INDEX" in 0) echo "from worker 0" > ` + folder + `/new; mv ` + folder + `/new ` + folder + `/word;; 1) while ! cat ` + folder + `/word 2>/dev/null; do sleep 0.05; done;; esac`}
}

func TestMembersShareAVolume(t *testing.T) {
	eachTier(t, func(t *testing.T, m *harness.Muster) {
		ns, ctx := m.Namespace(t), deadline(t, 60*time.Second)
		r := m.Run(ctx, append([]string{"-n", ns, "run", "--code", "none", "--volume", "1Gi:data"}, meet("data")...)...)
		expect(t, r, 0, "from worker 0")
		r = m.RunIn(ctx, folder(t, map[string]string{"code.txt": "the code\n"}), append([]string{"-n", ns, "run", "--volume", "1Gi:data"}, meet("data")...)...)
		expect(t, r, 0, "from worker 0")
		absolute := append([]string{"-n", ns, "run", "--code", "none", "--volume", "1Gi:/data"}, meet("/data")...)
		if m == plainTier.muster {
			expect(t, m.Run(ctx, absolute...), 1, "/data", "relative to the working directory")
			return
		}
		expect(t, m.Run(ctx, absolute...), 0, "from worker 0")
	})
}

// TestAClaimOutlivesJobs writes into a claim by one job and reads it by another.
func TestAClaimOutlivesJobs(t *testing.T) {
	eachTier(t, func(t *testing.T, m *harness.Muster) {
		ns, ctx := m.Namespace(t), deadline(t, 60*time.Second)
		expect(t, m.Kubectl(ctx, `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: mine}, spec: {accessModes: [ReadWriteMany], resources: {requests: {storage: 1Gi}}}}`, "apply", "-n", ns, "-f", "-"), 0)
		run := func(command string, flags ...string) harness.Result {
			args := append([]string{"-n", ns, "run", "--code", "none"}, flags...)
			return m.Run(ctx, append(args, "--", "sh", "-c", command)...)
		}
		expect(t, run("echo dataset > data/a", "--name", "first", "--volume", "mine:data"), 0)
		expect(t, m.Run(ctx, "-n", ns, "delete", "first"), 0)
		expect(t, run("cat data/a", "--name", "second", "--volume", "mine:data"), 0, "dataset")
		expect(t, run("echo step-7 > $MUSTER_CHECKPOINT_DIR/model", "--name", "third", "--checkpoints", "mine"), 0)
		expect(t, m.Run(ctx, "-n", ns, "delete", "third"), 0)
		expect(t, run("cat $MUSTER_CHECKPOINT_DIR/model", "--name", "fourth", "--checkpoints", "mine"), 0, "step-7")
	})
}

func TestAVolumeForReadingCannotBeWritten(t *testing.T) {
	m := isolated(t)
	ns, ctx := m.Namespace(t), deadline(t, 60*time.Second)
	r := m.Run(ctx, "-n", ns, "run", "--code", "none", "--volume", "1Gi:/data:ro", "--", "sh", "-c", "echo a > /data/a && exit 9; exit 0")
	expect(t, r, 0, "ead-only")
}

// TestAWorkersGPUsAreFreeWhenItExits has one of two workers end early: another
// job runs on its GPUs while the first is still running.
func TestAWorkersGPUsAreFreeWhenItExits(t *testing.T) {
	eachTier(t, func(t *testing.T, m *harness.Muster) {
		ns, ctx, seconds := m.Namespace(t), deadline(t, 60*time.Second), mark()
		release := filepath.Join(t.TempDir(), "release")
		submit(t, m, ns, "pair", "--workers", "2", "--gpus", "A100:2", "--", "sh", "-c",
			`[ "$INDEX" = 1 ] && exec sleep `+seconds+`; while [ ! -e `+release+` ]; do sleep 0.05; done`)
		waitPhase(t, m, ns, "pair", v1alpha1.JobRunning)
		submit(t, m, ns, "next", "--gpus", "A100:2", "--", "sh", "-c", "exec sleep "+seconds)
		waitPhase(t, m, ns, "next", v1alpha1.JobWaiting)
		if err := os.WriteFile(release, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		waitPhase(t, m, ns, "next", v1alpha1.JobRunning)
		if j := job(t, m, ns, "pair"); j.Status.Phase != v1alpha1.JobRunning {
			t.Errorf("pair is %s, want it still Running", j.Status.Phase)
		}
		if n := len(running(m, seconds)); n != 2 {
			t.Errorf("%d members are running, want worker 1 of pair and next", n)
		}
		noDeviceTwice(t, m)
		expect(t, m.Run(ctx, "-n", ns, "delete", "pair", "next"), 0)
		waitGone(t, m, time.Second, seconds)
	})
}

// TestTheChiefDecides ends the chief: workers and parameter servers that would
// go on for ever are stopped, and the job has succeeded.
func TestTheChiefDecides(t *testing.T) {
	eachTier(t, func(t *testing.T, m *harness.Muster) {
		ns, seconds := m.Namespace(t), mark()
		release := filepath.Join(t.TempDir(), "release")
		submit(t, m, ns, "led", "--chief", "--workers", "2", "--ps", "2", "--evaluator", "--", "sh", "-c",
			`[ "$ROLE" = chief ] || exec sleep `+seconds+`; while [ ! -e `+release+` ]; do sleep 0.05; done`)
		waitPhase(t, m, ns, "led", v1alpha1.JobRunning)
		if err := os.WriteFile(release, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		waitPhase(t, m, ns, "led", v1alpha1.JobSucceeded)
		waitGone(t, m, time.Second, seconds)
	})
}

// TestParameterServersAreGoneWithinASecond measures from /proc: from the last
// worker's process gone to the last parameter server's gone.
func TestParameterServersAreGoneWithinASecond(t *testing.T) {
	eachTier(t, func(t *testing.T, m *harness.Muster) {
		ns, worker, server := m.Namespace(t), "worker-"+mark(), mark()
		release := filepath.Join(t.TempDir(), "release")
		submit(t, m, ns, "classic", "--workers", "3", "--ps", "2", "--", "sh", "-c",
			`[ "$ROLE" = ps ] && exec sleep `+server+`; : `+worker+`; while [ ! -e `+release+` ]; do sleep 0.05; done`)
		waitPhase(t, m, ns, "classic", v1alpha1.JobRunning)
		if n := len(running(m, server)); n < 2 {
			t.Fatalf("%d parameter servers, want 2", n)
		}
		if err := os.WriteFile(release, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		var last time.Time
		harness.Eventually(t, 20*time.Second, "waiting until the parameter servers are gone", func() error {
			// The workers' command line is of the shell that still has both words.
			workers, servers := len(running(m, worker)), len(running(m, "sleep "+server))-len(running(m, worker))
			if workers == 0 && last.IsZero() {
				last = time.Now()
			}
			if workers+servers > 0 {
				return fmt.Errorf("%d workers and %d parameter servers are running", workers, servers)
			}
			return nil
		})
		if took := time.Since(last); took > time.Second {
			t.Errorf("the parameter servers were gone %s after the last worker, want at most 1s", took)
		}
		waitPhase(t, m, ns, "classic", v1alpha1.JobSucceeded)
	})
}
