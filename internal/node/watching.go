package node

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/node/progress"
	"github.com/muster-dev/muster/internal/node/progress/bulletin"
	"github.com/muster-dev/muster/internal/node/userfiles"
)

const (
	// lookEvery is the default of Config.LookEvery.
	lookEvery = 15 * time.Second
	// lastLook is how long the removal of an ended pod waits for the last look
	// at what it saved, should the folder not answer.
	lastLook = 10 * time.Second
)

// watching is the observation of how one pod is getting on. Only its worker
// touches it.
type watching struct {
	// since is when the pod was first seen to run: what was saved before that
	// is no news of it.
	since time.Time
	// end receives, once, that no process is left, and whether it ended in an
	// orderly way; over is true once that was looked at, and giveUp when that is
	// no longer waited for.
	end    chan bool
	ended  bool
	over   bool
	giveUp time.Time
	// known is what was last seen, and shown what the API is told, since at.
	known progress.State
	shown *v1alpha1.PodProgress
	at    time.Time
}

// watch begins to observe a pod once it runs, and looks a last time once
// nothing of it is left. It returns when that is no longer waited for.
func (w *worker) watch() time.Time {
	if w.settled || w.place == nil {
		return time.Time{}
	}
	if w.watching == nil && !w.over && w.ran() {
		w.beginWatching()
	}
	if v := w.watching; v != nil && w.over && !v.ended {
		v.ended, v.giveUp = true, w.node.config.Clock.Now().Add(lastLook)
		v.end <- w.orderly()
	}
	if w.stillWatching() {
		return w.watching.giveUp
	}
	return time.Time{}
}

// ran is true once a container has started.
func (w *worker) ran() bool {
	return slices.ContainsFunc(w.units, func(u *unit) bool { return u.proc != nil })
}

// orderly is true for a pod of which no container was cut short: each ended
// well, or by itself after the pod was told to end.
func (w *worker) orderly() bool {
	told := w.gone || w.pod.DeletionTimestamp != nil
	for _, u := range w.units {
		if u.last == nil || u.last.exit.Code == 0 && !u.last.exit.CutShort {
			continue
		}
		killed := u.last.exit.CutShort || u.last.exit.Signal == int(syscall.SIGKILL) || u.last.exit.Code == 128+int(syscall.SIGKILL)
		if !told || killed {
			return false
		}
	}
	return true
}

func (w *worker) beginWatching() {
	o := progress.Options{Root: w.node.podRoot(w.namespace, w.uid), Checkpoints: w.checkpoints(), Known: bulletin.Known(w.pod)}
	w.scanAsOwner(&o)
	if reports(w.pod) {
		o.Report = strings.TrimPrefix(v1alpha1.ProgressPath, v1alpha1.PodRoot+"/")
	}
	if o.Report == "" && o.Checkpoints == "" {
		return
	}
	v := &watching{end: make(chan bool, 1), known: o.Known, since: w.node.config.Clock.Now()}
	for _, u := range w.units {
		if u.proc != nil && !u.proc.StartedAt().IsZero() && u.proc.StartedAt().Before(v.since) {
			v.since = u.proc.StartedAt()
		}
	}
	v.shown = bulletin.Of(o.Known, v.since)
	w.watching = v
	w.node.savers.Add(string(w.uid), o.Checkpoints)
	o.PIDs = func() []int { return w.node.live.PIDsOf(w.node.savers.With(o.Checkpoints)) }
	o.Others = func() bool { return w.node.savers.LeftToOthers(string(w.uid), o.Checkpoints) }
	w.task(func() {
		defer w.node.savers.Remove(string(w.uid))
		held, err := w.holdRoot(&o)
		if err != nil {
			w.log.Warn("opening the folder for progress", "error", err)
			o.Report = ""
		}
		w.look(progress.New(o), v)
		if held != nil {
			_ = held.Close() // it was never read or written
		}
	})
}

