package transcript

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/member"
)

// drainPatience is how long after a job's end its last processes and lines are
// waited for: longer than any usual grace period.
const drainPatience = 45 * time.Second

// Attendance is being with a job until it ends.
type Attendance struct {
	// Client watches the job and its pods.
	Client client.WithWatch
	// Source and Archive open logs.
	Source  Source
	Archive Archive
	// Printer prints them.
	Printer *Printer
	// Job is the job, as last seen.
	Job *v1alpha1.TrainingJob
	// Want chooses members. Default: all.
	Want func(member.Member) bool
	// Since leaves out older lines. Zero: none.
	Since time.Time
	// Tail is with how many of a member's last lines to begin; negative: all.
	Tail int64
	// Changed is called with the job each time it changes. May be nil.
	Changed func(*v1alpha1.TrainingJob)
	// Lost is called when the connection to the server is lost. May be nil.
	Lost func(error)
}

// Outcome is how a job ended.
type Outcome struct {
	// Job is the job as last seen.
	Job *v1alpha1.TrainingJob
	// Deleted is true if somebody deleted it.
	Deleted bool
	// ExitCodes are the exit codes of the members, of their last end.
	ExitCodes map[member.Member]int32
}

// Follow prints what the members write, pods that appear later included, and
// returns once the job has ended, its last process is gone and the last line
// is printed. It returns ctx's error if that ends first.
func (a *Attendance) Follow(ctx context.Context) (Outcome, error) {
	inner, cancel := context.WithCancelCause(ctx)
	s := &session{
		Attendance: a, jobs: make(chan change), pods: make(chan change), broken: make(chan error, 1),
		over: make(chan struct{}), read: make(chan struct{}), tracks: map[types.UID]*track{}, cursors: map[member.Member]*cursor{},
		tails:   map[member.Member]<-chan struct{}{},
		outcome: Outcome{Job: a.Job, ExitCodes: map[member.Member]int32{}},
	}
	s.observe(inner)
	err := s.loop(inner)
	cancel(nil)
	s.running.Wait()
	if err == nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	return s.outcome, err
}

// session is one Follow.
type session struct {
	*Attendance
	jobs, pods chan change
	broken     chan error
	over       chan struct{}
	read       chan struct{}
	running    sync.WaitGroup

	// Only the loop touches these.
	reading int
	swept   bool
	outcome Outcome
	tracks  map[types.UID]*track
	tails   map[member.Member]<-chan struct{}
	cursors map[member.Member]*cursor
}

func (s *session) observe(ctx context.Context) {
	lost := func(err error) {
		if s.Lost != nil {
			s.Lost(err)
		}
	}
	namespace, name := client.InNamespace(s.Job.Namespace), s.Job.Name
	for _, o := range []*observer{
		{client: s.Client, out: s.jobs, lost: lost, newList: func() client.ObjectList { return &v1alpha1.TrainingJobList{} },
			options: []client.ListOption{namespace, client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("metadata.name", name)}}},
		{client: s.Client, out: s.pods, lost: func(error) {}, newList: func() client.ObjectList { return &corev1.PodList{} },
			options: []client.ListOption{namespace, client.MatchingLabels{v1alpha1.LabelJob: name}}},
	} {
		s.running.Go(func() {
			if err := o.run(ctx); err != nil {
				s.fail(err)
			}
		})
	}
}

func (s *session) fail(err error) {
	select {
	case s.broken <- err:
	default:
	}
}

// loop handles changes until the job is over and everything is printed.
func (s *session) loop(ctx context.Context) error {
	var patience <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-s.broken:
			return err
		case <-patience:
			return nil
		case c := <-s.pods:
			s.pod(ctx, c)
		case c := <-s.jobs:
			if !s.job(c) {
				continue
			}
		case <-s.read:
			s.reading--
		}
		if !s.ended() {
			continue
		}
		if patience == nil {
			close(s.over)
			timer := time.NewTimer(drainPatience)
			defer timer.Stop()
			patience = timer.C
		}
		if !s.drained() || s.reading > 0 {
			continue
		}
		if s.swept {
			return nil
		}
		if err := s.sweep(ctx); err != nil {
			return err
		}
		if s.reading == 0 {
			return nil
		}
	}
}

