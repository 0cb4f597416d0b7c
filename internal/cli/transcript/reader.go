package transcript

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/internal/cli/member"
)

const (
	// pause is how long a reader waits for news of its pod before it looks
	// again.
	pause = 200 * time.Millisecond
	// archiveTries is how often a missing archive is looked for, a pause
	// apart: the node may still be writing it.
	archiveTries = 10
)

// reader prints the output of one pod, from its member's cursor on.
type reader struct {
	session *session
	track   *track
	member  member.Member
	cursor  *cursor
	// before closes when the reader of the member's earlier pod is done.
	before <-chan struct{}
}

// printError is a failure to write to the user, which nothing can mend.
type printError struct{ error }

func (p printError) Unwrap() error { return p.error }

// run reads until the pod's output has ended, or the job is over and the pod
// never began.
func (r *reader) run(ctx context.Context) error {
	if r.before != nil {
		select {
		case <-r.before:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for {
		pod, gone, wake := r.track.state()
		ended := hasEnded(pod)
		switch {
		case gone:
			return r.archived(ctx, pod, hasBegun(pod))
		case ended && !hasBegun(pod):
			return nil
		case !hasBegun(pod):
			select {
			case <-wake:
			case <-r.session.over:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
			continue
		}
		err := r.stream(ctx, pod, !ended)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil && ended:
			return nil
		case errors.As(err, new(printError)):
			return err
		case apierrors.IsNotFound(err):
			return r.archived(ctx, pod, true)
		}
		timer := time.NewTimer(pause)
		select {
		case <-wake:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// stream prints the new lines of the pod's log; with follow until it ends.
func (r *reader) stream(ctx context.Context, pod *corev1.Pod, follow bool) error {
	options := &corev1.PodLogOptions{Container: member.Container(pod), Follow: follow, Timestamps: true}
	if !r.cursor.at.IsZero() {
		options.SinceTime = &metav1.Time{Time: r.cursor.at}
	}
	if tail := r.session.Tail; tail >= 0 && r.cursor.count == 0 {
		options.TailLines = &tail
	}
	in, err := r.session.Source.Open(ctx, pod.Namespace, pod.Name, options)
	if err != nil {
		return err
	}
	err = r.copy(in)
	return errors.Join(err, in.Close())
}

// archived prints the new lines of a pod that is gone.
func (r *reader) archived(ctx context.Context, pod *corev1.Pod, began bool) error {
	tail := -1
	if r.cursor.count == 0 {
		tail = int(r.session.Tail)
	}
	for try := 0; ; try++ {
		in, err := r.session.Archive.Open(Kept{Pod: pod.Name, Container: member.Container(pod), Since: r.cursor.at, Tail: tail})
		if err == nil {
			err = r.copy(in)
			return errors.Join(err, in.Close())
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if !began || try == archiveTries {
			return nil
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}

// copy prints the lines of in that are new.
func (r *reader) copy(in io.Reader) error {
	from := pass{from: *r.cursor}
	all := newLines(in)
	for {
		l, err := all.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if !from.fresh(r.cursor, l) {
			continue
		}
		if err := r.session.Printer.print(r.member, l); err != nil {
			return printError{err}
		}
	}
}

// hasBegun reports whether the pod's member has ever run.
func hasBegun(pod *corev1.Pod) bool {
	for _, status := range pod.Status.ContainerStatuses {
		if status.Name == member.Container(pod) {
			return status.State.Running != nil || status.State.Terminated != nil || status.LastTerminationState.Terminated != nil
		}
	}
	return false
}

// hasEnded reports whether the pod's member will not run again.
func hasEnded(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}
