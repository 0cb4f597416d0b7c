package trainingjob

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/environment"
	"github.com/muster-dev/muster/internal/environment/source"
)

const digest = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// job builds TrainingJobs.
type job struct{ *v1alpha1.TrainingJob }

func newJob(name string) job {
	return job{&v1alpha1.TrainingJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: "vision", Name: name, UID: types.UID("uid-" + name), Generation: 1},
		Spec:       v1alpha1.TrainingJobSpec{Framework: v1alpha1.FrameworkTensorFlow, Code: &v1alpha1.Code{Snapshot: digest}},
	}}
}

func (j job) role(name string, n int32, script string) job {
	j.Spec.Roles = append(j.Spec.Roles, v1alpha1.Role{Name: name, Replicas: &n, Script: script})
	return j
}

func (j job) with(change func(*v1alpha1.TrainingJobSpec)) job {
	change(&j.Spec)
	return j
}

func (j job) requirements(text string) job {
	j.Spec.Environment = &v1alpha1.Environment{Requirements: text}
	return j
}

// makers stand for code and environments: what they answer is the test's.
type makers struct {
	mu       sync.Mutex
	fetch    source.State
	build    environment.State
	snapshot map[string][]string
	changes  chan string
	asked    []environment.Request
	owners   []string
	// away is why the store does not answer, and unread why it does not say what
	// is in a snapshot.
	away, unread error
	// parts are those of all snapshots, by path.
	parts map[string]source.Part
}

func newMakers() *makers {
	return &makers{
		fetch:    source.State{Phase: source.Fetching, Message: "fetching http://host/train.py", File: "train.py"},
		build:    environment.State{Phase: environment.Ready, Key: "key", Path: "/envs/key/venv"},
		snapshot: map[string][]string{digest: {"train.py", "ps.py"}},
		changes:  make(chan string),
	}
}

func (m *makers) Changes() <-chan string { return m.changes }

func (m *makers) Ensure(_ *v1alpha1.TrainingJob, r environment.Request) environment.State {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked = append(m.asked, r)
	return m.build
}

// fetches is the code's side.
type fetches struct{ *makers }

func (m fetches) Ensure(owner, _ string) source.State {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.owners = append(m.owners, owner)
	return m.fetch
}

func (m fetches) Has(_, d string) (bool, error) { return m.snapshot[d] != nil, m.away }

func (m fetches) Contains(_, d, path string) (bool, error) {
	if m.unread != nil {
		return false, m.unread
	}
	for _, p := range m.snapshot[d] {
		if p == path {
			return true, nil
		}
	}
	return false, nil
}

func (m fetches) Part(_, _, path string) (source.Part, error) {
	if m.unread != nil {
		return source.Part{}, m.unread
	}
	if p, ok := m.parts[path]; ok {
		return p, nil
	}
	return source.Part{}, source.ErrNoPart
}

// world is an API server, the controller and its clock.
type world struct {
	t *testing.T
	client.Client
	controller *Controller
	makers     *makers
	events     *events.FakeRecorder
	now        time.Time
	// fail is asked before each write.
	fail func(verb string, o client.Object) error
}

// testScheme is made once: making it takes longer than most tests.
var testScheme = sync.OnceValues(func() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	return s, errors.Join(clientgoscheme.AddToScheme(s), v1alpha1.AddToScheme(s))
})

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	scheme, err := testScheme()
	must(t, err)
	w := &world{t: t, makers: newMakers(), events: events.NewFakeRecorder(100), now: start}
	uids := 0
	var mu sync.Mutex
	try := func(verb string, o client.Object) error {
		mu.Lock()
		defer mu.Unlock()
		if w.fail == nil {
			return nil
		}
		return w.fail(verb, o)
	}
	w.Client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&v1alpha1.TrainingJob{}, &v1alpha1.Gang{}).
		WithInterceptorFuncs(interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				if err := try("create", o); err != nil {
					return err
				}
				mu.Lock()
				uids++
				o.SetUID(types.UID(fmt.Sprint("made-", uids)))
				mu.Unlock()
				return c.Create(ctx, o, opts...)
			},
			Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
				if err := try("patch", o); err != nil {
					return err
				}
				return c.Patch(ctx, o, p, opts...)
			},
			Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
				if err := try("delete", o); err != nil {
					return err
				}
				return c.Delete(ctx, o, opts...)
			},
			SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
				if err := try("patch "+sub, o); err != nil {
					return err
				}
				return c.SubResource(sub).Patch(ctx, o, p, opts...)
			},
		}).Build()
	w.controller = New(Deps{Sources: fetches{w.makers}, Environments: w.makers, HostImage: hostImage, Now: func() time.Time { return w.now }})
	w.controller.client, w.controller.recorder = w.Client, w.events
	return w
}

// reconcile lets the controller look at the job once.
func (w *world) reconcile(name string) (ctrl.Result, error) {
	return w.controller.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "vision", Name: name}})
}

// settle lets it look a few times, as changes of what it wrote would.
func (w *world) settle(name string) {
	w.t.Helper()
	for range 3 {
		_, err := w.reconcile(name)
		must(w.t, err)
	}
}

func (w *world) job(name string) *v1alpha1.TrainingJob {
	w.t.Helper()
	j := &v1alpha1.TrainingJob{}
	must(w.t, w.Get(w.t.Context(), types.NamespacedName{Namespace: "vision", Name: name}, j))
	return j
}

func (w *world) gang(name string) *v1alpha1.Gang {
	w.t.Helper()
	g := &v1alpha1.Gang{}
	must(w.t, w.Get(w.t.Context(), types.NamespacedName{Namespace: "vision", Name: name}, g))
	return g
}

// gangIs sets the gang's status, as its controller would.
func (w *world) gangIs(name string, change func(*v1alpha1.GangStatus)) {
	w.t.Helper()
	g := w.gang(name)
	change(&g.Status)
	must(w.t, w.Status().Update(w.t.Context(), g))
}

// change edits the job's spec, as a user would.
func (w *world) change(name string, change func(*v1alpha1.TrainingJobSpec)) {
	w.t.Helper()
	j := w.job(name)
	change(&j.Spec)
	j.Generation++
	must(w.t, w.Update(w.t.Context(), j))
}

// objects counts what exists beside jobs.
func (w *world) objects() string {
	w.t.Helper()
	var gangs v1alpha1.GangList
	var services corev1.ServiceList
	var claims corev1.PersistentVolumeClaimList
	must(w.t, w.List(w.t.Context(), &gangs))
	must(w.t, w.List(w.t.Context(), &services))
	must(w.t, w.List(w.t.Context(), &claims))
	return fmt.Sprintf("%d gangs, %d services, %d claims", len(gangs.Items), len(services.Items), len(claims.Items))
}

func (w *world) told() []string {
	var out []string
	for {
		select {
		case e := <-w.events.Events:
			out = append(out, e)
		default:
			return out
		}
	}
}

func quantity(s string) *resource.Quantity {
	q := resource.MustParse(s)
	return &q
}
