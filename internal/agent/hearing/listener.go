package hearing

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/node/progress"
	"github.com/muster-dev/muster/internal/node/progress/bulletin"
)

const (
	// glanceEvery is how often it is seen which pods there are, and whose file was
	// written: what a pod says last can be read only for a moment.
	glanceEvery = time.Second
	// tellEvery is how often a pod's news is told.
	tellEvery = 15 * time.Second
	// lookAgain is how often a file is read that is written all the time, which
	// takes a while.
	lookAgain = 5 * time.Second
	// left is for how long a file has been left alone that can be read at once.
	left = 250 * time.Millisecond
	// tick is by how much the times of files may lag behind.
	tick = 10 * time.Millisecond
	// tellWithin bounds one visit to the door.
	tellWithin = 20 * time.Second
)

// Door takes what is said of pods.
type Door interface {
	// Report says how far the pods on this node are, by UID.
	Report(ctx context.Context, said map[types.UID]v1alpha1.PodProgress) error
}

// ListenerOptions are what a listener needs.
type ListenerOptions struct {
	// KubeletDir is the kubelet's folder.
	KubeletDir string
	// Door is told what pods say.
	Door Door
	// Now is the clock. Default: time.Now.
	Now func() time.Time
	// Log receives what no caller can. Default: discarded.
	Log *slog.Logger
}

// Listener looks at what the pods of a node report.
type Listener struct {
	options ListenerOptions
	pods    map[types.UID]*speaker
	// silent is true while the door does not answer, which is said once.
	silent bool
}

// speaker is one pod that may report.
type speaker struct {
	folder   string
	observer *progress.Observer
	since    time.Time
	// seen is the file as it was when it was last read, at the time read.
	seen mark
	read time.Time
	// known is what it says, and told what the door was told, at the time at.
	known progress.State
	told  *v1alpha1.PodProgress
	at    time.Time
}

// mark tells one state of a file from another.
type mark struct {
	inode   uint64
	size    int64
	written time.Time
}

// NewListener returns a listener; [Listener.Run] has it listen.
func NewListener(o ListenerOptions) *Listener {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Listener{options: o, pods: map[types.UID]*speaker{}}
}

// Run listens until the context ends.
func (l *Listener) Run(ctx context.Context) error {
	ticker := time.NewTicker(glanceEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		l.glance(ctx, pause(ctx))
	}
}

// pause waits, and returns false once there is no more time for that.
func pause(ctx context.Context) func(time.Duration) bool {
	return func(d time.Duration) bool {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-ctx.Done():
			return false
		case <-timer.C:
			return true
		}
	}
}

// glance sees which pods there are, reads what they wrote, and tells what is
// worth it. What a pod that is gone said last is told at once.
func (l *Listener) glance(ctx context.Context, pause func(time.Duration) bool) {
	now := l.options.Now()
	there := l.folders()
	for uid, folder := range there {
		if l.pods[uid] == nil {
			l.pods[uid] = &speaker{
				folder: folder, since: born(folder).Add(-tick),
				observer: progress.New(progress.Options{Root: folder, Report: filepath.Base(v1alpha1.ProgressPath)}),
			}
		}
	}
	said := map[types.UID]v1alpha1.PodProgress{}
	for uid, s := range l.pods {
		_, here := there[uid]
		if here {
			s.listen(now, pause)
		}
		next := bulletin.Of(s.known, s.since)
		if next != nil && (!here || now.Sub(s.at) >= tellEvery) && bulletin.Worth(s.told, next, now.Sub(s.at)) {
			said[uid] = *next
		}
	}
	told := len(said) == 0 || l.tell(ctx, said)
	for uid, s := range l.pods {
		if next, is := said[uid]; is && told {
			s.told, s.at = &next, now
		}
		if _, here := there[uid]; !here {
			s.observer.Close()
			delete(l.pods, uid)
		}
	}
}

// folders are those in which the node's pods report, by the pods' UIDs.
func (l *Listener) folders() map[types.UID]string {
	pods := filepath.Join(l.options.KubeletDir, "pods")
	entries, err := os.ReadDir(pods)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		l.options.Log.Error("looking for pods that report", "error", err)
	}
	out := map[types.UID]string{}
	for _, e := range entries {
		folder := filepath.Join(pods, e.Name(), "volumes", "kubernetes.io~empty-dir", v1alpha1.ProgressVolume)
		if info, err := os.Lstat(folder); err == nil && info.IsDir() {
			out[types.UID(e.Name())] = folder
		}
	}
	return out
}

// tell tells the door, and reports whether it has heard.
func (l *Listener) tell(ctx context.Context, said map[types.UID]v1alpha1.PodProgress) bool {
	ctx, cancel := context.WithTimeout(ctx, tellWithin)
	defer cancel()
	err := l.options.Door.Report(ctx, said)
	if err != nil && !l.silent && ctx.Err() == nil {
		l.options.Log.Warn("how far pods are is not told; it is tried again", "error", err)
	}
	l.silent = err != nil
	return err == nil
}

// listen reads what the pod wrote, if that is something new and can be read in
// no time, or was not for a while.
func (s *speaker) listen(now time.Time, pause func(time.Duration) bool) {
	m := markOf(filepath.Join(s.folder, filepath.Base(v1alpha1.ProgressPath)))
	if m == s.seen || now.Sub(m.written) < left && now.Sub(s.read) < lookAgain {
		return
	}
	s.known = s.observer.Look(now, pause)
	s.seen, s.read = m, now
}

// markOf is the state of a file; none where there is no file.
func markOf(path string) mark {
	var s unix.Stat_t
	if err := unix.Lstat(path, &s); err != nil {
		return mark{}
	}
	return mark{inode: s.Ino, size: s.Size, written: time.Unix(s.Ctim.Unix())}
}

// born is when a folder was made; long ago, where that is not known.
func born(path string) time.Time {
	var s unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BTIME, &s)
	if err != nil || s.Mask&unix.STATX_BTIME == 0 {
		return time.Time{}
	}
	return time.Unix(s.Btime.Sec, int64(s.Btime.Nsec))
}
