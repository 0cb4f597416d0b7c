package kubeflow

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	kubeflowv1 "github.com/muster-dev/muster/api/kubeflow/v1"
	"github.com/muster-dev/muster/api/v1alpha1"
)

// world is an API server with one TFJob, and the controller.
type world struct {
	t *testing.T
	client.Client
	reconciler *reconciler
	events     *events.FakeRecorder
	now        time.Time
	// writes are the writes so far; fail is asked before each.
	writes []string
	fail   func(write string) error
	mu     sync.Mutex
}

// testScheme knows the kinds of kubeflow.org as nothing in particular, as the
// product's does.
var testScheme = sync.OnceValues(func() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	for _, d := range doors {
		s.AddKnownTypeWithName(d.gvk(), &unstructured.Unstructured{})
		s.AddKnownTypeWithName(d.gvk().GroupVersion().WithKind(d.kind+"List"), &unstructured.UnstructuredList{})
	}
	s.AddKnownTypeWithName(definitions, &unstructured.Unstructured{})
	return s, errors.Join(clientgoscheme.AddToScheme(s), v1alpha1.AddToScheme(s))
})

var definitions = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}

// newWorld has a job, and its kind's definition with these labels.
func newWorld(t *testing.T, text string, labels map[string]string) *world {
	t.Helper()
	scheme, err := testScheme()
	if err != nil {
		t.Fatal(err)
	}
	object := manifest(t, text)
	crd := &unstructured.Unstructured{}
	crd.SetGroupVersionKind(definitions)
	crd.SetName(doors[0].definition())
	crd.SetLabels(labels)
	w := &world{t: t, events: events.NewFakeRecorder(100), now: start}
	note := func(verb string, o client.Object) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		write := fmt.Sprintf("%s %T", verb, o)
		write = strings.NewReplacer("*unstructured.Unstructured", "job", "*v1alpha1.TrainingJob", "training", "*v1.Service", "service").Replace(write)
		if w.fail != nil {
			if err := w.fail(write); err != nil {
				return err
			}
		}
		w.writes = append(w.writes, write)
		return nil
	}
	status := doors[0].empty()
	w.Client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(object, crd).WithStatusSubresource(status, &v1alpha1.TrainingJob{}).
		WithInterceptorFuncs(interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				if err := note("create", o); err != nil {
					return err
				}
				o.SetUID("made-" + types.UID(o.GetName()))
				return c.Create(ctx, o, opts...)
			},
			Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
				if err := note("patch", o); err != nil {
					return err
				}
				return c.Patch(ctx, o, p, opts...)
			},
			SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
				if err := note(sub, o); err != nil {
					return err
				}
				return c.SubResource(sub).Patch(ctx, o, p, opts...)
			},
		}).Build()
	w.reconciler = &reconciler{door: doors[0], cache: w.Client, live: w.Client, client: w.Client, recorder: w.events, now: func() time.Time { return w.now }}
	return w
}

func (w *world) reconcile() (ctrl.Result, error) {
	return w.reconciler.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "vision", Name: "mnist"}})
}

func (w *world) settle() {
	w.t.Helper()
	for range 3 {
		if _, err := w.reconcile(); err != nil {
			w.t.Fatal(err)
		}
	}
}

// job is the job as it is now, nil if it is gone.
func (w *world) job() *job {
	w.t.Helper()
	o := doors[0].empty()
	err := w.Get(w.t.Context(), types.NamespacedName{Namespace: "vision", Name: "mnist"}, o)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return newJob(doors[0], o)
}

// training is the TrainingJob, nil if there is none.
func (w *world) training() *v1alpha1.TrainingJob {
	w.t.Helper()
	t := &v1alpha1.TrainingJob{}
	err := w.Get(w.t.Context(), types.NamespacedName{Namespace: "vision", Name: "mnist"}, t)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return t
}

// becomes sets the TrainingJob's status, as its controller would.
func (w *world) becomes(phase v1alpha1.JobPhase) {
	w.t.Helper()
	t := w.training()
	t.Status.Phase = phase
	if phase == v1alpha1.JobSucceeded {
		done := metav1.NewTime(w.now)
		t.Status.FinishTime = &done
	}
	if err := w.Status().Update(w.t.Context(), t); err != nil {
		w.t.Fatal(err)
	}
}

var opened = map[string]string{kubeflowv1.LabelDoor: kubeflowv1.DoorOpen}

