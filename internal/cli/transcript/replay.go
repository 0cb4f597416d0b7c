package transcript

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/internal/cli/member"
)

// Replay is reading what a job's members have written so far.
type Replay struct {
	// Source and Archive open logs.
	Source  Source
	Archive Archive
	// Printer prints them.
	Printer *Printer
	// Job is the job's name.
	Job string
	// Pods are its pods now.
	Pods []corev1.Pod
	// Want chooses members. Default: all.
	Want func(member.Member) bool
	// Since leaves out older lines. Zero: none.
	Since time.Time
	// Tail is how many of each member's last lines to print; negative: all.
	Tail int64
	// Previous reads what the pods before the present ones wrote.
	Previous bool
}

// stream is one member's output, with its next line.
type stream struct {
	member member.Member
	in     io.ReadCloser
	lines  *lines
	head   line
}

// Run prints the output of all members, merged by time, and returns how many
// members had any log at all.
func (r *Replay) Run(ctx context.Context) (members int, err error) {
	streams, err := r.open(ctx)
	defer func() {
		for _, s := range streams {
			err = errors.Join(err, s.in.Close())
		}
	}()
	if err != nil {
		return 0, err
	}
	members = len(streams)
	live := make([]*stream, 0, len(streams))
	for _, s := range streams {
		ok, err := r.advance(s)
		if err != nil {
			return members, err
		}
		if ok {
			live = append(live, s)
		}
	}
	for len(live) > 0 {
		if err := ctx.Err(); err != nil {
			return members, err
		}
		first := slices.MinFunc(live, func(a, b *stream) int {
			return cmp.Or(a.head.at.Compare(b.head.at), member.Compare(a.member, b.member))
		})
		if err := r.Printer.print(first.member, first.head); err != nil {
			return members, err
		}
		ok, err := r.advance(first)
		if err != nil {
			return members, err
		}
		if !ok {
			live = slices.DeleteFunc(live, func(s *stream) bool { return s == first })
		}
	}
	return members, nil
}

// advance reads a stream's next line that is young enough.
func (r *Replay) advance(s *stream) (bool, error) {
	for {
		next, err := s.lines.next()
		if errors.Is(err, io.EOF) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("reading the log of %s: %w", s.member, err)
		}
		if next.at.Before(r.Since) {
			continue
		}
		s.head = next
		return true, nil
	}
}

// open opens one stream for each member: of its pod, and of the archive where
// the pod is gone.
func (r *Replay) open(ctx context.Context) ([]*stream, error) {
	var streams []*stream
	present := map[string]bool{}
	for i := range r.Pods {
		pod := &r.Pods[i]
		m, ok := member.OfPod(pod)
		if !ok || r.Want != nil && !r.Want(m) || !r.Previous && !hasBegun(pod) {
			continue
		}
		opened, err := r.live(ctx, pod)
		if err != nil {
			return streams, err
		}
		present[pod.Name] = true
		if opened != nil {
			streams = append(streams, &stream{member: m, in: opened, lines: newLines(opened)})
		}
	}
	archived, err := r.Archive.Pods()
	if err != nil {
		return streams, fmt.Errorf("reading the archive of %s: %w", r.Job, err)
	}
	for _, pod := range archived {
		if !strings.HasPrefix(pod, r.Job+"-") {
			continue
		}
		m, ok := member.Parse(r.Job, pod)
		// Its pod is there, and was read or has nothing of this kind.
		if !ok || present[pod] || r.Want != nil && !r.Want(m) {
			continue
		}
		which := Latest
		if r.Previous {
			which = Earlier
		}
		opened, err := r.Archive.Open(Kept{Pod: pod, Which: which, Since: r.Since, Tail: int(r.Tail)})
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return streams, fmt.Errorf("reading the archived log of %s: %w", m, err)
		}
		streams = append(streams, &stream{member: m, in: opened, lines: newLines(opened)})
	}
	return streams, nil
}

// live opens the log of a pod that the server knows; nil where it has none. A
// member's pods before this one are in the archive, under the same name.
func (r *Replay) live(ctx context.Context, pod *corev1.Pod) (io.ReadCloser, error) {
	if r.Previous {
		opened, err := r.Archive.Open(Kept{Pod: pod.Name, Which: All, Container: member.Container(pod), Since: r.Since, Tail: int(r.Tail)})
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		return opened, err
	}
	options := &corev1.PodLogOptions{Container: member.Container(pod), Timestamps: true}
	if !r.Since.IsZero() {
		options.SinceTime = &metav1.Time{Time: r.Since}
	}
	if r.Tail >= 0 {
		options.TailLines = &r.Tail
	}
	opened, err := r.Source.Open(ctx, pod.Namespace, pod.Name, options)
	if apierrors.IsNotFound(err) {
		opened, err = r.Archive.Open(Kept{Pod: pod.Name, Which: Latest, Container: member.Container(pod), Since: r.Since, Tail: int(r.Tail)})
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("reading the log of %s: %w", pod.Name, err)
	}
	return opened, nil
}
