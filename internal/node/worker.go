package node

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-dev/muster/internal/node/admission"
	"github.com/muster-dev/muster/internal/node/image"
	"github.com/muster-dev/muster/internal/node/lifecycle"
	"github.com/muster-dev/muster/internal/node/podrecord"
	"github.com/muster-dev/muster/internal/node/process"
	"github.com/muster-dev/muster/internal/node/statuswriter"
)

// quiet is how long a pod that only starts says nothing, so that an ordinary
// start costs one status write and not two.
const quiet = 2 * time.Second

// worker owns one pod. All fields below the mailbox are touched by its
// goroutine alone.
type worker struct {
	node *Node
	uid  types.UID
	log  *slog.Logger

	mu     sync.Mutex
	posted []func()
	signal chan struct{} // of capacity 1
	done   chan struct{} // closed when run has returned

	namespace, name string
	job             atomic.Pointer[types.UID] // the TrainingJob; nil: not known yet

	ctx    context.Context // ends with the worker
	cancel context.CancelFunc
	tasks  sync.WaitGroup

	pod    *corev1.Pod
	gone   bool // the API has it no longer
	record *podrecord.Record
	units  []*unit
	writer *statuswriter.Writer

	born         time.Time
	starting     bool      // counted among those on their way to a first process
	tellBy       time.Time // when its first news is told at the latest
	start        time.Time
	place        *place                 // nil until prepared
	images       map[string]image.Image // by container; nil until all are here
	adopted      bool                   // an earlier Muster had it
	preparing    context.CancelFunc
	putOff       putOff
	refreshAt    time.Time
	settled      bool // the API had it ended when it was first seen
	disconnected bool // its address was given back
	outcome      corev1.PodPhase
	over         bool
	reason       string
	message      string
	hurried      bool // the disk is short of space: its containers end within hurry
	sent         *corev1.PodStatus
	acked        *corev1.PodStatus
	// enforcement is whether the pod's share of a GPU is enforced, once a
	// container was started with it.
	enforcement *corev1.PodCondition
	watching    *watching // nil: nothing is observed, or not yet
	finishing   bool
	finished    bool
}

func newWorker(n *Node, pod *corev1.Pod, r *podrecord.Record, processes []*process.Process) *worker {
	w := &worker{
		node: n, uid: pod.UID, pod: pod, record: r,
		log:       n.config.Log.With("pod", pod.Namespace+"/"+pod.Name, "uid", string(pod.UID)),
		namespace: pod.Namespace, name: pod.Name,
		signal: make(chan struct{}, 1), done: make(chan struct{}),
		born: n.config.Clock.Now(),
	}
	w.units = newUnits(pod, admission.Assign(pod))
	w.adopted = r != nil
	if r != nil {
		w.job.Store(&r.Job)
	}
	w.restore(processes)
	return w
}

// post runs f in the worker's goroutine, soon.
func (w *worker) post(f func()) {
	w.mu.Lock()
	w.posted = append(w.posted, f)
	w.mu.Unlock()
	select {
	case w.signal <- struct{}{}:
	default:
	}
}

// ask runs f in the worker's goroutine and waits for it. It returns false when
// the worker is gone or ctx ends.
func (w *worker) ask(ctx context.Context, f func()) bool {
	answered := make(chan struct{})
	w.post(func() { f(); close(answered) })
	select {
	case <-answered:
		return true
	case <-w.done:
	case <-ctx.Done():
	}
	return false
}

// task runs f in a goroutine that the worker waits for.
func (w *worker) task(f func()) { w.tasks.Go(f) }

// see tells the worker of the pod's present state in the API.
func (w *worker) see(pod *corev1.Pod) {
	w.post(func() {
		before := w.pod
		if w.pod = pod; w.putOff.times > 0 && !sameWish(before, pod) {
			w.reconsider()
		}
	})
}

// vanish tells the worker that the API has the pod no longer.
func (w *worker) vanish() { w.post(func() { w.gone = true }) }

// run works until the pod is gone, with all that was its, or ctx ends.
// Containers that run then go on running.
func (w *worker) run(ctx context.Context) {
	defer close(w.done)
	w.ctx, w.cancel = context.WithCancel(ctx)
	defer w.tasks.Wait()
	defer w.cancel()
	w.writer = statuswriter.New(statuswriter.Writer{
		Pods: w.node.clients.Core.CoreV1().Pods(w.pod.Namespace), Name: w.pod.Name, UID: w.uid,
		Acked:  func(s corev1.PodStatus) { w.post(func() { w.acked = &s }) },
		Absent: w.vanish,
		Failed: func(err error) { w.log.Warn("writing the pod's status", "error", err) },
	})
	w.task(func() { w.writer.Run(w.ctx) })
	if w.starting = w.record == nil && !w.settled; w.starting {
		w.node.starts.begin()
		defer func() {
			if w.starting {
				w.node.starts.end()
			}
		}()
	}
	for _, u := range w.units {
		if u.proc != nil {
			w.attend(u, true)
		}
	}
	for {
		wake := w.step()
		if w.finished {
			return
		}
		if !w.wait(wake) {
			return
		}
	}
}

// wait sleeps until something is posted or the time has come, and takes the
// posts. It returns false when ctx has ended.
func (w *worker) wait(wake time.Time) bool {
	var alarm <-chan time.Time
	if !wake.IsZero() {
		timer := w.node.config.Clock.NewTimer(wake.Sub(w.node.config.Clock.Now()))
		defer timer.Stop()
		alarm = timer.C()
	}
	select {
	case <-w.ctx.Done():
		return false
	case <-w.signal:
	case <-alarm:
	}
	w.mu.Lock()
	posted := w.posted
	w.posted = nil
	w.mu.Unlock()
	for _, f := range posted {
		f()
	}
	return w.ctx.Err() == nil
}

