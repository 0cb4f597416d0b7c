package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	k8stesting "k8s.io/client-go/testing"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/node/process"
	"github.com/muster-dev/muster/internal/node/rig"
)

func TestPodsEnd(t *testing.T) {
	w := newWorld(t, nil)
	cases := []struct {
		name   string
		pod    *podBuilder
		phase  corev1.PodPhase
		code   int32
		reason string
	}{
		{"ok", newPod("ok", "exit 0"), corev1.PodSucceeded, 0, "Completed"},
		{"bad", newPod("bad", "exit 7"), corev1.PodFailed, 7, "Error"},
		{"missing", newPod("missing", "").with(func(p *corev1.Pod) {
			p.Spec.Containers[0].Command = []string{"/no/such/program"}
		}), corev1.PodFailed, 127, "ContainerCannotRun"},
		{"expand", newPod("expand", "").with(func(p *corev1.Pod) {
			c := &p.Spec.Containers[0]
			c.Env = []corev1.EnvVar{{Name: "A", Value: "3"}, {Name: "B", Value: "$(A)4"}}
			c.Command = []string{"/bin/sh", "-c", `test "$0" = 34 && test -d "$MUSTER_ROOT"`, "$(B)"}
		}), corev1.PodSucceeded, 0, "Completed"},
	}
	for _, c := range cases {
		w.create(c.pod)
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			pod := w.await(c.name, "end", ended)
			state := pod.Status.ContainerStatuses[0].State.Terminated
			if pod.Status.Phase != c.phase || state == nil || state.ExitCode != c.code || state.Reason != c.reason {
				t.Errorf("got %s %+v, want %s %d %s", pod.Status.Phase, state, c.phase, c.code, c.reason)
			}
			usage := condition(pod, v1alpha1.ConditionPodUsage)
			if usage == nil {
				t.Fatal("no usage condition")
			}
			var u v1alpha1.PodUsage
			if err := json.Unmarshal([]byte(usage.Message), &u); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestUnsupported(t *testing.T) {
	w := newWorld(t, withoutLimits)
	w.create(newPod("limited", "exit 0").with(func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}
	}).member())
	pod := w.await("limited", "be refused", ended)
	if pod.Status.Phase != corev1.PodFailed || pod.Status.Reason != "Unsupported" || !strings.Contains(pod.Status.Message, "spec.containers[0].resources.limits.memory") {
		t.Errorf("got %s, %s: %s", pod.Status.Phase, pod.Status.Reason, pod.Status.Message)
	}
}

func TestDeletionEndsTheTree(t *testing.T) {
	w := newWorld(t, nil)
	// A grandchild in a session of its own, all of them deaf to SIGTERM.
	parent, child := rig.NewPipe(t), rig.NewPipe(t)
	w.create(newPod("deaf", `trap "" TERM; setsid sh -c 'trap "" TERM; `+child.Say("$$$$")+`; while :; do sleep 1; done' & `+parent.Say("$$$$")+`; while :; do sleep 1; done`))
	w.await("deaf", "run", inPhase(corev1.PodRunning))
	pids := []string{parent.Hear(), child.Hear()}
	for _, pid := range pids {
		if _, err := os.Stat("/proc/" + pid); err != nil {
			t.Fatalf("process %q does not run", pid)
		}
	}
	w.terminate("deaf", 1)
	w.awaitGone("deaf")
	for _, pid := range pids {
		if _, err := os.Stat("/proc/" + pid); err == nil {
			t.Errorf("process %s still runs", pid)
		}
	}
	w.awaitRemoved("deaf")
}

func TestInitContainersAndRestart(t *testing.T) {
	w := newWorld(t, nil)
	w.create(newPod("again", `test -f "$MUSTER_ROOT/first" && exit 0; touch "$MUSTER_ROOT/first"; exit 3`).restart(corev1.RestartPolicyOnFailure).with(func(p *corev1.Pod) {
		p.Spec.InitContainers = []corev1.Container{container("one", `echo one > "$MUSTER_ROOT/order"`), container("two", `echo two >> "$MUSTER_ROOT/order"; test "$(cat "$MUSTER_ROOT/order")" = "one
two"`)}
	}))
	pod := w.await("again", "end", ended)
	main := pod.Status.ContainerStatuses[0]
	if pod.Status.Phase != corev1.PodSucceeded || main.RestartCount != 1 || main.LastTerminationState.Terminated == nil || main.LastTerminationState.Terminated.ExitCode != 3 {
		t.Errorf("got %s %+v", pod.Status.Phase, main)
	}
	for _, c := range pod.Status.InitContainerStatuses {
		if c.State.Terminated == nil || c.State.Terminated.ExitCode != 0 {
			t.Errorf("init container %s: %+v", c.Name, c.State)
		}
	}
}

