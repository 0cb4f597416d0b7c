package node

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	k8stesting "k8s.io/client-go/testing"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/node/rig"
)

// trainee is a pod with a folder for checkpoints that may report.
func trainee(name, script, checkpoints string) *podBuilder {
	return newPod(name, script).with(func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "saves", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: checkpoints}}}}
		c := &p.Spec.Containers[0]
		c.VolumeMounts = []corev1.VolumeMount{{Name: "saves", MountPath: v1alpha1.CheckpointsPath, SubPath: "job"}}
		c.Env = []corev1.EnvVar{{Name: v1alpha1.EnvRoot, Value: v1alpha1.PodRoot}, {Name: v1alpha1.EnvProgress, Value: "$(MUSTER_ROOT)/progress/report"}}
	})
}

func progressOf(p *corev1.Pod) v1alpha1.PodProgress {
	var out v1alpha1.PodProgress
	if c := condition(p, v1alpha1.ConditionPodProgress); c != nil {
		_ = json.Unmarshal([]byte(c.Message), &out)
	}
	return out
}

func hasDone(millionths int64) func(*corev1.Pod) bool {
	return func(p *corev1.Pod) bool {
		done := progressOf(p).DoneMillionths
		return done != nil && *done == millionths
	}
}

func quick(c *Config) { c.LookEvery = 50 * time.Millisecond }

// What a pod reports comes up, with words where it is nonsense, also when
// muster was away meanwhile; and what it knew is not forgotten.
func TestAPodReports(t *testing.T) {
	w := newWorld(t, quick)
	folder := t.TempDir()
	next, last := rig.NewPipe(t), rig.NewPipe(t)
	w.create(trainee("reports", `printf 0.25 > "$MUSTER_PROGRESS"; `+next.Await()+`; printf '{"done":7}' > "$MUSTER_PROGRESS"; `+last.Await()+`; printf '0.75 saved' > "$MUSTER_PROGRESS"`, folder))
	w.await("reports", "say that a quarter is done", hasDone(250000))
	next.Open()
	pod := w.await("reports", "say that it says nonsense", func(p *corev1.Pod) bool { return progressOf(p).Problem != "" })
	if c := condition(pod, v1alpha1.ConditionPodProgress); c.Status != corev1.ConditionFalse || !strings.Contains(progressOf(pod).Problem, "7 is not from 0 to 1") || !hasDone(250000)(pod) {
		t.Errorf("got %+v", c)
	}
	w.stop()
	w.start()
	last.Open()
	pod = w.await("reports", "end", func(p *corev1.Pod) bool { return ended(p) && hasDone(750000)(p) })
	got := progressOf(pod)
	if got.Problem != "" || !got.SaysSaved || got.SavedTime == nil || time.Since(got.SavedTime.Time) > time.Minute {
		t.Errorf("got %+v", got)
	}
}

// What is saved after SIGTERM counts, though the pod is gone at once.
func TestASaveDuringTheNoticeCounts(t *testing.T) {
	w := newWorld(t, quick)
	folder := t.TempDir()
	if err := os.MkdirAll(filepath.Join(folder, "job"), 0o755); err != nil {
		t.Fatal(err)
	}
	before := filepath.Join(folder, "job", "before.pt")
	if err := os.WriteFile(before, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(before, time.Now(), time.Now().Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	said := rig.NewPipe(t)
	w.create(trainee("notice", `trap 'echo state > "$MUSTER_ROOT/checkpoints/model.pt"; exit 1' TERM; `+said.Say("1")+`; while :; do sleep 0.05; done`, folder))
	pod := w.await("notice", "run", inPhase(corev1.PodRunning))
	said.Hear()
	if got := progressOf(pod); got.SavedTime != nil {
		t.Errorf("what an earlier attempt saved counts as its own: %+v", got)
	}
	begin := time.Now()
	w.terminate("notice", 10)
	w.awaitGone("notice")
	if took := time.Since(begin); took > 3*time.Second {
		t.Errorf("it was gone after %v", took)
	}
	var told []string
	for _, a := range w.client.Actions() {
		if p, ok := a.(k8stesting.PatchAction); ok && strings.Contains(string(p.GetPatch()), `savedTime`) {
			told = append(told, string(p.GetPatch()))
		}
	}
	if len(told) == 0 {
		t.Error("nobody was told that it saved")
	}
	if _, err := os.Stat(filepath.Join(folder, "job", "model.pt")); err != nil {
		t.Error(err)
	}
}

// TestSavesOfOwners: the folder of checkpoints of a user is looked at as the user, who alone may read it.
func TestSavesOfOwners(t *testing.T) {
	share := several(t)
	w := newWorld(t, func(c *Config) { share(c); quick(c) })
	folder := rig.Folder(t, ada, ada+1, 0o700)
	// Files from before the first look count as those of an earlier attempt, so the program saves several times.
	pod := w.create(trainee("saves", `i=0; while [ $i -lt 20 ]; do i=$((i+1)); echo $i > "$MUSTER_ROOT/checkpoints/model.pt"; sleep 0.1; done`, folder).by(ada))
	pod = w.awaitIn(pod.Namespace, "saves", "end, and have saved", func(p *corev1.Pod) bool { return ended(p) && progressOf(p).SavedTime != nil })
	if got := progressOf(pod); got.SaysSaved || time.Since(got.SavedTime.Time) > time.Minute {
		t.Errorf("%+v", got)
	}
}
