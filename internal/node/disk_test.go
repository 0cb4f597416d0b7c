package node

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/muster-dev/muster/internal/people/owner"
)

// soon waits for what the node does without a word to the API.
func soon(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick, end := time.NewTicker(10*time.Millisecond), time.After(30*time.Second)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("waited 30 s for: %s", what)
		}
	}
}

// TestFilesBeyondTheQuota: a pod that writes more than its user may have is stopped, and its files are
// removed; new pods of the user wait with the reason; pods of another user run.
func TestFilesBeyondTheQuota(t *testing.T) {
	share := several(t)
	w := newWorld(t, func(c *Config) { share(c); quick(c); c.UserDisk = 2 << 20 })
	loud := w.create(newPod("loud", `head -c 8388608 /dev/zero > "$MUSTER_ROOT/empty/file"; while :; do sleep 0.1; done`).by(ada, volumesOf("", "empty")...).with(func(p *corev1.Pod) {
		now := int64(0)
		p.Spec.TerminationGracePeriodSeconds = &now
	}))
	evicted := w.awaitIn(loud.Namespace, "loud", "be evicted", ended)
	if s := evicted.Status; s.Phase != corev1.PodFailed || s.Reason != reasonEvicted || !strings.Contains(s.Message, "the files of user61234 in Muster's folder have 8Mi, and 2Mi are allowed") {
		t.Errorf("%s %s: %s", s.Phase, s.Reason, s.Message)
	}
	home := filepath.Join(w.data, "users", "61234")
	soon(t, "the files are removed", func() bool {
		_, err := os.Lstat(filepath.Join(home, "pods", string(loud.UID)))
		return errors.Is(err, fs.ErrNotExist)
	})
	soon(t, "new pods are accepted", func() bool { return w.node.footprint.Refusal(ada) == "" })
	kept := filepath.Join(home, "kept")
	if err := errors.Join(os.WriteFile(kept, make([]byte, 4<<20), 0o600), os.Chown(kept, ada, ada+1)); err != nil {
		t.Fatal(err)
	}
	soon(t, "new pods are refused", func() bool { return w.node.footprint.Refusal(ada) != "" })
	w.create(newPod("next", "true").by(ada))
	w.awaitIn(owner.Namespace(ada), "next", "wait with the reason", func(p *corev1.Pod) bool {
		return len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].State.Waiting != nil &&
			strings.Contains(p.Status.ContainerStatuses[0].State.Waiting.Message, "and 2Mi are allowed: delete jobs and claims")
	})
	w.create(newPod("quiet", "true").by(eve))
	if done := w.awaitIn(owner.Namespace(eve), "quiet", "end", ended); done.Status.Phase != corev1.PodSucceeded {
		t.Errorf("another user: %s %s", done.Status.Reason, done.Status.Message)
	}
}

// TestGraceOnAShortDisk: a pod that fills the disk does not write on for its grace period.
func TestGraceOnAShortDisk(t *testing.T) {
	long := int64(600)
	w := &worker{pod: &corev1.Pod{Spec: corev1.PodSpec{TerminationGracePeriodSeconds: &long}}}
	if got := w.grace(); got != 10*time.Minute {
		t.Errorf("without eviction: %v", got)
	}
	w.hurried = true
	if got := w.grace(); got != hurry {
		t.Errorf("on a short disk: %v", got)
	}
}