// sweep looks once more, after the job's end, for pods that nobody has told of
// yet: news of the job and of its pods come by different ways, and a pod may
// have come and gone between two looks.
func (s *session) sweep(ctx context.Context) error {
	s.swept = true
	pods, err := member.Pods(ctx, s.Client, s.Job.Namespace, s.Job.Name)
	if err != nil {
		return err
	}
	for i := range pods {
		s.pod(ctx, change{object: &pods[i]})
	}
	seen := map[string]bool{}
	for _, t := range s.tracks {
		pod, _, _ := t.state()
		seen[pod.Name] = true
	}
	archived, err := s.Archive.Pods()
	if err != nil {
		return fmt.Errorf("reading the archive of %s: %w", s.Job.Name, err)
	}
	for _, name := range archived {
		m, ok := member.Parse(s.Job.Name, name)
		if !ok || seen[name] || s.Want != nil && !s.Want(m) {
			continue
		}
		gone := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.Job.Namespace, Name: name, UID: types.UID("archived/" + name)}}
		s.begin(ctx, m, &track{pod: gone, gone: true, wake: make(chan struct{})})
	}
	return nil
}

// job takes in a change of the job, and reports whether it is the one that is
// attended: another may bear its name by now.
func (s *session) job(c change) bool {
	job, ok := c.object.(*v1alpha1.TrainingJob)
	if !ok || s.Job.UID != "" && job.UID != s.Job.UID {
		return false
	}
	s.outcome.Job = job
	s.outcome.Deleted = s.outcome.Deleted || c.gone
	if s.Changed != nil && !c.gone {
		s.Changed(job)
	}
	return true
}

func (s *session) ended() bool {
	phase := s.outcome.Job.Status.Phase
	return s.outcome.Deleted || phase == v1alpha1.JobSucceeded || phase == v1alpha1.JobFailed
}

// drained reports whether the last process of an ended job is gone. A job that
// never started has none.
func (s *session) drained() bool {
	status := s.outcome.Job.Status
	return s.ended() && (s.outcome.Deleted || status.DrainedTime != nil || status.StartTime == nil)
}

// pod takes in a change of a pod.
func (s *session) pod(ctx context.Context, c change) {
	pod, ok := c.object.(*corev1.Pod)
	if !ok {
		return
	}
	m, ok := member.OfPod(pod)
	if !ok || pod.Labels[v1alpha1.LabelJob] != s.Job.Name {
		return
	}
	s.outcome.Learn(pod)
	if s.Want != nil && !s.Want(m) {
		return
	}
	if t := s.tracks[pod.UID]; t != nil {
		t.update(pod, c.gone)
		return
	}
	if c.gone {
		return
	}
	// A new pod of the same name replaces an older one.
	for _, older := range s.tracks {
		older.replacedBy(pod)
	}
	s.begin(ctx, m, &track{pod: pod, wake: make(chan struct{})})
}

// begin starts to read a pod's output, after that of the member's earlier pod.
func (s *session) begin(ctx context.Context, m member.Member, t *track) {
	s.tracks[t.pod.UID] = t
	if s.cursors[m] == nil {
		s.cursors[m] = &cursor{at: s.Since}
	}
	done := make(chan struct{})
	before := s.tails[m]
	s.tails[m] = done
	r := &reader{session: s, track: t, member: m, cursor: s.cursors[m], before: before}
	s.reading++
	s.running.Go(func() {
		err := r.run(ctx)
		close(done)
		if err != nil && ctx.Err() == nil {
			s.fail(fmt.Errorf("printing the output of %s: %w", m, err))
		}
		select {
		case s.read <- struct{}{}:
		case <-ctx.Done():
		}
	})
}

// track is what is known of one pod, for the one that reads its output.
type track struct {
	mu   sync.Mutex
	pod  *corev1.Pod
	gone bool
	wake chan struct{}
}

func (t *track) update(pod *corev1.Pod, gone bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pod, t.gone = pod, t.gone || gone
	close(t.wake)
	t.wake = make(chan struct{})
}

func (t *track) replacedBy(pod *corev1.Pod) {
	t.mu.Lock()
	same := t.pod.Name == pod.Name && !t.gone
	last := t.pod
	t.mu.Unlock()
	if same {
		t.update(last, true)
	}
}

// state returns the pod, whether it is gone, and what closes when either
// changes.
func (t *track) state() (pod *corev1.Pod, gone bool, wake <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.pod, t.gone, t.wake
}

func rawFrom(version string) *metav1.ListOptions {
	return &metav1.ListOptions{ResourceVersion: version, AllowWatchBookmarks: true}
}
