package node

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-dev/muster/internal/node/archive"
	"github.com/muster-dev/muster/internal/node/podrecord"
	"github.com/muster-dev/muster/internal/node/process"
)

// finish removes a deleted pod once all of its processes are gone and the API
// knows how they ended. It runs as a task, at most once at a time.
func (w *worker) finish() {
	deleting := w.gone || w.pod.DeletionTimestamp != nil
	if !w.over || !deleting || w.finishing || w.finished || w.preparing != nil || w.stillWatching() {
		return
	}
	told := w.gone || w.settled || (w.sent != nil && w.acked != nil && sameStatus(*w.sent, *w.acked))
	if !told {
		return
	}
	w.finishing = true
	gone := w.gone
	var kept []*process.Process
	for _, u := range w.units {
		kept = append(kept, u.kept...)
	}
	w.task(func() {
		w.archiveLogs(kept)
		if !gone && !w.deletePod() {
			return
		}
		w.remove()
		w.post(func() { w.finished = true })
	})
}

// disconnect gives the pod's address and temporary folders back once its last process is gone: a pod
// that has ended may stay in the API for days.
func (w *worker) disconnect() {
	if !w.over || w.disconnected {
		return
	}
	w.disconnected = true
	evicted := w.reason == reasonEvicted
	w.task(func() {
		if err := w.node.removeTemporary(w.ctx, w.namespace, w.uid); err != nil {
			w.log.Warn("giving back the pod's temporary folders", "error", err)
		}
		w.dropFiles(evicted)
		if w.node.config.Network == nil {
			return
		}
		if err := w.node.config.Network.RemovePod(string(w.uid)); err != nil {
			w.log.Warn("giving back the pod's address", "error", err)
		}
	})
}

// deletePod deletes the pod object, and tries until it is gone or the worker
// ends.
func (w *worker) deletePod() bool {
	now := int64(0)
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		err := w.writer.Pods.Delete(w.ctx, w.writer.Name, metav1.DeleteOptions{
			GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &w.uid},
		})
		if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			return true
		}
		if w.ctx.Err() != nil {
			return false
		}
		w.log.Warn("deleting the pod object", "error", err)
		select {
		case <-w.ctx.Done():
			return false
		case <-time.After(pause):
		}
	}
}

// archiveLogs keeps the logs of a job's member.
func (w *worker) archiveLogs(kept []*process.Process) {
	if w.record == nil || w.record.Job == "" {
		return
	}
	w.node.archiveLogs(w.record, kept)
}

func (n *Node) archiveLogs(r *podrecord.Record, kept []*process.Process) {
	var logs []archive.Log
	for _, p := range kept {
		logs = append(logs, archive.Log{Container: p.Spec().Container, Restart: p.Spec().Restart, Dir: p.LogDir()})
	}
	if err := n.archive.Keep(archive.Pod{Namespace: r.Namespace, Job: string(r.Job), Name: r.Name, UID: string(r.UID)}, logs); err != nil {
		n.config.Log.Warn("archiving logs", "pod", r.Namespace+"/"+r.Name, "error", err)
	}
}

// remove takes away everything that the pod had on the machine.
func (w *worker) remove() {
	w.node.directory.Forget(w.uid)
	if w.record != nil && w.record.Images {
		w.node.releaseImages(w.ctx, w.uid)
	}
	if err := w.node.removePod(w.namespace, string(w.uid)); err != nil {
		w.log.Warn("removing the pod", "error", err)
	}
}

// restore brings the units to where an earlier muster left them: by the
// processes that were found, or else by what the API says.
func (w *worker) restore(processes []*process.Process) {
	w.settled = w.pod.Status.Phase == corev1.PodSucceeded || w.pod.Status.Phase == corev1.PodFailed
	if w.settled {
		w.outcome = w.pod.Status.Phase
	}
	if w.pod.Status.StartTime != nil {
		w.start = w.pod.Status.StartTime.Time
	}
	for _, u := range w.units {
		own := slices.DeleteFunc(slices.Clone(processes), func(p *process.Process) bool { return p.Spec().Container != u.spec.Name })
		slices.SortFunc(own, func(a, b *process.Process) int { return a.Spec().Restart - b.Spec().Restart })
		for _, p := range own {
			w.restoreAttempt(u, p)
		}
		if len(own) == 0 {
			w.restoreLost(u)
		}
	}
}