// TestLife runs a job from its creation to its deletion.
func TestLife(t *testing.T) {
	w := newWorld(t, with(t, mnist, "spec:\n", "spec:\n  runPolicy: {ttlSecondsAfterFinished: 60}\n"), opened)
	w.settle()
	want := []string{"status job", "create training", "create service", "create service", "create service", "create service", "create service", "create service"}
	if diff := cmp.Diff(want, w.writes); diff != "" {
		t.Errorf("it is not claimed first, or something is written again (-want +got):\n%s", diff)
	}
	var services corev1.ServiceList
	if err := w.List(t.Context(), &services, client.InNamespace("vision")); err != nil || len(services.Items) != 6 {
		t.Errorf("%d services, %v", len(services.Items), err)
	}
	w.becomes(v1alpha1.JobRunning)
	w.settle()
	w.now = w.now.Add(time.Minute)
	w.becomes(v1alpha1.JobSucceeded)
	w.settle()
	j := w.job()
	if got := show(&j.status); got != "+TFJobCreated -TFJobRunning +TFJobSucceeded" || j.status.ReplicaStatuses["PS"].Succeeded != 2 {
		t.Errorf("%s, %+v", got, j.status.ReplicaStatuses["PS"])
	}
	if result, err := w.reconcile(); err != nil || result.RequeueAfter != time.Minute {
		t.Errorf("looks again after %s, %v", result.RequeueAfter, err)
	}
	w.now = w.now.Add(time.Minute)
	if _, err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	if w.job() != nil {
		t.Error("it is still there after its time to live")
	}
	if len(w.events.Events) != 1 {
		t.Errorf("%d events, want that of the end", len(w.events.Events))
	}
}

func TestSuspension(t *testing.T) {
	w := newWorld(t, mnist, opened)
	w.settle()
	o := doors[0].empty()
	must(t, w.Get(t.Context(), types.NamespacedName{Namespace: "vision", Name: "mnist"}, o))
	for _, suspend := range []bool{true, false} {
		must(t, unstructured.SetNestedField(o.Object, suspend, "spec", "runPolicy", "suspend"))
		must(t, w.Update(t.Context(), o))
		w.settle()
		if got := w.training().Spec.Suspend; got != suspend {
			t.Errorf("suspend is %v, want %v", got, suspend)
		}
	}
}

func TestNothingIsWrittenToTheJobsOfOthers(t *testing.T) {
	for name, tt := range map[string]struct {
		text   string
		labels map[string]string
	}{
		"another manager":           {with(t, mnist, "spec:\n", "spec:\n  runPolicy: {managedBy: kueue.x-k8s.io/multikueue}\n"), opened},
		"a definition of others":    {mnist, nil},
		"a door that is closed":     {mnist, map[string]string{kubeflowv1.LabelDoor: "closed"}},
		"a job that others begun":   {mnist + "status: {conditions: [{type: Created, status: 'True', reason: TFJobCreated, message: TFJob mnist is created.}]}\n", opened},
		"unknown fields of another": {with(t, mnist, "spec:\n", "spec:\n  pods: 3\n  runPolicy: {managedBy: other/one}\n"), opened},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, tt.text, tt.labels)
			w.settle()
			if len(w.writes) != 0 || w.training() != nil {
				t.Errorf("written: %q", w.writes)
			}
		})
	}
}

func TestFaults(t *testing.T) {
	gr := schema.GroupResource{Group: v1alpha1.GroupVersion.Group, Resource: "trainingjobs"}
	tests := []struct {
		name string
		// at is the write that fails, once or always, with err.
		at     string
		err    error
		always bool
		// begun is whether a TrainingJob is there in the end.
		begun   bool
		shown   string
		message string
		retry   time.Duration
	}{
		{
			name: "somebody else writes the status first", at: "status job", err: apierrors.NewConflict(gr, "mnist", errors.New("changed")),
			begun: true, shown: "+TFJobCreated", retry: time.Millisecond,
		},
		{
			name: "the TrainingJob is invalid", at: "create training", always: true,
			err:   apierrors.NewInvalid(v1alpha1.GroupVersion.WithKind("TrainingJob").GroupKind(), "mnist", field.ErrorList{field.Invalid(field.NewPath("metadata"), "x", "the name may have at most 48 characters")}),
			shown: "+TFJobCreated +TFJobFailedValidation", message: "the name may have at most 48 characters",
		},
		{
			name: "it is not allowed now", at: "create training", always: true, err: apierrors.NewForbidden(gr, "mnist", errors.New("exceeded quota: small")),
			shown: "+TFJobCreated", message: "exceeded quota: small", retry: forbiddenRetry,
		},
		{name: "a service is not made", at: "create service", err: errors.New("lost"), begun: true, shown: "+TFJobCreated"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, mnist, opened)
			failed := false
			w.fail = func(write string) error {
				if write != tt.at || failed && !tt.always {
					return nil
				}
				failed = true
				return tt.err
			}
			result, err := w.reconcile()
			if err == nil && result.RequeueAfter != tt.retry || err != nil && !strings.Contains(err.Error(), tt.err.Error()) {
				t.Errorf("result %v, %v", result, err)
			}
			if tt.at == "status job" && slices.Contains(w.writes, "create training") {
				t.Error("something is made of a job that is not claimed")
			}
			w.settle()
			j := w.job()
			if got := show(&j.status); got != tt.shown || !strings.Contains(said(&j.status), tt.message) {
				t.Errorf("%s: %s", got, said(&j.status))
			}
			if (w.training() != nil) != tt.begun {
				t.Errorf("there is a TrainingJob: %v", w.training() != nil)
			}
		})
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
