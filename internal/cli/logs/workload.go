package logs

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubectl/pkg/polymorphichelpers"
	"k8s.io/kubectl/pkg/scheme"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/kind"
	"github.com/muster-dev/muster/internal/cli/terminal"
)

// workload is an object that is no training job.
type workload struct {
	mapping *meta.RESTMapping
	name    string
}

// workload returns the object that the first word names; nil for a training job, perhaps with a
// member: "mnist/worker-0". A word that is the name of a kind counts as a kind.
func (o *options) workload(args []string) *workload {
	word, name, found := strings.Cut(kind.Job(args[0]), "/")
	if !found || word == "" || name == "" || strings.Contains(name, "/") {
		return nil
	}
	mapper, err := o.factory.Mapper()
	if err != nil {
		return nil // no server: the arguments are checked before that error is returned
	}
	mapping, err := kind.Find(mapper, word)
	if err != nil {
		return nil
	}
	if mapping.GroupVersionKind.GroupKind() == gangs {
		args[0] = name // the members of a gang are those of its job
		return nil
	}
	return &workload{mapping: mapping, name: name}
}

var gangs = v1alpha1.GroupVersion.WithKind("Gang").GroupKind()

func (o *options) runWorkload(ctx context.Context, w workload, words []string, indexGiven bool) error {
	if o.role != "" || indexGiven {
		return exit.Usage("--role and --index name members of training jobs; %s/%s has none: give a container", w.mapping.Resource.Resource, w.name)
	}
	if err := o.check(time.Now()); err != nil {
		return err
	}
	namespace, err := o.factory.Namespace()
	if err != nil {
		return err
	}
	set, err := o.factory.Clientset()
	if err != nil {
		return err
	}
	pods, err := o.pods(ctx, set, w, namespace)
	if err != nil {
		return err
	}
	streams := containers(pods, strings.Join(words, ""))
	switch {
	case len(streams) == 0 && len(words) > 0:
		return exit.NotFound("%s/%s has no container %s", w.mapping.Resource.Resource, w.name, words[0])
	case len(streams) == 0:
		_, err := fmt.Fprintf(o.factory.Streams.Err, "%s/%s has no pods now.\n", w.mapping.Resource.Resource, w.name)
		return err
	}
	return o.print(ctx, set, streams)
}