// step looks at everything, does what is next, and returns when to look again
// if nothing happens before.
//
//  1. Notice that the pod's time is up.
//  2. Prepare what containers need, or bring it up to date.
//  3. Decide, start and stop.
//  4. Free what an ended pod held.
//  5. Report.
//  6. Remove what is left of a deleted pod.
func (w *worker) step() time.Time {
	now := w.node.config.Clock.Now()
	wake := w.deadline(now)
	w.prepareOrRefresh(now)
	wake = earlier(earlier(wake, w.refreshDue()), w.lookDue())
	for {
		d := lifecycle.Decide(w.view())
		if d.Outcome != "" && w.outcome == "" && !w.ending() {
			w.outcome = d.Outcome
		}
		wake = earlier(wake, d.Wake)
		for _, i := range d.Stop {
			w.stop(w.units[i], w.grace())
		}
		if d.Over && !w.over {
			w.outcome, w.over = d.Outcome, true
			w.node.ledger.Release(w.uid)
		}
		if len(d.Start) == 0 {
			break
		}
		for _, i := range d.Start {
			w.launch(w.units[i])
		}
	}
	if w.ending() {
		w.node.ledger.End(w.uid)
		if w.preparing != nil {
			w.preparing()
		}
	}
	w.started(now)
	wake = earlier(wake, w.watch())
	wake = earlier(wake, w.report(now))
	w.disconnect()
	w.finish()
	return wake
}

// earlier is the earlier of two times, of which zero means never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}

// ending is true for a pod that is to end whatever its containers do.
func (w *worker) ending() bool {
	return w.gone || w.pod.DeletionTimestamp != nil || w.reason != ""
}

func (w *worker) view() lifecycle.Pod {
	v := lifecycle.Pod{
		Policy:   w.pod.Spec.RestartPolicy,
		Prepared: w.place != nil && w.images != nil,
		Ending:   w.ending(),
		Doomed:   w.reason != "",
		Outcome:  w.outcome,
		Now:      w.node.config.Clock.Now(),
	}
	for _, u := range w.units {
		v.Units = append(v.Units, u.view())
	}
	return v
}

// deadline ends a pod that has run for too long, and returns when that is.
func (w *worker) deadline(now time.Time) time.Time {
	seconds := w.pod.Spec.ActiveDeadlineSeconds
	if seconds == nil || w.start.IsZero() || w.ending() || w.outcome != "" {
		return time.Time{}
	}
	end := w.start.Add(time.Duration(*seconds) * time.Second)
	if end.After(now) {
		return end
	}
	w.fail(reasonDeadline, "the pod was active for longer than its activeDeadlineSeconds")
	return time.Time{}
}

// fail ends the pod as a whole.
func (w *worker) fail(reason, message string) {
	if w.reason == "" {
		w.reason, w.message = reason, message
	}
}

// report hands a status that changed to the writer. It returns when to look
// again where it waits before it says anything.
func (w *worker) report(now time.Time) time.Time {
	if w.settled || w.gone {
		return time.Time{}
	}
	if !w.over && !w.telling() {
		if speak := w.born.Add(quiet); now.Before(speak) {
			return speak
		}
	}
	if later := w.held(now); !later.IsZero() {
		return later
	}
	if w.start.IsZero() {
		w.start = now
	}
	f := facts{
		pod: w.pod, units: w.units, hostIP: w.node.config.HostIP, start: w.start, now: now,
		outcome: w.outcome, over: w.over, reason: w.reason, message: w.message, share: w.enforced(),
	}
	f.placed = w.place != nil || slices.ContainsFunc(w.units, func(u *unit) bool { return u.proc != nil })
	if w.place != nil {
		f.podIP = w.place.ip
	}
	if w.over && w.record != nil {
		u := usage(w.units, w.record.Past, w.record.Held())
		f.usage = &u
	}
	f.progress = w.shownProgress()
	s := status(f)
	if w.sent != nil && sameStatus(s, *w.sent) {
		return time.Time{}
	}
	w.sent = &s
	w.writer.Put(s)
	return time.Time{}
}

// telling is true once there is something to say.
func (w *worker) telling() bool {
	for _, u := range w.units {
		if u.next > 0 || u.last != nil || u.wait.reason != "" {
			return true
		}
	}
	return w.reason != ""
}

// sameStatus compares without the times of conditions.
func sameStatus(a, b corev1.PodStatus) bool {
	return equality.Semantic.DeepEqual(timeless(a), timeless(b))
}

func timeless(s corev1.PodStatus) corev1.PodStatus {
	s = *s.DeepCopy()
	for i := range s.Conditions {
		s.Conditions[i].LastTransitionTime = metav1.Time{}
	}
	return s
}

// grace is how long containers have to end.
func (w *worker) grace() time.Duration {
	switch {
	case w.gone:
		return 0
	case w.hurried:
		return hurry
	case w.pod.DeletionTimestamp != nil && w.pod.DeletionGracePeriodSeconds != nil:
		return time.Duration(*w.pod.DeletionGracePeriodSeconds) * time.Second
	case w.pod.Spec.TerminationGracePeriodSeconds != nil:
		return time.Duration(*w.pod.Spec.TerminationGracePeriodSeconds) * time.Second
	}
	return 30 * time.Second
}
