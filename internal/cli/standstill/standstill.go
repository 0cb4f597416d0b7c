// Package standstill owns the marks by which the scheduler is told to start
// nothing new, everywhere or in one queue: how they are set, cleared, read and
// put into words. What runs goes on under all of them.
//
// It must not know any command, nor how the scheduler obeys.
package standstill

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/queue/survey"
)

// Standstill is one mark.
type Standstill struct {
	// Queue is the queue that it is for; empty for everything.
	Queue string `json:"queue,omitempty"`
	// Login is the user of the queue to show, on a machine of several users.
	Login string `json:"login,omitempty"`
	// Who set it, as user@host; empty where that is not known.
	Who string `json:"who,omitempty"`
	// Since is when it was set, to the second; zero where that is not known.
	Since time.Time `json:"since,omitzero"`
	// Why is the reason that was given, if any was.
	Why string `json:"why,omitempty"`
}

// value is the mark as it is written: "<who> <when> <why>".
func (s Standstill) value() string {
	who := strings.Join(strings.Fields(s.Who), "-")
	if who == "" {
		who = "unknown"
	}
	words := append([]string{who, s.Since.UTC().Format(time.RFC3339)}, strings.Fields(s.Why)...)
	return strings.Join(words, " ")
}

// parse reads a mark. One that was written by hand in another way is a mark as
// well: all of it is the reason then.
func parse(queue, text string) *Standstill {
	text = strings.TrimSpace(text)
	who, rest, _ := strings.Cut(text, " ")
	when, why, _ := strings.Cut(rest, " ")
	since, err := time.Parse(time.RFC3339, when)
	if err != nil {
		return &Standstill{Queue: queue, Why: text}
	}
	return &Standstill{Queue: queue, Who: who, Since: since, Why: why}
}

// String says what stands still, since when, by whom and why: "scheduling is
// paused since 2026-03-01 14:02 by ada@box: new switches".
func (s Standstill) String() string {
	words := "scheduling is paused"
	switch {
	case s.Login != "":
		words = "the queue of " + s.Login + " is stopped"
	case s.Queue != "":
		words = "queue " + s.Queue + " is stopped"
	}
	if !s.Since.IsZero() {
		words += " since " + s.Since.Local().Format("2006-01-02 15:04")
	}
	if s.Who != "" {
		words += " by " + s.Who
	}
	if s.Why != "" {
		words += ": " + s.Why
	}
	return words
}

// Remedy is the command that ends it.
func (s Standstill) Remedy() string {
	if s.Queue != "" {
		return "muster unpause --queue " + s.Queue
	}
	return "muster unpause"
}

// Everywhere returns the mark that stops everything; nil if there is none.
func Everywhere(ctx context.Context, reader client.Reader) (*Standstill, error) {
	_, mark, err := system(ctx, reader)
	return mark, err
}

// system reads the namespace that bears the mark for everything, and the mark.
// A namespace that does not exist is returned without a version.
func system(ctx context.Context, reader client.Reader) (*corev1.Namespace, *Standstill, error) {
	namespace := &corev1.Namespace{}
	err := reader.Get(ctx, client.ObjectKey{Name: v1alpha1.SystemNamespace}, namespace)
	if client.IgnoreNotFound(err) != nil {
		return nil, nil, fmt.Errorf("reading whether scheduling is paused: %w", err)
	}
	namespace.Name = v1alpha1.SystemNamespace
	if text := namespace.Annotations[v1alpha1.AnnotationPaused]; text != "" {
		return namespace, parse("", text), nil
	}
	return namespace, nil, nil
}

// Of lists the marks that keep the jobs of a queue from starting: that for
// everything, that of the queue, and those of the queues above it.
func Of(ctx context.Context, reader client.Reader, queue string) ([]Standstill, error) {
	var marks []Standstill
	all, err := Everywhere(ctx, reader)
	if err != nil {
		return nil, err
	}
	if all != nil {
		marks = append(marks, *all)
	}
	if queue == "" {
		queue = v1alpha1.DefaultQueue
	}
	for seen := map[string]bool{}; queue != "" && !seen[queue]; {
		seen[queue] = true
		var object v1alpha1.Queue
		err := reader.Get(ctx, client.ObjectKey{Name: queue}, &object)
		if apierrors.IsNotFound(err) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("reading queue %s: %w", queue, err)
		}
		if mark := stopped(&object); mark != nil {
			marks = append(marks, *mark)
		}
		queue = object.Spec.Parent
	}
	return marks, nil
}