func TestVolumes(t *testing.T) {
	w := newWorld(t, nil, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings", Namespace: "default"}, Data: map[string]string{"rate": "0.1", "other": "x"}})
	host := t.TempDir()
	w.create(newPod("volumes", `cd "$MUSTER_ROOT" && test "$(cat config/rate)" = 0.1 && test "$RATE" = 0.1 && test "$NAME" = volumes && echo hello > host/out && cp host/out scratch/ && test "$(cat info/labels)" = 'app="x"'`).with(func(p *corev1.Pod) {
		p.Labels = map[string]string{"app": "x"}
		p.Spec.Volumes = []corev1.Volume{
			{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}}}},
			{Name: "host", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: host}}},
			{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			{Name: "info", VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{{Path: "labels", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels"}}}}}},
		}
		c := &p.Spec.Containers[0]
		c.VolumeMounts = []corev1.VolumeMount{{Name: "config", MountPath: "/muster/config"}, {Name: "host", MountPath: "/muster/host"}, {Name: "scratch", MountPath: "/muster/scratch"}, {Name: "info", MountPath: "/muster/info"}}
		c.Env = []corev1.EnvVar{
			{Name: "RATE", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}, Key: "rate"}}},
			{Name: "NAME", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}},
		}
	}))
	if pod := w.await("volumes", "end", ended); pod.Status.Phase != corev1.PodSucceeded {
		t.Errorf("got %+v", pod.Status)
	}
	if data, err := os.ReadFile(filepath.Join(host, "out")); err != nil || string(data) != "hello\n" {
		t.Errorf("got %q, %v", data, err)
	}
}

func TestWaitsForConfigMap(t *testing.T) {
	w := newWorld(t, nil)
	w.create(newPod("waits", `test "$RATE" = 1`).with(func(p *corev1.Pod) {
		p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "RATE", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "late"}, Key: "rate"}}}}
	}))
	w.await("waits", "say what it waits for", func(p *corev1.Pod) bool {
		return len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].State.Waiting != nil &&
			p.Status.ContainerStatuses[0].State.Waiting.Reason == "CreateContainerConfigError"
	})
	begin := time.Now()
	late := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "late", Namespace: "default"}, Data: map[string]string{"rate": "1"}}
	if _, err := w.client.CoreV1().ConfigMaps("default").Create(t.Context(), late, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if pod := w.await("waits", "end", ended); pod.Status.Phase != corev1.PodSucceeded {
		t.Errorf("got %+v", pod.Status)
	}
	if took := time.Since(begin); took > time.Second {
		t.Errorf("noticed the ConfigMap after %v", took)
	}
}

func TestProbesAndHooks(t *testing.T) {
	w := newWorld(t, nil)
	w.create(newPod("ready", `trap 'exit 0' TERM; while :; do sleep 0.05; done`).with(func(p *corev1.Pod) {
		c := &p.Spec.Containers[0]
		c.Lifecycle = &corev1.Lifecycle{
			PostStart: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"/bin/sh", "-c", `touch "$MUSTER_ROOT/hooked"`}}},
			PreStop:   &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"/bin/sh", "-c", "touch " + filepath.Join(w.data, "stopping")}}},
		}
		c.ReadinessProbe = &corev1.Probe{PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"/bin/sh", "-c", `test -f "$MUSTER_ROOT/hooked"`}}}}
	}))
	w.await("ready", "be ready", func(p *corev1.Pod) bool {
		c := condition(p, corev1.PodReady)
		return c != nil && c.Status == corev1.ConditionTrue
	})
	w.terminate("ready", 10)
	w.awaitGone("ready")
	if _, err := os.Stat(filepath.Join(w.data, "stopping")); err != nil {
		t.Errorf("the preStop hook did not run: %v", err)
	}
}

func TestAdoption(t *testing.T) {
	w := newWorld(t, nil)
	const pods = 20
	var ends [pods]*rig.Pipe
	for i := range pods {
		ends[i] = rig.NewPipe(t)
		w.create(newPod(fmt.Sprintf("long-%d", i), "echo begun; "+ends[i].Await()+"; exit 5"))
	}
	started := map[string]metav1.Time{}
	for i := range pods {
		name := fmt.Sprintf("long-%d", i)
		started[name] = w.await(name, "run", inPhase(corev1.PodRunning)).Status.ContainerStatuses[0].State.Running.StartedAt
	}
	w.stop()
	// One ends while no muster runs.
	ends[0].Open()
	begin := time.Now()
	w.start()
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("adoption took %v", took)
	}
	for i := range pods {
		if i > 0 {
			ends[i].Open()
		}
		name := fmt.Sprintf("long-%d", i)
		pod := w.await(name, "end", ended)
		c := pod.Status.ContainerStatuses[0]
		if c.RestartCount != 0 || c.State.Terminated == nil || c.State.Terminated.ExitCode != 5 || c.State.Terminated.StartedAt.Unix() != started[name].Unix() {
			t.Errorf("%s: got %+v", name, c)
		}
	}
}