// pods returns the pods of a workload.
func (o *options) pods(ctx context.Context, set kubernetes.Interface, w workload, namespace string) ([]corev1.Pod, error) {
	dynamic, err := o.factory.Dynamic()
	if err != nil {
		return nil, err
	}
	what := strings.ToLower(w.mapping.GroupVersionKind.Kind)
	if w.mapping.Scope.Name() != meta.RESTScopeNameNamespace {
		return nil, exit.Usage("a %s has no logs: give a pod, a deployment, a job, a service or the like", what)
	}
	found, err := dynamic.Resource(w.mapping.Resource).Namespace(namespace).Get(ctx, w.name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, exit.NotFound("there is no %s %s in namespace %s", what, w.name, namespace)
	case err != nil:
		return nil, fmt.Errorf("reading %s %s: %w", what, w.name, err)
	}
	typed, err := scheme.Scheme.New(w.mapping.GroupVersionKind)
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(found.Object, typed)
	}
	if err != nil && !runtime.IsNotRegisteredError(err) {
		return nil, fmt.Errorf("reading %s %s: %w", what, w.name, err)
	}
	if pod, ok := typed.(*corev1.Pod); ok {
		return []corev1.Pod{*pod}, nil
	}
	_, selector, err := polymorphichelpers.SelectorsForObject(typed)
	if err != nil {
		return nil, exit.Usage("a %s has no pods that its logs could come from: give a pod, a deployment, a job, a service or the like", what)
	}
	list, err := set.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector.String()})
	if err != nil {
		return nil, fmt.Errorf("listing the pods of %s %s: %w", what, w.name, err)
	}
	slices.SortFunc(list.Items, func(a, b corev1.Pod) int {
		if c := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
	return list.Items, nil
}

// stream is the output of one container.
type stream struct {
	pod       *corev1.Pod
	container string
	// name is printed before each line; empty if there is only one stream.
	name string
}

// containers lists the containers of pods, or those with a name that is not empty.
func containers(pods []corev1.Pod, name string) []stream {
	var out []stream
	for i := range pods {
		all := slices.Concat(pods[i].Spec.InitContainers, pods[i].Spec.Containers)
		for c := range all {
			if name != "" && name != all[c].Name {
				continue
			}
			called := pods[i].Name
			if len(all) > 1 && name == "" {
				called += "/" + all[c].Name
			}
			out = append(out, stream{pod: &pods[i], container: all[c].Name, name: called})
		}
	}
	if len(out) == 1 {
		out[0].name = ""
	}
	return out
}

// print prints streams, one after the other, or all as they come with --follow. It fails
// if none can be read.
func (o *options) print(ctx context.Context, set kubernetes.Interface, streams []stream) error {
	p := &printer{out: terminal.Data(o.factory.Streams.Out), guards: terminal.Is(o.factory.Streams.Out), style: o.factory.Streams.OutStyle()}
	errs := make([]error, len(streams))
	group, together := errgroup.WithContext(ctx)
	group.SetLimit(1)
	if o.follow {
		group.SetLimit(len(streams))
	}
	for i, s := range streams {
		group.Go(func() error {
			errs[i] = o.read(together, set, s, func(line []byte) error { return p.line(i, s.name, line) })
			return p.broken()
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	read := slices.Contains(errs, nil)
	failed := slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	if more := len(failed) - mostErrors; more > 0 {
		failed = append(failed[:mostErrors:mostErrors], fmt.Errorf("%d more could not be read", more))
	}
	if !read {
		return errors.Join(failed...)
	}
	for _, err := range failed {
		_, _ = fmt.Fprintln(o.factory.Streams.Err, err)
	}
	return nil
}

// mostErrors limits the number of containers whose errors are printed.
const mostErrors = 8

// read prints the lines of one container.
func (o *options) read(ctx context.Context, set kubernetes.Interface, s stream, each func([]byte) error) error {
	options := &corev1.PodLogOptions{Container: s.container, Follow: o.follow, Previous: o.previous, Timestamps: o.timestamps}
	if !o.from.IsZero() {
		options.SinceTime = &metav1.Time{Time: o.from}
	}
	if o.tail >= 0 {
		options.TailLines = &o.tail
	}
	body, err := set.CoreV1().Pods(s.pod.Namespace).GetLogs(s.pod.Name, options).Stream(ctx)
	if err != nil {
		return unread(s, err)
	}
	defer func() { _ = body.Close() }()
	lines, read := bufio.NewReaderSize(body, 64<<10), false
	for {
		line, err := lines.ReadSlice('\n') // a longer line comes in pieces
		if len(line) > 0 {
			read = true
			if err := each(line); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF) && !read && s.pod.Spec.NodeName == "": // the server has no error for it
			return fmt.Errorf("reading the logs of %s/%s: it has not started, because its pod waits for a node: `muster why pod/%[1]s` explains why", s.pod.Name, s.container)
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return fmt.Errorf("reading the logs of %s/%s: %w", s.pod.Name, s.container, err)
		}
	}
}

// unread returns the error for a container without lines. A container that has not started has a
// reason of its own, which helps more than the server's message.
func unread(s stream, err error) error {
	status := s.pod.Status
	for _, c := range slices.Concat(status.InitContainerStatuses, status.ContainerStatuses) {
		if w := c.State.Waiting; c.Name == s.container && w != nil && w.Message != "" && c.RestartCount == 0 {
			return fmt.Errorf("reading the logs of %s/%s: it has not started: %s: %s", s.pod.Name, s.container, w.Reason, w.Message)
		}
	}
	return fmt.Errorf("reading the logs of %s/%s: %w", s.pod.Name, s.container, err)
}

// printer prints lines of several streams.
type printer struct {
	mu     sync.Mutex
	out    io.Writer
	guards bool
	style  terminal.Style
	err    error
}

// line prints one line after the name of its stream, the number-th.
func (p *printer) line(number int, name string, line []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if name != "" {
		line = bytes.TrimRight(line, "\r\n")
		line = line[bytes.LastIndexByte(line, '\r')+1:] // the text that overwrites a line would overwrite the name, too
		if p.guards {
			line = []byte(terminal.Colours(string(line)))
		}
		line = fmt.Appendf(nil, "%s %s\n", p.style.Paint(terminal.Member(number), name+" |"), line)
	}
	if p.err == nil {
		_, p.err = p.out.Write(line)
	}
	return p.err
}

// broken is the error of the output after a failed write.
func (p *printer) broken() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}
