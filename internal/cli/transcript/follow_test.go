package transcript

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/member"
	"github.com/muster-dev/muster/internal/cli/terminal"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// said is a log: lines that begin with "<milliseconds> ".
func said(lines ...string) string {
	var text strings.Builder
	for _, l := range lines {
		var at int
		var rest string
		_, _ = fmt.Sscanf(l, "%d", &at)
		_, rest, _ = strings.Cut(l, " ")
		fmt.Fprintf(&text, "%s %s\n", epoch.Add(time.Duration(at)*time.Millisecond).Format(time.RFC3339Nano), rest)
	}
	return text.String()
}

// openings is a Source: what each opening of a pod's log gives, in turn.
type openings struct {
	mu    sync.Mutex
	steps map[string][]opening
}

type opening struct {
	text string
	// fails ends the reading, or the opening where text is empty.
	fails error
	// until keeps the log open after its text.
	until <-chan struct{}
	// opened is closed when it is opened.
	opened chan struct{}
}

func (o *openings) Open(ctx context.Context, _, pod string, _ *corev1.PodLogOptions) (io.ReadCloser, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.steps[pod]) == 0 {
		return nil, apierrors.NewNotFound(corev1.Resource("pods"), pod)
	}
	step := o.steps[pod][0]
	o.steps[pod] = o.steps[pod][1:]
	if step.opened != nil {
		close(step.opened)
	}
	if step.text == "" && step.fails != nil {
		return nil, step.fails
	}
	return io.NopCloser(io.MultiReader(strings.NewReader(step.text), &ending{ctx: ctx, opening: step})), nil
}

// ending ends a log as its opening says.
type ending struct {
	ctx     context.Context
	opening opening
}

func (e *ending) Read([]byte) (int, error) {
	if e.opening.until != nil {
		select {
		case <-e.opening.until:
		case <-e.ctx.Done():
			return 0, e.ctx.Err()
		}
	}
	if e.opening.fails != nil {
		return 0, e.opening.fails
	}
	return 0, io.EOF
}

// kept is an Archive.
type kept map[string]string

func (k kept) Pods() ([]string, error) {
	var names []string
	for name := range k {
		names = append(names, name)
	}
	return names, nil
}

func (k kept) Open(which Kept) (io.ReadCloser, error) {
	text, ok := k[which.Pod]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return io.NopCloser(strings.NewReader(text)), nil
}

// world is a server with one job.
type world struct {
	client.WithWatch
	t        *testing.T
	watching chan struct{}
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, watching: make(chan struct{}, 16)}
	w.WithWatch = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&v1alpha1.TrainingJob{}, &corev1.Pod{}).
		WithIndex(&v1alpha1.TrainingJob{}, "metadata.name", func(o client.Object) []string { return []string{o.GetName()} }).
		WithInterceptorFuncs(interceptor.Funcs{Watch: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) (watch.Interface, error) {
			watcher, err := c.Watch(ctx, list, options...)
			w.watching <- struct{}{}
			return watcher, err
		}}).Build()
	return w
}

// ready returns once both kinds are watched.
func (w *world) ready() {
	w.t.Helper()
	for range 2 {
		select {
		case <-w.watching:
		case <-time.After(10 * time.Second):
			w.t.Fatal("nobody watches")
		}
	}
}

func (w *world) status(object client.Object) {
	w.t.Helper()
	if err := w.Status().Update(w.t.Context(), object); err != nil {
		w.t.Fatal(err)
	}
}

func job(replicas int32) *v1alpha1.TrainingJob {
	return &v1alpha1.TrainingJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "mnist", UID: "job"},
		Spec:       v1alpha1.TrainingJobSpec{Roles: []v1alpha1.Role{{Name: "worker", Replicas: &replicas}}},
	}
}

func running(uid string, index int) *corev1.Pod {
	m := member.Member{Role: "worker", Index: index}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: m.Pod("mnist"), UID: types.UID(uid),
			Labels: map[string]string{v1alpha1.LabelJob: "mnist", v1alpha1.LabelRole: "worker", v1alpha1.LabelIndex: fmt.Sprint(index)},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main"}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{
			{Name: "main", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
		}},
	}
}