func TestSameNameNewPod(t *testing.T) {
	w := newWorld(t, nil)
	w.create(newPod("twin", `trap "" TERM; while :; do sleep 0.1; done`))
	w.await("twin", "run", inPhase(corev1.PodRunning))
	// Deleted by force and made again at once.
	if err := w.client.CoreV1().Pods("default").Delete(t.Context(), "twin", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.create(newPod("twin", "exit 0").with(func(p *corev1.Pod) { p.UID = "twin-2" }))
	pod := w.await("twin", "end", ended)
	if !strings.HasSuffix(string(pod.UID), "twin-2") || pod.Status.Phase != corev1.PodSucceeded {
		t.Errorf("got %s %s", pod.UID, pod.Status.Phase)
	}
	w.awaitRemoved("twin")
}

func TestStatusWrites(t *testing.T) {
	w := newWorld(t, nil)
	end := rig.NewPipe(t)
	w.create(newPod("few", end.Await()))
	w.await("few", "run", inPhase(corev1.PodRunning))
	end.Open()
	w.await("few", "end", ended)
	writes := 0
	for _, a := range w.client.Actions() {
		if p, ok := a.(k8stesting.PatchAction); ok && p.GetResource().Resource == "pods" {
			writes++
		}
	}
	if writes != 2 {
		t.Errorf("%d status writes for a pod that ran and ended, want 2", writes)
	}
}

type fakeCode struct{}

// Checkout makes a folder with one file.
func (fakeCode) Checkout(_ context.Context, _, _, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "train.py"), []byte("pass"), 0o600)
}

// TestCodeOfAnotherJob: members of a job share a writable folder, and a pod that names
// another job, of its own namespace or another, is refused before it sees that folder.
func TestCodeOfAnotherJob(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Code = fakeCode{} })
	w.createJob("default", "mnist", "mine")
	w.createJob("default", "bert", "bert-uid")
	w.createJob("ann", "mnist", "anns")
	for _, named := range []string{"bert-uid", "anns", "../pods"} {
		w.create(newPod("thief-"+named[len(named)-4:], "touch stolen").of("mnist", named))
		pod := w.await("thief-"+named[len(named)-4:], "fail", ended)
		want := fmt.Sprintf("spec.volumes[0].csi.volumeAttributes: job %q: the TrainingJob with UID mine owns this pod, so name that or leave job out", named)
		if pod.Status.Phase != corev1.PodFailed || pod.Status.Message != want {
			t.Errorf("a pod of the job mine that names %s: %s, %q; want %q", named, pod.Status.Phase, pod.Status.Message, want)
		}
	}
	if entries, err := os.ReadDir(filepath.Join(w.data, "jobs")); len(entries) > 0 || err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the jobs have folders: %v, %v", entries, err)
	}
	w.create(newPod("member", "test -f train.py").of("mnist", "mine"))
	if pod := w.await("member", "end", ended); pod.Status.Phase != corev1.PodSucceeded {
		t.Errorf("a member of the job: %+v", pod.Status)
	}
}

func TestArchive(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Code = fakeCode{} })
	w.createJob("default", "mnist", "job-uid")
	member := func(uid string) *podBuilder {
		return newPod("member", "test -f train.py && echo said "+uid).of("mnist", "job-uid").with(func(p *corev1.Pod) { p.UID = types.UID(uid) })
	}
	for _, uid := range []string{"first", "second"} {
		w.create(member(uid))
		if pod := w.await("member", "end", ended); pod.Status.Phase != corev1.PodSucceeded {
			t.Fatalf("got %+v", pod.Status)
		}
		if err := w.client.CoreV1().Pods("default").Delete(t.Context(), "member", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		w.awaitRemoved(uid)
	}
	entries, err := w.node.Archive().List("default", "job-uid")
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, e := range entries {
		said = append(said, fmt.Sprintf("%s %d: %s", e.Pod, e.Sequence, readLog(t, e.Dir)))
	}
	if diff := cmp.Diff([]string{"member 1: said first\n", "member 2: said second\n"}, said); diff != "" {
		t.Error(diff)
	}
}

func TestHundredPods(t *testing.T) {
	w := newWorld(t, nil)
	const pods = 100
	begin := time.Now()
	for i := range pods {
		w.create(newPod(fmt.Sprintf("p-%d", i), "exec sleep 60"))
	}
	for i := range pods {
		w.await(fmt.Sprintf("p-%d", i), "run", inPhase(corev1.PodRunning))
	}
	t.Logf("100 pods running after %v", time.Since(begin))
	for i := range pods {
		if err := w.client.CoreV1().Pods("default").Delete(t.Context(), fmt.Sprintf("p-%d", i), metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range pods {
		w.awaitRemoved(fmt.Sprintf("p-%d", i))
	}
}

func readLog(t *testing.T, dir string) string {
	t.Helper()
	r, err := process.OpenLogs(dir, process.LogQuery{Tail: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