// holdRoot opens the pod's root as its owner, who may put a link in the place of any folder above it. Root
// is by its descriptor then, which may be closed after the last look. Nil: Muster has one user.
func (w *worker) holdRoot(o *progress.Options) (*os.File, error) {
	home, err := w.node.home(w.ctx, w.namespace)
	if err != nil || home == nil {
		return nil, err
	}
	held, _, err := home.Open(w.ctx, home.Place("pods", string(w.uid), "root"), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err == nil {
		o.Root = fmt.Sprintf("/proc/self/fd/%d", held.Fd())
	}
	return held, err
}

// scanAsOwner makes the pod's owner look at the folder of checkpoints, whose paths the owner controls. A
// Muster of one user looks itself.
func (w *worker) scanAsOwner(o *progress.Options) {
	if w.node.homes == nil || o.Checkpoints == "" {
		return
	}
	at := userfiles.Place{Base: o.Checkpoints, OneMount: true}
	o.Scan = func(skip, most int) ([]progress.Entry, bool, error) {
		home, err := w.node.home(w.ctx, w.namespace)
		if err != nil {
			home = w.node.ownerHome(w.namespace) // the user was removed, or the directory is away
		}
		if home == nil {
			return nil, false, err
		}
		list, more, err := home.Scan(w.ctx, at, skip, most)
		out := make([]progress.Entry, len(list))
		for i, e := range list {
			out[i] = progress.Entry(e)
		}
		return out, more, err
	}
}

// look looks again and again, until the pod has ended or the worker ends.
func (w *worker) look(o *progress.Observer, v *watching) {
	defer o.Close()
	clock := w.node.config.Clock
	next := clock.After(min(quietStart, w.node.config.LookEvery))
	for {
		select {
		case <-w.ctx.Done():
			return
		case orderly := <-v.end:
			// Members of a job that are still there go on looking; of those that
			// end together the last one looks.
			w.node.savers.Remove(string(w.uid))
			s := o.Last(clock.Now(), orderly)
			w.post(func() { v.known, v.over = s, true })
			return
		case <-next:
		}
		s := o.Look(clock.Now(), func(d time.Duration) bool {
			select {
			case <-clock.After(d):
				return true
			case <-w.ctx.Done():
				return false
			}
		})
		w.post(func() { v.known = s })
		next = clock.After(w.node.config.LookEvery)
	}
}

// quietStart is when a pod is first looked at, after its start.
const quietStart = 5 * time.Second

// stillWatching is true while the last look at an ended pod is awaited.
func (w *worker) stillWatching() bool {
	v := w.watching
	return v != nil && !v.over && w.node.config.Clock.Now().Before(v.giveUp)
}

// shownProgress is what the API is to be told now: what is known, where that
// says enough that is new, or the pod is over.
func (w *worker) shownProgress() *v1alpha1.PodProgress {
	v := w.watching
	if v == nil {
		return nil
	}
	now := w.node.config.Clock.Now()
	next := bulletin.Of(v.known, v.since)
	if next != nil && (v.over || now.Sub(v.at) >= w.node.config.LookEvery*9/10 && bulletin.Worth(v.shown, next, now.Sub(v.at))) {
		v.shown, v.at = next, now
	}
	return v.shown
}

// reports is true for a pod with a container that was told where to report.
func reports(pod *corev1.Pod) bool {
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if slices.ContainsFunc(list[i].Env, func(v corev1.EnvVar) bool { return v.Name == v1alpha1.EnvProgress }) {
				return true
			}
		}
	}
	return false
}

// makeReportFolder makes the folder in which a pod may report. Any user of the
// pod may write there.
func makeReportFolder(root string, pod *corev1.Pod) error {
	if !reports(pod) {
		return nil
	}
	folder := filepath.Join(root, filepath.Dir(strings.TrimPrefix(v1alpha1.ProgressPath, v1alpha1.PodRoot)))
	if err := os.Mkdir(folder, 0o777); err != nil {
		if os.IsExist(err) {
			return nil
		}
		return fmt.Errorf("making the folder for progress: %w", err)
	}
	// Mkdir is subject to the umask.
	if err := os.Chmod(folder, 0o777); err != nil {
		return fmt.Errorf("opening the folder for progress: %w", err)
	}
	return nil
}

// checkpoints is the real folder that a container of the pod has at
// v1alpha1.CheckpointsPath; empty: none has any.
func (w *worker) checkpoints() string {
	for _, u := range w.units {
		for _, m := range u.spec.VolumeMounts {
			if path.Clean(m.MountPath) != v1alpha1.CheckpointsPath || m.ReadOnly || m.SubPathExpr != "" {
				continue
			}
			v, ok := w.place.volumes[m.Name]
			switch {
			case !ok || v.ReadOnly:
			case m.SubPath == "":
				return v.Path
			case filepath.IsLocal(m.SubPath):
				return filepath.Join(v.Path, m.SubPath)
			}
		}
	}
	return ""
}