func end(pod *corev1.Pod, code int32) *corev1.Pod {
	pod.Status.Phase = corev1.PodSucceeded
	if code != 0 {
		pod.Status.Phase = corev1.PodFailed
	}
	pod.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code}}
	return pod
}

func finish(j *v1alpha1.TrainingJob, phase v1alpha1.JobPhase) *v1alpha1.TrainingJob {
	j.Status.Phase = phase
	j.Status.StartTime = &metav1.Time{Time: epoch}
	j.Status.DrainedTime = &metav1.MicroTime{Time: epoch}
	return j
}

// follow runs Follow in the background.
func follow(t *testing.T, w *world, j *v1alpha1.TrainingJob, source Source, archive Archive) (wait func() (Outcome, string, error)) {
	t.Helper()
	var out bytes.Buffer
	attendance := Attendance{
		Client: w, Source: source, Archive: archive, Job: j.DeepCopy(), Tail: -1,
		Printer: NewPrinter(&out, terminal.Coloured(false), member.Of(j), false),
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	type result struct {
		outcome Outcome
		err     error
	}
	done := make(chan result, 1)
	go func() {
		outcome, err := attendance.Follow(ctx)
		done <- result{outcome, err}
	}()
	return func() (Outcome, string, error) {
		r := <-done
		return r.outcome, out.String(), r.err
	}
}

// A stream that breaks goes on behind the last line that was printed, also
// where several lines bear one time.
func TestFollowContinuesAfterBreaks(t *testing.T) {
	j, pod := job(1), running("a", 0)
	w := newWorld(t, j, pod)
	closed, opened := make(chan struct{}), make(chan struct{})
	source := &openings{steps: map[string][]opening{pod.Name: {
		{fails: apierrors.NewServiceUnavailable("starting")},
		{text: said("1 one", "2 two", "2 two"), fails: errors.New("connection reset")},
		{text: said("2 two", "2 two", "2 more", "3 three"), until: closed, opened: opened},
		{text: said("2 two", "2 two", "2 more", "3 three", "4 four")},
	}}}
	wait := follow(t, w, j, source, kept{})
	w.ready()
	<-opened
	w.status(end(pod, 7))
	w.status(finish(j, v1alpha1.JobFailed))
	close(closed)
	outcome, text, err := wait()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("one\ntwo\ntwo\nmore\nthree\nfour\n", text); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
	if outcome.Code() != 7 {
		t.Errorf("exit code %d, want the script's 7", outcome.Code())
	}
}

// The tail of a pod that is deleted while it is read comes from the archive,
// and the pod that replaces it is read after it.
func TestFollowRestartedMember(t *testing.T) {
	j, pod := job(2), running("a", 0)
	w := newWorld(t, j, pod)
	cut := make(chan struct{})
	source := &openings{steps: map[string][]opening{
		pod.Name:         {{text: said("1 begun"), until: cut, fails: errors.New("gone")}, {text: said("11 begun again")}},
		"mnist-worker-1": {{text: said("5 here")}},
	}}
	archive := kept{pod.Name: said("1 begun", "2 broke")}
	wait := follow(t, w, j, source, archive)
	w.ready()
	if err := w.Delete(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	close(cut)
	again, other := running("b", 0), running("c", 1)
	for _, p := range []*corev1.Pod{again, other} {
		if err := w.Create(t.Context(), end(p, 0)); err != nil {
			t.Fatal(err)
		}
	}
	w.status(finish(j, v1alpha1.JobSucceeded))
	outcome, text, err := wait()
	if err != nil {
		t.Fatal(err)
	}
	var first []string
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "worker-0 | ") {
			first = append(first, strings.TrimSpace(line))
		}
	}
	if diff := cmp.Diff([]string{"worker-0 | begun", "worker-0 | broke", "worker-0 | begun again"}, first); diff != "" {
		t.Errorf("output of worker-0 (-want +got):\n%s", diff)
	}
	if !strings.Contains(text, "worker-1 | here\n") {
		t.Errorf("worker-1 is missing:\n%s", text)
	}
	if outcome.Code() != exit.OK {
		t.Errorf("exit code %d", outcome.Code())
	}
}