// stopped is a queue's own mark; nil if it is not stopped, whatever else it
// says.
func stopped(object *v1alpha1.Queue) *Standstill {
	if !object.Spec.Stopped {
		return nil
	}
	if text := object.Annotations[v1alpha1.AnnotationPaused]; text != "" {
		return parse(object.Name, text)
	}
	return &Standstill{Queue: object.Name}
}

// Set marks everything, or the queue that the mark names. Where there is a mark
// already it stays as it is and is returned.
func Set(ctx context.Context, c client.Client, mark Standstill) (before *Standstill, err error) {
	if mark.Queue != "" {
		return setQueue(ctx, c, mark)
	}
	namespace, before, err := system(ctx, c)
	if before != nil || err != nil {
		return before, err
	}
	from := namespace.DeepCopy()
	metav1.SetMetaDataAnnotation(&namespace.ObjectMeta, v1alpha1.AnnotationPaused, mark.value())
	if err := write(ctx, c, from, namespace); err != nil {
		return nil, fmt.Errorf("pausing scheduling: %w", err)
	}
	return nil, nil
}

// write patches an object, or creates one that has no version.
func write(ctx context.Context, c client.Client, from, to client.Object) error {
	if to.GetResourceVersion() == "" {
		return c.Create(ctx, to)
	}
	return c.Patch(ctx, to, client.MergeFrom(from))
}

// Clear takes the mark away from everything, or from a queue, and returns it;
// nil if there was none.
func Clear(ctx context.Context, c client.Client, queue string) (before *Standstill, err error) {
	if queue != "" {
		return clearQueue(ctx, c, queue)
	}
	namespace, before, err := system(ctx, c)
	if before == nil || err != nil {
		return nil, err
	}
	from := namespace.DeepCopy()
	delete(namespace.Annotations, v1alpha1.AnnotationPaused)
	if err := write(ctx, c, from, namespace); err != nil {
		return nil, fmt.Errorf("going on with scheduling: %w", err)
	}
	return before, nil
}

func setQueue(ctx context.Context, c client.Client, mark Standstill) (*Standstill, error) {
	object, err := find(ctx, c, mark.Queue)
	if err != nil {
		return nil, err
	}
	if before := stopped(object); before != nil {
		return before, nil
	}
	from := object.DeepCopy()
	object.Spec.Stopped = true
	metav1.SetMetaDataAnnotation(&object.ObjectMeta, v1alpha1.AnnotationPaused, mark.value())
	if err := write(ctx, c, from, object); err != nil { // the default queue may not have been made yet
		return nil, fmt.Errorf("stopping queue %s: %w", mark.Queue, err)
	}
	return nil, nil
}

func clearQueue(ctx context.Context, c client.Client, name string) (*Standstill, error) {
	object, err := find(ctx, c, name)
	if err != nil {
		return nil, err
	}
	before := stopped(object)
	if before == nil {
		return nil, nil
	}
	from := object.DeepCopy()
	object.Spec.Stopped = false
	delete(object.Annotations, v1alpha1.AnnotationPaused)
	if err := c.Patch(ctx, object, client.MergeFrom(from)); err != nil {
		return nil, fmt.Errorf("going on with queue %s: %w", name, err)
	}
	return before, nil
}

// find reads a queue. One that does not exist is an error of exit code 3 that
// names the nearest there is; the default queue always exists.
func find(ctx context.Context, reader client.Reader, name string) (*v1alpha1.Queue, error) {
	var queues v1alpha1.QueueList
	if err := reader.List(ctx, &queues); err != nil {
		return nil, fmt.Errorf("listing the queues: %w", err)
	}
	for i := range queues.Items {
		if queues.Items[i].Name == name {
			return &queues.Items[i], nil
		}
	}
	if err := survey.Missing(name, queues.Items); err != nil {
		return nil, err
	}
	return &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: name}}, nil
}
