package pipeline

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/foreman/shift"
)

// says sends a worker's message to the foreman, and returns the answer.
func (r *rig) says(work string, request shift.Request) shift.Answer {
	r.Helper()
	text, err := json.Marshal(request)
	r.must(err)
	in := httptest.NewRequestWithContext(r.ctx, http.MethodPost, shift.Path+work, strings.NewReader(string(text)))
	out := httptest.NewRecorder()
	r.foreman.Load().HandlerFor(space).ServeHTTP(out, in)
	var a shift.Answer
	if err := json.Unmarshal(out.Body.Bytes(), &a); err != nil || out.Code != http.StatusOK {
		r.Fatalf("%d: %s, %v", out.Code, out.Body, err)
	}
	return a
}

// workersPod is the pod of a worker whose container has ended and begun again.
func workersPod(job, limit string, end corev1.ContainerStateTerminated) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: job + "-worker-0", Labels: map[string]string{
		v1alpha1.LabelJob: job, v1alpha1.LabelRole: workerRole, v1alpha1.LabelIndex: "0",
	}}}
	pod.Spec.Containers = []corev1.Container{{Name: "main"}}
	if limit != "" {
		pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(limit)}
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", LastTerminationState: corev1.ContainerState{Terminated: &end}}}
	return pod
}

// TestWorkerKilled: where the kernel ends a worker together with its program, the run has the
// reason that the pod's status has.
func TestWorkerKilled(t *testing.T) {
	later := metav1.NewTime(time.Now().Add(time.Hour))
	for name, c := range map[string]struct {
		limit string
		end   corev1.ContainerStateTerminated
		// gone is true if the pod was deleted, as a job does that starts again; none if there
		// was no pod.
		gone, none bool
		want       string
	}{
		"its limit":     {"64Mi", corev1.ContainerStateTerminated{Reason: "OOMKilled", ExitCode: 137, FinishedAt: later}, false, false, "OOM killed: the program and its worker need more memory than their limit of 64.0 MiB; raise the stage's memory limit"},
		"another end":   {"64Mi", corev1.ContainerStateTerminated{Reason: "Error", ExitCode: 139, FinishedAt: later}, false, false, "its worker ended (Error, exit code 139)"},
		"a deleted pod": {"64Mi", corev1.ContainerStateTerminated{Reason: "OOMKilled", ExitCode: 137, FinishedAt: later}, true, false, "OOM killed: the program and its worker need more memory than their limit of 64.0 MiB; raise the stage's memory limit"},
		"no pod of it":  {none: true, want: "its worker ended"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			r.hired = func() bool { return false } // the test is its worker
			r.put("things", map[string]string{"a": "1"})
			r.apply(strings.Replace(copies("one", ""), "- {name: copy,", "- {name: copy, tries: 1,", 1))
			run := r.look("one").Status.LastRun
			r.step(run)
			object := r.step(run)
			job, work := jobName(object, "copy"), workName(object, "copy")
			id := r.says(work, shift.Request{Worker: "a", Member: "worker/0", Want: 1}).Datums[0].ID
			r.says(work, shift.Request{Worker: "a", Member: "worker/0", Has: []string{id}, Begun: []string{id}})
			switch pod := workersPod(job, c.limit, c.end); {
			case c.gone:
				r.runs.onPods().Update(r.ctx, event.UpdateEvent{ObjectOld: pod, ObjectNew: pod}, nil)
			case !c.none:
				r.must(r.server.Create(r.ctx, pod))
			}
			r.says(work, shift.Request{Worker: "b", Member: "worker/0"})
			ended := r.finish("one")
			if ended.Status.Phase != v1alpha1.RunFailed || !strings.Contains(ended.Status.Message, "datum a failed after 1 try: "+c.want+"; its log:") {
				t.Errorf("%s: %s", ended.Status.Phase, ended.Status.Message)
			}
		})
	}
}

// TestWhoEnded: the end of another worker is no reason.
func TestWhoEnded(t *testing.T) {
	r := newRig(t, nil)
	since := time.Now()
	before := metav1.NewTime(since.Add(-time.Minute))
	r.must(r.server.Create(r.ctx, workersPod("job", "64Mi", corev1.ContainerStateTerminated{Reason: "OOMKilled", FinishedAt: before})))
	ask := r.runs.workerEnded(space, "job")
	for member, vain := range map[string]bool{"worker/0": false, "worker/1": true, "ps/0": true, "worker": true} {
		reason, none := ask(r.ctx, member, since)
		if reason != "" || none != vain {
			t.Errorf("%s: %q, vain %v", member, reason, none)
		}
	}
	if reason, _ := ask(r.ctx, "worker/0", before.Add(-time.Second)); !strings.HasPrefix(reason, "OOM killed") {
		t.Errorf("%q", reason)
	}
}