// A pod that came and went before anybody looked is read from the archive.
func TestFollowUnseenPod(t *testing.T) {
	j := job(1)
	w := newWorld(t, j)
	wait := follow(t, w, j, &openings{}, kept{"mnist-worker-0": said("1 quick")})
	w.ready()
	w.status(finish(j, v1alpha1.JobSucceeded))
	if _, text, err := wait(); err != nil || text != "quick\n" {
		t.Errorf("output %q, error %v", text, err)
	}
}

func TestFollowDeletedJob(t *testing.T) {
	j := job(1)
	w := newWorld(t, j)
	wait := follow(t, w, j, &openings{}, kept{})
	w.ready()
	if err := w.Delete(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	outcome, _, err := wait()
	if err != nil || !outcome.Deleted || outcome.Code() != exit.Failure {
		t.Errorf("outcome %+v, error %v", outcome, err)
	}
}

func TestOutcomeCode(t *testing.T) {
	limit := int64(60)
	started, ended := metav1.NewTime(epoch), metav1.NewTime(epoch.Add(61*time.Second))
	timedOut := job(1)
	timedOut.Spec.ActiveDeadlineSeconds = &limit
	timedOut.Status = v1alpha1.TrainingJobStatus{Phase: v1alpha1.JobFailed, StartTime: &started, FinishTime: &ended}
	first := member.Member{Role: "worker"}
	for _, test := range []struct {
		name    string
		outcome Outcome
		want    exit.Code
	}{
		{"succeeded", Outcome{Job: finish(job(1), v1alpha1.JobSucceeded)}, 0},
		{"succeeded, then deleted", Outcome{Job: finish(job(1), v1alpha1.JobSucceeded), Deleted: true}, 0},
		{"the script's code", Outcome{Job: finish(job(1), v1alpha1.JobFailed), ExitCodes: map[member.Member]int32{first: 42}}, 42},
		{"several members", Outcome{Job: finish(job(2), v1alpha1.JobFailed), ExitCodes: map[member.Member]int32{first: 42}}, 1},
		{"never started", Outcome{Job: finish(job(1), v1alpha1.JobFailed)}, 1},
		{"time limit", Outcome{Job: timedOut, ExitCodes: map[member.Member]int32{first: 143}}, 124},
	} {
		if got := test.outcome.Code(); got != test.want {
			t.Errorf("%s: %d, want %d", test.name, got, test.want)
		}
	}
}

func TestReplayMergesByTime(t *testing.T) {
	first, second := end(running("a", 0), 0), end(running("b", 1), 0)
	var out bytes.Buffer
	replay := Replay{
		Source: &openings{steps: map[string][]opening{
			first.Name:  {{text: said("1 a", "4 d\r40%\r100%", "9 i")}},
			second.Name: {{text: said("2 b", "3 c")}},
		}},
		Archive: kept{"mnist-ps-0": said("0 zero", "5 e"), "mnist-worker-1": said("1 never shown")},
		Printer: NewPrinter(&out, terminal.Coloured(false), []member.Member{{Role: "worker"}, {Role: "worker", Index: 1}, {Role: "ps"}}, false),
		Job:     "mnist", Pods: []corev1.Pod{*first, *second}, Tail: -1, Since: epoch.Add(time.Millisecond),
	}
	shown, err := replay.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := "worker-0 | a\nworker-1 | b\nworker-1 | c\nworker-0 | 100%\nps-0     | e\nworker-0 | i\n"
	if diff := cmp.Diff(want, out.String()); diff != "" || shown != 3 {
		t.Errorf("%d members; output (-want +got):\n%s", shown, diff)
	}
}

func TestLongLinesComeInPieces(t *testing.T) {
	long := strings.Repeat("x", maxLine+100)
	all := newLines(strings.NewReader(said("1 "+long) + "no time\n"))
	total := 0
	for {
		l, err := all.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(l.text) > maxLine+64<<10 || !l.at.Equal(epoch.Add(time.Millisecond)) {
			t.Errorf("a piece of %d bytes at %s", len(l.text), l.at)
		}
		total += len(l.text)
	}
	if want := len(long) + len("no time"); total != want {
		t.Errorf("%d bytes, want %d", total, want)
	}
}