func (w *worker) restoreAttempt(u *unit, p *process.Process) {
	if live(p) {
		u.begin(p)
		u.crashes = p.Spec().Restart
		w.node.live.Add(p)
		return
	}
	exit := p.Exit()
	if exit.Reason == process.ReasonNeverStarted {
		if err := p.Remove(); err != nil {
			w.log.Warn("removing a container that never started", "error", err)
			u.next = p.Spec().Restart + 1
		}
		return
	}
	if exit.Reason != "" && exit.Code == 0 {
		exit.Code = 137
	}
	u.begin(p)
	u.crashes = p.Spec().Restart
	u.end(exit)
}

// restoreLost is for a container that the API knows to have started and of
// which nothing is left here.
func (w *worker) restoreLost(u *unit) {
	c := w.apiStatus(u)
	if c == nil || w.settled {
		return
	}
	lost := process.Exit{Code: 137, Reason: process.ReasonShimLost, Err: "nothing was left of the container on the machine"}
	switch {
	case c.State.Terminated != nil:
		t := c.State.Terminated
		lost = process.Exit{Code: int(t.ExitCode), Signal: int(t.Signal), StartedAt: t.StartedAt.Time, FinishedAt: t.FinishedAt.Time, Message: t.Message}
	case c.State.Running != nil:
		lost.StartedAt, lost.FinishedAt = c.State.Running.StartedAt.Time, w.born
	default:
		if c.RestartCount > 0 || c.LastTerminationState.Terminated != nil {
			u.next = int(c.RestartCount) + 1
		}
		return
	}
	u.next = int(c.RestartCount) + 1
	u.conclude(string(w.uid)+"/"+u.spec.Name, lost)
}

// apiStatus is what the API says of a unit; nil: nothing.
func (w *worker) apiStatus(u *unit) *corev1.ContainerStatus {
	for _, list := range [][]corev1.ContainerStatus{w.pod.Status.InitContainerStatuses, w.pod.Status.ContainerStatuses} {
		for i := range list {
			if list[i].Name == u.spec.Name {
				return &list[i]
			}
		}
	}
	return nil
}

// live is true for a process that has not ended.
func live(p *process.Process) bool {
	select {
	case <-p.Done():
		return false
	default:
		return true
	}
}

// removePod takes away a pod's address, mounts and folder.
func (n *Node) removePod(namespace, uid string) error {
	if n.config.Network != nil {
		if err := n.config.Network.RemovePod(uid); err != nil {
			return err
		}
	}
	if err := n.volumes.Forget(types.UID(uid)); err != nil {
		return err
	}
	// Programs of the pod may have written anything there.
	if err := n.removeTemporary(context.Background(), namespace, types.UID(uid)); err != nil {
		return err
	}
	return n.removePodFolders(context.Background(), namespace, types.UID(uid))
}

// stopAll ends the processes of a pod that was deleted while no muster ran,
// and removes what is left of it.
func (n *Node) stopAll(ctx context.Context, r *podrecord.Record, processes []*process.Process) {
	for _, p := range processes {
		if err := p.Kill(ctx); err != nil && live(p) {
			n.config.Log.Warn("ending a deleted pod", "pod", r.Namespace+"/"+r.Name, "error", err)
			return
		}
	}
	if r.Job != "" {
		n.archiveLogs(r, processes)
	}
	n.ledger.Release(r.UID)
	if r.Images {
		n.releaseImages(ctx, r.UID)
	}
	if err := n.removePod(r.Namespace, string(r.UID)); err != nil {
		n.config.Log.Warn("removing a deleted pod", "pod", r.Namespace+"/"+r.Name, "error", err)
	}
}
